//! CPU time of this thread, which leaves out all other work of the machine.

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of this thread so far, in nanoseconds.
pub(crate) fn now() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Runs `work` and adds its CPU time in nanoseconds to `total`.
pub(crate) fn timed<T>(total: &mut i64, work: impl FnOnce() -> T) -> T {
    let start = now();
    let result = work();
    *total += now() - start;
    result
}
