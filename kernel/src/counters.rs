//! Windows: what happened between two moments, counted exactly.
//!
//! Instructions come from the PMU (event 8, instructions retired), which QEMU counts exactly when it
//! runs with `-icount`, and not at all otherwise. Barriers and invalidations are counted in software.

use core::arch::asm;

use linmap::Features;
use linmap::arm64::{Cpu, Uses};

/// INST_RETIRED.
const INSTRUCTIONS: u64 = 8;

/// The counters, set up.
pub(crate) struct Counters {
    present: bool,
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
    /// Primitives used.
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
        let mut counters = Self { present, empty: 0 };
        let (begin, end) = (counters.instructions(), counters.instructions());
        counters.empty = end.wrapping_sub(begin);
        counters
    }

    /// Instructions retired so far; 0 where they are not counted. Windows up to 2^32 are exact.
    #[inline(always)]
    fn instructions(&self) -> u32 {
        if !self.present {
            return 0;
        }
        let count: u64;
        // SAFETY: reading a counter has no side effect. Not `nomem`, so that the work stays inside.
        unsafe { asm!("isb", "mrs {}, pmevcntr0_el0", out(reg) count, options(nostack, preserves_flags)) };
        count as u32
    }

    /// Runs `work` and counts what it does.
    #[inline(always)]
    pub(crate) fn window<R>(&self, cpu: &Cpu, work: impl FnOnce() -> R) -> (R, Window) {
        let uses = cpu.uses();
        let begin = self.instructions();
        let result = work();
        let end = self.instructions();
        let instructions = end.wrapping_sub(begin);
        let after = cpu.uses();
        let uses =
            Uses { tlbi: after.tlbi - uses.tlbi, dsb: after.dsb - uses.dsb, isb: after.isb - uses.isb };
        // An uncounted empty window means that nothing counts.
        let instructions = (self.empty != 0).then(|| instructions.saturating_sub(self.empty));
        (result, Window { instructions, uses })
    }
}
