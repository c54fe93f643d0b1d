//! A mark on a guest that this program halts: a character device without any use, `linmap-reads-PID`.
//!
//! It is made before the guest stops and removed when it runs again. If the run is killed (after SIGKILL nothing
//! cleans up), the next one finds it. The mark lives in QEMU: it ends with its guest, is never a stale file, and is
//! visible from other containers and to other users.

use super::pause::Pause;

/// The beginning of the name; a QEMU identifier begins with a letter and goes on with letters, digits and `-._`.
const PREFIX: &str = "linmap-reads-";
/// The end of the name if the gdbstub was started as well.
const STUB: &str = "-stub";

/// A mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// The process that halted the guest.
    pub(super) pid: u32,
    /// True if it started the gdbstub.
    pub(super) stub: bool,
}

impl Mark {
    /// Returns the first mark in the answer to `info chardev`.
    pub(super) fn find(chardevs: &str) -> Option<Self> {
        chardevs.lines().find_map(|line| {
            let name = line.split(": ").next()?.strip_prefix(PREFIX)?;
            let (pid, stub) = name.strip_suffix(STUB).map_or((name, false), |pid| (pid, true));
            Some(Self { pid: pid.parse().ok()?, stub })
        })
    }

    /// Returns a mark of this process.
    pub(super) fn own(stub: bool) -> Self {
        Self { pid: std::process::id(), stub }
    }

    fn name(&self) -> String {
        format!("{PREFIX}{}{}", self.pid, if self.stub { STUB } else { "" })
    }

    /// Returns the note on a mark that was found on a halted guest.
    pub(super) fn note(&self, pause: Pause) -> String {
        let what = if pause.resume { "it runs again now" } else { "`--resume` lets it run" };
        format!(
            "the guest was halted, as an earlier run (process {}) was killed while it read it; {what}",
            self.pid
        )
    }

    /// Returns the monitor command that makes it.
    pub(super) fn add(&self) -> String {
        format!("chardev-add null,id={}", self.name())
    }

    /// Returns the monitor command that removes it.
    pub(super) fn remove(&self) -> String {
        format!("chardev-remove {}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_again() {
        for stub in [false, true] {
            let mark = Mark::own(stub);
            let name = mark.add().replace("chardev-add null,id=", "");
            let answer = format!("serial0: filename=null\r\n{name}: filename=null\r\ngdb: filename=x\r\n");
            assert_eq!(Mark::find(&answer), Some(mark.clone()));
            assert_eq!(mark.remove(), format!("chardev-remove {name}"));
        }
        for none in ["", "linmap-reads-: filename=null", "linmap-reads-x: filename=null", "a: linmap-reads-1"]
        {
            assert_eq!(Mark::find(none), None, "{none}");
        }
    }
}
