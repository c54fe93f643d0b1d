//! Time that this thread had a CPU: what else the machine does is not in it.

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of this thread so far, in nanoseconds.
pub(crate) fn now() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Runs `work` and adds the nanoseconds of CPU time that it took to `total`.
pub(crate) fn timed<T>(total: &mut i64, work: impl FnOnce() -> T) -> T {
    let start = now();
    let result = work();
    *total += now() - start;
    result
}
