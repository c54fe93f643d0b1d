//! Entries in arithmetic progression by vector stores, where the platform says that vector registers are free
//! ([`Memory::has_vectors`](crate::Memory::has_vectors)).
//!
//! The code around is compiled without vector instructions. So the assembler is told of them here, and the compiler, which
//! keeps nothing in vector registers, need not know which of them change.

use core::arch::asm;

/// The first eight entries in v0 to v3, and eight steps in each half of v4.
macro_rules! first_eight {
    () => {
        concat!(
            ".arch_extension simd\n",
            "dup v0.2d, {first}\n",
            "add {first}, {first}, {step}\n",
            "mov v0.d[1], {first}\n",
            "dup v4.2d, {twice}\n",
            "add v1.2d, v0.2d, v4.2d\n",
            "add v2.2d, v1.2d, v4.2d\n",
            "add v3.2d, v2.2d, v4.2d\n",
            "shl v4.2d, v4.2d, #2",
        )
    };
}

/// Stores eight entries, and goes on to the next.
macro_rules! next_eight {
    () => {
        concat!(
            "st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{next}], #64\n",
            "add v0.2d, v0.2d, v4.2d\n",
            "add v1.2d, v1.2d, v4.2d\n",
            "add v2.2d, v2.2d, v4.2d\n",
            "add v3.2d, v3.2d, v4.2d",
        )
    };
}

/// Writes `first`, `first + step` and so on: an addition for two entries and a store for eight.
#[inline(always)]
pub(crate) fn write_series_by_vectors<const N: usize>(slots: &mut [u64; N], first: u64, step: u64) {
    const { assert!(N.is_multiple_of(8), "entries are written by eights") };
    // SAFETY: the slots, which are borrowed mutably, are written, and vector registers that nothing else uses.
    unsafe {
        asm!(
            first_eight!(),
            ".rept {eights}",
            next_eight!(),
            ".endr",
            eights = const N / 8,
            first = inout(reg) first => _,
            step = in(reg) step,
            twice = in(reg) step.wrapping_mul(2),
            next = inout(reg) slots.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Does the same for any number of eights.
#[inline(always)]
pub(crate) fn write_eights_by_vectors(slots: &mut [[u64; 8]], first: u64, step: u64) {
    if slots.is_empty() {
        return;
    }
    // SAFETY: as above.
    unsafe {
        asm!(
            first_eight!(),
            // Fours of eights, then what is left of them.
            "subs {left}, {left}, #4",
            "b.lo 3f",
            "2:",
            ".rept 4",
            next_eight!(),
            ".endr",
            "subs {left}, {left}, #4",
            "b.hs 2b",
            "3:",
            "adds {left}, {left}, #4",
            "b.eq 5f",
            "4:",
            next_eight!(),
            "subs {left}, {left}, #1",
            "b.ne 4b",
            "5:",
            first = inout(reg) first => _,
            step = in(reg) step,
            twice = in(reg) step.wrapping_mul(2),
            next = inout(reg) slots.as_mut_ptr() => _,
            left = inout(reg) slots.len() => _,
            options(nostack),
        );
    }
}

/// Writes holes: a store for eight, two stores in a loop.
#[inline(always)]
pub(crate) fn write_holes_by_vectors(slots: &mut [[u64; 16]]) {
    if slots.is_empty() {
        return;
    }
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension simd",
            "movi v0.2d, #0",
            "movi v1.2d, #0",
            "movi v2.2d, #0",
            "movi v3.2d, #0",
            "2:",
            "st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{next}], #64",
            "st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{next}], #64",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            next = inout(reg) slots.as_mut_ptr() => _,
            left = inout(reg) slots.len() => _,
            options(nostack),
        );
    }
}
