//! Marks around what is counted, for a plugin of QEMU that counts lines of memory between them.
//!
//! The counter is read after an ISB. A mark is that ISB with an option that has no meaning of its own: each CPU takes it for an
//! ISB, and the plugin knows it by its encoding. So marks cost nothing, and counts are the same with the plugin and without.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The windows with marks so far.
static ENDED: AtomicU32 = AtomicU32::new(0);

/// The options of the ISBs.
const BEGIN: u32 = 12;
const END: u32 = 13;

/// A window begins. Returns what [`crate::pmu::read`] does.
#[inline(always)]
pub(crate) fn begin(present: bool) -> u32 {
    read::<BEGIN>(present)
}

/// The window ends. Returns the counter as [`begin`] does.
#[inline(always)]
pub(crate) fn end(present: bool) -> u32 {
    read::<END>(present)
}

#[inline(always)]
fn read<const MARK: u32>(present: bool) -> u32 {
    if !present {
        return 0;
    }
    let count: u64;
    // SAFETY: a barrier and the reading of a counter have no side effect. Not `nomem`, so that the work stays inside.
    unsafe {
        asm!("isb #{mark}", "mrs {}, pmevcntr0_el0", out(reg) count, mark = const MARK, options(nostack, preserves_flags));
    };
    count as u32
}

/// Returns the number of the window that has just ended. The first one is 1, and a plugin that counts marks has the same.
#[inline(always)]
pub(crate) fn number() -> u32 {
    ENDED.fetch_add(1, Relaxed) + 1
}
