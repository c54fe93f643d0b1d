//! This thread goes ahead of other programs while a guest is halted, if it has the permission: on a busy host, a guest would
//! stand still until the host comes back to this program.

use rustix::process::{getpriority_process, setpriority_process};

/// The highest priority.
const FIRST: i32 = -20;

/// A thread with the highest priority, until this is dropped.
pub(super) struct Ahead(Option<i32>);

impl Ahead {
    /// Raises the priority of this thread. Without the permission, nothing changes.
    pub(super) fn of_others() -> Self {
        let before = getpriority_process(None).ok();
        Self(before.filter(|_| setpriority_process(None, FIRST).is_ok()))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // A lower priority needs no permission.
            let _ = setpriority_process(None, before);
        }
    }
}
