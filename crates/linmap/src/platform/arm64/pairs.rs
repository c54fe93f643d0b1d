//! Two adjacent words of a live table, each loaded or stored by an atomic access of its own.
//!
//! LDP and STP are two accesses of 64 bits, both single-copy atomic (Arm ARM B2.2.1). The compiler does not make them of two atomic
//! accesses.

use core::arch::asm;

/// Loads two words, from so many after the first one on.
///
/// # Safety
///
/// They are words of a live table in plain memory.
#[inline(always)]
pub(crate) unsafe fn load_pair<const AFTER: usize>(first: *mut u64) -> [u64; 2] {
    let (low, high);
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "ldp {low}, {high}, [{first}, #{at}]",
            first = in(reg) first,
            at = const AFTER * size_of::<u64>(),
            low = lateout(reg) low,
            high = lateout(reg) high,
            options(nostack, preserves_flags, readonly),
        );
    }
    [low, high]
}

/// Stores two words, from so many after the first one on.
///
/// # Safety
///
/// As for [`load_pair`]. The users of the addresses that the words translate must expect the change.
#[inline(always)]
pub(crate) unsafe fn store_pair<const AFTER: usize>(first: *mut u64, [low, high]: [u64; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "stp {low}, {high}, [{first}, #{at}]",
            first = in(reg) first,
            at = const AFTER * size_of::<u64>(),
            low = in(reg) low,
            high = in(reg) high,
            options(nostack, preserves_flags),
        );
    }
}
