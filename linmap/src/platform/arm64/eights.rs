//! Eight adjacent words of a live table, each loaded or stored by an atomic access of its own.
//!
//! LDP and STP are two accesses of 64 bits, both single-copy atomic (Arm ARM B2.2.1). The compiler does not make them of two atomic
//! accesses.

use core::arch::asm;

/// Loads eight words, from so many after the first one on.
///
/// # Safety
///
/// They are words of a live table in plain memory.
#[inline(always)]
pub(crate) unsafe fn load_eight<const AFTER: usize>(first: *mut u64) -> [u64; 8] {
    let (a, b, c, d, e, f, g, h);
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "ldp {a}, {b}, [{first}, #{at}]",
            "ldp {c}, {d}, [{first}, #{at} + 16]",
            "ldp {e}, {f}, [{first}, #{at} + 32]",
            "ldp {g}, {h}, [{first}, #{at} + 48]",
            first = in(reg) first,
            at = const AFTER * size_of::<u64>(),
            a = out(reg) a, b = out(reg) b, c = out(reg) c, d = out(reg) d,
            e = out(reg) e, f = out(reg) f, g = lateout(reg) g, h = lateout(reg) h,
            options(nostack, preserves_flags, readonly),
        );
    }
    [a, b, c, d, e, f, g, h]
}

/// Stores eight words, from so many after the first one on.
///
/// # Safety
///
/// As for [`load_eight`]. The users of the addresses that the words translate must expect the change.
#[inline(always)]
pub(crate) unsafe fn store_eight<const AFTER: usize>(first: *mut u64, new: [u64; 8]) {
    let [a, b, c, d, e, f, g, h] = new;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "stp {a}, {b}, [{first}, #{at}]",
            "stp {c}, {d}, [{first}, #{at} + 16]",
            "stp {e}, {f}, [{first}, #{at} + 32]",
            "stp {g}, {h}, [{first}, #{at} + 48]",
            first = in(reg) first,
            at = const AFTER * size_of::<u64>(),
            a = in(reg) a, b = in(reg) b, c = in(reg) c, d = in(reg) d,
            e = in(reg) e, f = in(reg) f, g = in(reg) g, h = in(reg) h,
            options(nostack, preserves_flags),
        );
    }
}
