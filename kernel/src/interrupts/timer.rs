//! The virtual timer of each CPU: it ticks periodically.

use core::arch::asm;

use aarch64_cpu::asm::barrier;
use aarch64_cpu::registers::{CNTFRQ_EL0, CNTV_CTL_EL0, CNTV_CVAL_EL0, Readable, Writeable};
use kernel::patience::Patience;
use kernel::ticks;

use super::Error;
use crate::cpu::relax;

/// How often it ticks in a second.
pub(crate) const TICKS_PER_SECOND: u64 = 100;

/// What is the same for the timers of all CPUs.
pub(super) struct Timer {
    /// Its interrupt, a PPI.
    pub(super) intid: u32,
    /// From one tick to the next.
    period: u64,
}

impl Timer {
    /// Timers with this interrupt.
    ///
    /// # Errors
    ///
    /// The counter does not say how fast it is.
    pub(super) fn new(intid: u32) -> Result<Self, Error> {
        let period = counter_frequency() / TICKS_PER_SECOND;
        if period == 0 { Err(Error::NoFrequency) } else { Ok(Self { intid, period }) }
    }

    /// Starts the timer of this CPU: its first tick comes after one period.
    pub(super) fn start(&self) {
        CNTV_CVAL_EL0.set(now().wrapping_add(self.period));
        CNTV_CTL_EL0.write(CNTV_CTL_EL0::ENABLE::SET + CNTV_CTL_EL0::IMASK::CLEAR);
        barrier::isb(barrier::SY);
    }

    /// Sets the timer of this CPU, which has ticked, to the next tick that is still to come.
    pub(super) fn next(&self) {
        CNTV_CVAL_EL0.set(ticks::next(CNTV_CVAL_EL0.get(), now(), self.period));
        barrier::isb(barrier::SY);
    }
}

/// The counter. The barrier, which nothing separates from the read, keeps that from being early.
pub(crate) fn now() -> u64 {
    let count: u64;
    // SAFETY: reading the counter has no side effect. Not `nomem`, so that accesses to memory stay where they are.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// How often it counts in a second.
pub(crate) fn counter_frequency() -> u64 {
    CNTFRQ_EL0.get()
}

/// For how many milliseconds others are waited for: a CPU that is a thread of a busy host sleeps for seconds.
pub(crate) const PATIENCE: u64 = 10_000;

/// Whether something comes true while there is patience.
pub(crate) fn comes_true(holds: impl FnMut() -> bool) -> bool {
    comes_true_within(PATIENCE, holds)
}

/// Whether something comes true in so many milliseconds in which this CPU looks ([`Patience`]); where the counter has
/// no frequency, at once.
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
