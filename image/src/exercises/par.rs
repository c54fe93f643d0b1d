//! The translation of an address as this CPU has it: AT S1E1R and PAR_EL1 (Arm ARM C5.4.8, D24.2.142).

use core::arch::asm;

use linmap::{Pa, Va};

/// A translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Translated {
    /// The page's output address.
    pub(super) pa: Pa,
    /// The memory type, as MAIR_EL1 has it.
    pub(super) attribute: u8,
}

/// Translates an address, for a read. Returns `None` where that would fault.
pub(super) fn translate(va: Va) -> Option<Translated> {
    let par: u64;
    // SAFETY: an address translation changes PAR_EL1 alone, which nothing else uses between these instructions: a handler
    // that came in between would have to keep it.
    unsafe {
        asm!("at s1e1r, {va}", "isb", "mrs {par}, par_el1", va = in(reg) va.0, par = out(reg) par,
             options(nostack, preserves_flags));
    }
    let pa = Pa(par & ((1 << 52) - (1 << 12)));
    (par & 1 == 0).then_some(Translated { pa, attribute: (par >> 56) as u8 })
}
