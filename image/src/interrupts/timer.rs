//! The virtual timer of each CPU: it ticks periodically.

use aarch64_cpu::asm::barrier;
use aarch64_cpu::registers::{CNTV_CTL_EL0, CNTV_CVAL_EL0, Readable, Writeable};
use kernel::ticks;

use super::error::Error;
use crate::clock::{counter_frequency, now};

/// The ticks in a second.
pub(crate) const TICKS_PER_SECOND: u64 = 100;

/// The timers: what is the same for all CPUs.
pub(super) struct Timer {
    /// Its interrupt, a PPI.
    pub(super) intid: u32,
    /// Counts from one tick to the next.
    period: u64,
}

impl Timer {
    /// Makes timers with this interrupt.
    ///
    /// # Errors
    ///
    /// The counter has no frequency.
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
