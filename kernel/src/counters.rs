//! Windows: what happened between two moments, counted exactly.
//!
//! Instructions come from the PMU (event 8, instructions retired), which QEMU counts exactly when it
//! runs with `-icount`, and not at all otherwise. Barriers and invalidations are counted in software.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use linmap::Features;
use linmap::arm64::{Counting, Uses};

use crate::parking;

/// INST_RETIRED.
const INSTRUCTIONS: u64 = 8;

/// Whether there are counters.
static PRESENT: AtomicBool = AtomicBool::new(false);

/// Instructions retired so far; 0 where they are not counted. Windows up to 2^32 are exact.
pub(crate) fn instructions() -> u32 {
    read(PRESENT.load(Relaxed))
}

/// The same, for who knows whether there are counters.
#[inline(always)]
fn read(present: bool) -> u32 {
    if !present {
        return 0;
    }
    let count: u64;
    // SAFETY: reading a counter has no side effect. Not `nomem`, so that the work stays inside.
    unsafe { asm!("isb", "mrs {}, pmevcntr0_el0", out(reg) count, options(nostack, preserves_flags)) };
    count as u32
}

/// The counters, set up.
pub(crate) struct Counters {
    /// What a window counts that holds nothing.
    empty: u32,
}

/// How many event counters there are (PMCR_EL0.N); only where there is a PMU.
fn event_counters() -> u64 {
    let control: u64;
    // SAFETY: the caller has seen that there is a PMU; reading its control register has no side effect.
    unsafe { asm!("mrs {}, pmcr_el0", out(reg) control, options(nomem, nostack, preserves_flags)) };
    (control >> 11) & 0x1f
}

/// What happened in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Instructions, if they were counted.
    pub(crate) instructions: Option<u32>,
    /// Primitives used, by all CPUs.
    pub(crate) uses: Uses,
}

impl Counters {
    /// Starts the first event counter, if the CPU has any.
    pub(crate) fn start(features: &Features) -> Self {
        let present = features.has_counters() && event_counters() != 0;
        if present {
            // SAFETY: the counters are used here alone; they change nothing else.
            unsafe {
                asm!(
                    "msr pmevtyper0_el0, {event}",
                    "msr pmcntenset_el0, {one}",
                    "mrs {control}, pmcr_el0",
                    "orr {control}, {control}, #1",
                    "msr pmcr_el0, {control}",
                    "isb",
                    event = in(reg) INSTRUCTIONS,
                    one = in(reg) 1u64,
                    control = out(reg) _,
                    options(nomem, nostack, preserves_flags),
                );
            }
        }
        PRESENT.store(present, Relaxed);
        let (begin, end) = (read(present), read(present));
        Self { empty: end.wrapping_sub(begin) }
    }

    /// Runs `work` and counts what it has CPUs do: this one, and those that it parks. Ticks of other CPUs are not
    /// counted, nor the barriers with which the clock and counters are read.
    #[inline(always)]
    pub(crate) fn window<R>(&self, cpu: &Counting, work: impl FnOnce() -> R) -> (R, Window) {
        // CPUs that were parked count what they used when they are back: before this, and in it.
        parking::settle();
        let uses = cpu.uses();
        let present = PRESENT.load(Relaxed);
        let begin = read(present);
        let result = work();
        let end = read(present);
        let instructions = end.wrapping_sub(begin);
        parking::settle();
        let after = cpu.uses();
        let uses =
            Uses { tlbi: after.tlbi - uses.tlbi, dsb: after.dsb - uses.dsb, isb: after.isb - uses.isb };
        (result, Window { instructions: self.counted(instructions), uses })
    }

    /// What was counted between two readings, without what these cost; nothing where nothing counts.
    pub(crate) fn counted(&self, instructions: u32) -> Option<u32> {
        // An uncounted empty window means that nothing counts.
        (self.empty != 0).then(|| instructions.saturating_sub(self.empty))
    }
}
