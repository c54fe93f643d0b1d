//! Instructions retired, as the PMU counts them (event 8). QEMU counts exactly with `-icount`, and not at all without.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use linmap::cpu::Features;

/// INST_RETIRED.
const INSTRUCTIONS: u64 = 8;

/// The CPUs have counters.
static PRESENT: AtomicBool = AtomicBool::new(false);

/// Returns the instructions retired so far; 0 where they are not counted. Differences up to 2^32 are exact.
pub(crate) fn instructions() -> u32 {
    read(is_present())
}

/// Returns true if there are counters.
#[inline(always)]
pub(crate) fn is_present() -> bool {
    PRESENT.load(Relaxed)
}

/// Returns the same as [`instructions`], for callers that know whether there are counters.
#[inline(always)]
pub(crate) fn read(present: bool) -> u32 {
    if !present {
        return 0;
    }
    let count: u64;
    // SAFETY: reading a counter has no side effect. Not `nomem`, so that the work stays inside.
    unsafe { asm!("isb", "mrs {}, pmevcntr0_el0", out(reg) count, options(nostack, preserves_flags)) };
    count as u32
}

/// Starts the first event counter of the CPU that runs this. Returns false if it has none.
pub(crate) fn start(features: &Features) -> bool {
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
    present
}

/// Returns the number of event counters (PMCR_EL0.N). Only for a CPU with a PMU.
fn event_counters() -> u64 {
    let control: u64;
    // SAFETY: the caller has seen that there is a PMU; reading its control register has no side effect.
    unsafe { asm!("mrs {}, pmcr_el0", out(reg) control, options(nomem, nostack, preserves_flags)) };
    (control >> 11) & 0x1f
}
