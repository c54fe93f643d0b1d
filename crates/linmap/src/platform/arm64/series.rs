//! Entries in arithmetic progression, by pairs of general registers.

use core::arch::asm;

/// Writes `first`, `first + step` and so on: an addition for each entry and a store for two, without a branch. Returns the
/// first value that was not written.
#[inline(always)]
pub(crate) fn write_series<const N: usize>(slots: &mut [u64; N], first: u64, step: u64) -> u64 {
    const { assert!(N.is_multiple_of(2), "entries are written in pairs") };
    let mut even = first;
    // SAFETY: the slots, which are borrowed mutably, are written, and nothing else.
    unsafe {
        asm!(
            ".rept {pairs}",
            "stp {even}, {odd}, [{next}], #16",
            "add {even}, {even}, {twice}",
            "add {odd}, {odd}, {twice}",
            ".endr",
            pairs = const N / 2,
            even = inout(reg) even,
            odd = inout(reg) first.wrapping_add(step) => _,
            next = inout(reg) slots.as_mut_ptr() => _,
            twice = in(reg) step.wrapping_mul(2),
            options(nostack, preserves_flags),
        );
    }
    even
}
