//! The limits for waits for other CPUs: a long one while no lock is held, and a short one while locks are.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{PATIENCE, comes_true_within};

/// The limit while no lock is held, in milliseconds.
static LIMIT: AtomicU64 = AtomicU64::new(PATIENCE);

/// The limit while locks are held, in milliseconds: some thousand times what a parking takes on real CPUs. Those of a
/// virtual machine may share one of the host.
const AT_ONCE: u64 = PATIENCE / 50;

/// Waits for other CPUs, to answer or to be held. Returns true if all come in time.
pub(crate) fn all_come(all: impl FnMut() -> bool) -> bool {
    comes_true_within(LIMIT.load(Ordering::Relaxed), all)
}

/// Waits for something that takes no longer than a parking. Returns true if it is true in time.
pub(super) fn at_once(holds: impl FnMut() -> bool) -> bool {
    comes_true_within(LIMIT.load(Ordering::Relaxed).min(AT_ONCE), holds)
}

/// Does something with another limit while no lock is held, in milliseconds, which the short one does not exceed. For
/// tests.
pub(crate) fn with_limit<R>(milliseconds: u64, work: impl FnOnce() -> R) -> R {
    let before = LIMIT.swap(milliseconds, Ordering::Relaxed);
    let result = work();
    LIMIT.store(before, Ordering::Relaxed);
    result
}
