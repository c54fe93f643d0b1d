//! The counter that all CPUs share, and waits that it limits.

use core::arch::asm;

use aarch64_cpu::registers::{CNTFRQ_EL0, Readable};
use kernel::patience::Patience;

use crate::cpu::relax;

/// The usual limit for a wait in milliseconds: a CPU that is a thread of a busy host may sleep for seconds.
pub(crate) const PATIENCE: u64 = 10_000;

/// Reads the counter. The barrier, right before the read, keeps it from being early.
pub(crate) fn now() -> u64 {
    let count: u64;
    // SAFETY: reading the counter has no side effect. Not `nomem`, so that accesses to memory stay where they are.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// Returns the counter's ticks in a second; 0 if the firmware has not set it.
pub(crate) fn counter_frequency() -> u64 {
    CNTFRQ_EL0.get()
}

/// Waits until something is true, for [`PATIENCE`] milliseconds at most. Returns true if it is.
pub(crate) fn comes_true(holds: impl FnMut() -> bool) -> bool {
    comes_true_within(PATIENCE, holds)
}

/// Waits until something is true, for so many milliseconds of this CPU's own looking ([`Patience`]). Returns true if
/// it is. Where the counter has no frequency, it looks twice and does not wait.
pub(crate) fn comes_true_within(milliseconds: u64, mut holds: impl FnMut() -> bool) -> bool {
    let mut patience = Patience::new(milliseconds.saturating_mul(counter_frequency()) / 1000, now());
    loop {
        if holds() {
            return true;
        }
        if patience.is_over(now()) {
            return holds();
        }
        relax();
    }
}
