//! Entries in arithmetic progression written and compared by vectors, and bits flipped, where the platform says that vector
//! registers are free ([`Memory::has_vectors`](crate::Memory::has_vectors)).
//!
//! The code around is compiled without vector instructions. So the assembler is told of them here, and the compiler, which
//! keeps nothing in vector registers, need not know which of them change.

use core::arch::asm;
use core::mem::MaybeUninit;

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

/// Goes on from eight entries to those after them.
macro_rules! go_on {
    () => {
        concat!(
            "add v0.2d, v0.2d, v4.2d\n",
            "add v1.2d, v1.2d, v4.2d\n",
            "add v2.2d, v2.2d, v4.2d\n",
            "add v3.2d, v3.2d, v4.2d",
        )
    };
}

/// Stores eight entries, and goes on to the next.
macro_rules! next_eight {
    () => {
        concat!("st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{next}], #64\n", go_on!())
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

/// The rest after whole blocks of 64 entries: `left`, which is 64 too low, has the number in its low bits.
macro_rules! last_eights {
    ($eight:expr) => {
        concat!(
            "tbz {left}, #5, 4f\n.rept 4\n",
            $eight,
            "\n.endr\n4: tbz {left}, #4, 5f\n.rept 2\n",
            $eight,
            "\n.endr\n5: tbz {left}, #3, 6f\n",
            $eight,
            "\n6:",
        )
    };
}

/// Does the same for any number of entries.
#[inline(always)]
pub(crate) fn write_any_by_vectors(slots: &mut [u64], first: u64, step: u64) {
    // SAFETY: as above.
    unsafe {
        asm!(
            first_eight!(),
            "subs {left}, {left}, #64",
            "b.lo 3f",
            "2:",
            ".rept 8",
            next_eight!(),
            ".endr",
            "subs {left}, {left}, #64",
            "b.hs 2b",
            "3:",
            last_eights!(next_eight!()),
            "tbz {left}, #2, 7f",
            "st1 {{v0.2d, v1.2d}}, [{next}], #32",
            "mov v0.16b, v2.16b",
            "mov v1.16b, v3.16b",
            "7:",
            "tbz {left}, #1, 8f",
            "st1 {{v0.2d}}, [{next}], #16",
            "mov v0.16b, v1.16b",
            "8:",
            "tbz {left}, #0, 9f",
            "str d0, [{next}]",
            "9:",
            first = inout(reg) first => _,
            step = in(reg) step,
            twice = in(reg) step.wrapping_mul(2),
            next = inout(reg) slots.as_mut_ptr() => _,
            left = inout(reg) slots.len() => _,
            options(nostack),
        );
    }
}

/// Stores eight holes.
macro_rules! eight_holes {
    () => {
        "st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{next}], #64"
    };
}

/// Writes holes: a store for eight.
#[inline(always)]
pub(crate) fn write_holes_by_vectors(slots: &mut [u64]) {
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension simd",
            "movi v0.2d, #0",
            "movi v1.2d, #0",
            "movi v2.2d, #0",
            "movi v3.2d, #0",
            "subs {left}, {left}, #64",
            "b.lo 3f",
            "2:",
            ".rept 8",
            eight_holes!(),
            ".endr",
            "subs {left}, {left}, #64",
            "b.hs 2b",
            "3:",
            last_eights!(eight_holes!()),
            "tbz {left}, #2, 7f",
            "st1 {{v0.2d, v1.2d}}, [{next}], #32",
            "7:",
            "tbz {left}, #1, 8f",
            "st1 {{v0.2d}}, [{next}], #16",
            "8:",
            "tbz {left}, #0, 9f",
            "str d0, [{next}]",
            "9:",
            next = inout(reg) slots.as_mut_ptr() => _,
            left = inout(reg) slots.len() => _,
            options(nostack),
        );
    }
}

/// Compares sixteen entries, and goes on to the next.
macro_rules! compare_sixteen {
    () => {
        concat!(
            "ld4 {{v16.8h, v17.8h, v18.8h, v19.8h}}, [{next}], #64\n",
            "ld4 {{v20.8h, v21.8h, v22.8h, v23.8h}}, [{next}], #64\n",
            "eor v16.16b, v16.16b, v0.16b\n",
            "eor v17.16b, v17.16b, v1.16b\n",
            "eor v18.16b, v18.16b, v2.16b\n",
            "eor v19.16b, v19.16b, v3.16b\n",
            "eor v20.16b, v20.16b, v4.16b\n",
            "eor v21.16b, v21.16b, v5.16b\n",
            "eor v22.16b, v22.16b, v2.16b\n",
            "eor v23.16b, v23.16b, v3.16b\n",
            "orr v16.16b, v16.16b, v17.16b\n",
            "orr v18.16b, v18.16b, v20.16b\n",
            "orr v21.16b, v21.16b, v22.16b\n",
            "orr v19.16b, v19.16b, v23.16b\n",
            "orr v16.16b, v16.16b, v18.16b\n",
            "orr v24.16b, v24.16b, v21.16b\n",
            "orr v25.16b, v25.16b, v19.16b\n",
            "orr v24.16b, v24.16b, v16.16b\n",
            "add v1.8h, v1.8h, v6.8h\n",
            "add v5.8h, v5.8h, v6.8h",
        )
    };
}

/// Makes one number of all differences so far.
macro_rules! differences {
    () => {
        concat!(
            "bic v16.16b, v25.16b, v7.16b\n",
            "orr v16.16b, v16.16b, v24.16b\n",
            "umaxp v16.4s, v16.4s, v16.4s\n",
            "fmov {differs}, d16",
        )
    };
}

/// The result of a comparison with a series.
pub(crate) struct Sixteens {
    /// The number of sixteens that are as expected, those before the first that is not, or fewer.
    pub(crate) same: usize,
    /// True if some of the entries that were looked at differ in bits that do not count.
    pub(crate) others: bool,
}

/// Compares entries with `first`, `first + step` and so on, so many sixteens at the most, in all bits but `besides`, which are
/// some of the highest 16: 1.4 instructions an entry. There is a branch after each `N` of them.
///
/// LD4 takes eight entries apart, into vectors of their lowest 16 bits, of the next and so on. Of sixteen entries, only the second
/// lowest 16 bits are others than those of the sixteen before. So there are two additions for sixteen, and not eight.
///
/// Each 16 bits are read by an access of their own (B2.2.1, elements). So nothing may write meanwhile; walkers do not, as the
/// platform promises ([`Hardware`](crate::Hardware)).
///
/// # Safety
///
/// `words` has so many entries, which nothing else writes meanwhile, and is aligned to 8 bytes. All of them have the same highest
/// 32 bits if they are as expected. `step` is 0, or a power of 2 and at least 4K.
#[inline(always)]
pub(crate) unsafe fn sixteens_in_series_by_vectors<const N: usize>(
    words: *const u64,
    sixteens: usize,
    (first, step): (u64, u64),
    besides: u64,
) -> Sixteens {
    let mut sixteen = MaybeUninit::<[u64; 16]>::uninit();
    let (left, others): (usize, u64);
    // SAFETY: reads the entries by the caller's promise, writes an array and reads it, and changes vector registers that nothing
    // else uses.
    unsafe {
        asm!(
            first_eight!(),
            "st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{sixteen}], #64",
            go_on!(),
            "st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{sixteen}]",
            "ld4 {{v4.8h, v5.8h, v6.8h, v7.8h}}, [{sixteen}]",
            "sub {sixteen}, {sixteen}, #64",
            "ld4 {{v0.8h, v1.8h, v2.8h, v3.8h}}, [{sixteen}]",
            "dup v6.8h, {rise:w}",
            "dup v7.8h, {besides:w}",
            // All differences, those of the highest 16 bits apart.
            "movi v24.2d, #0",
            "movi v25.2d, #0",
            "subs {left}, {left}, #{n}",
            "b.lo 4f",
            "2:",
            ".rept {n}",
            compare_sixteen!(),
            ".endr",
            differences!(),
            "cbnz {differs}, 3f",
            "subs {left}, {left}, #{n}",
            "b.hs 2b",
            "4:",
            "adds {left}, {left}, #{n}",
            "b.eq 6f",
            "5:",
            compare_sixteen!(),
            differences!(),
            "cbnz {differs}, 6f",
            "subs {left}, {left}, #1",
            "b.ne 5b",
            "b 6f",
            "3:",
            "add {left}, {left}, #{n}",
            "6:",
            "umaxp v25.4s, v25.4s, v25.4s",
            "fmov {differs}, d25",
            n = const N,
            first = inout(reg) first => _,
            step = in(reg) step,
            twice = in(reg) step.wrapping_mul(2),
            rise = in(reg) step >> 12u32,
            besides = in(reg) besides >> 48u32,
            sixteen = inout(reg) sixteen.as_mut_ptr() => _,
            next = inout(reg) words => _,
            left = inout(reg) sixteens => left,
            differs = out(reg) others,
            options(nostack),
        );
    }
    Sixteens { same: sixteens - left, others: others != 0 }
}

/// Flips bits of so many eights of entries: a load, a store and four instructions for eight. Each entry is read and written by
/// one single-copy atomic access (Arm ARM B2.2.1: elements of 64 bits).
///
/// # Safety
///
/// `words` has so many entries, which nothing else writes meanwhile, and is aligned to 8 bytes.
#[inline(always)]
pub(crate) unsafe fn flip_entries_by_vectors(words: *mut u64, eights: usize, bits: u64) {
    /// Loads eight entries, flips their bits, and stores them.
    macro_rules! flip_eight {
        () => {
            concat!(
                "ld1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{next}]\n",
                "eor v0.16b, v0.16b, v4.16b\n",
                "eor v1.16b, v1.16b, v4.16b\n",
                "eor v2.16b, v2.16b, v4.16b\n",
                "eor v3.16b, v3.16b, v4.16b\n",
                "st1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{next}], #64",
            )
        };
    }
    // SAFETY: changes the entries by the caller's promise, and vector registers that nothing else uses.
    unsafe {
        asm!(
            ".arch_extension simd",
            "dup v4.2d, {bits}",
            // Fours of eights, then what is left of them.
            "subs {left}, {left}, #4",
            "b.lo 3f",
            "2:",
            ".rept 4",
            flip_eight!(),
            ".endr",
            "subs {left}, {left}, #4",
            "b.hs 2b",
            "3:",
            "adds {left}, {left}, #4",
            "b.eq 5f",
            "4:",
            flip_eight!(),
            "subs {left}, {left}, #1",
            "b.ne 4b",
            "5:",
            bits = in(reg) bits,
            next = inout(reg) words => _,
            left = inout(reg) eights => _,
            options(nostack),
        );
    }
}

/// Flips bits of entries that no walker reaches.
#[inline(always)]
pub(crate) fn flip_eights_by_vectors(slots: &mut [[u64; 8]], bits: u64) {
    // SAFETY: the slots are borrowed mutably.
    unsafe { flip_entries_by_vectors(slots.as_mut_ptr().cast(), slots.len(), bits) };
}

/// The number of entries that are compared between two branches.
pub(crate) const COMPARED: usize = 64;

/// Compares entries with another one, [`COMPARED`] at a time, in all bits but some. Returns the number of such groups at the
/// start that have no difference: 1.4 instructions an entry.
///
/// # Safety
///
/// The entries of so many groups can be read, and nothing writes to them.
#[inline(always)]
pub(crate) unsafe fn same_by_vectors(first: *const u64, groups: usize, (other, but): (u64, u64)) -> usize {
    let left: usize;
    // SAFETY: the caller's promise; vector registers that nothing else uses.
    unsafe {
        asm!(
            ".arch_extension simd",
            "dup v4.2d, {other}",
            "movi v2.2d, #0",
            "movi v3.2d, #0",
            "2:",
            ".rept {fours}",
            "ld1 {{v0.2d, v1.2d}}, [{next}], #32",
            "eor v0.16b, v0.16b, v4.16b",
            "eor v1.16b, v1.16b, v4.16b",
            "orr v2.16b, v2.16b, v0.16b",
            "orr v3.16b, v3.16b, v1.16b",
            ".endr",
            "orr v0.16b, v2.16b, v3.16b",
            "mov {differ}, v0.d[0]",
            "mov {half}, v0.d[1]",
            "orr {differ}, {differ}, {half}",
            "bics {differ}, {differ}, {but}",
            "b.ne 3f",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            "3:",
            fours = const COMPARED / 4,
            other = in(reg) other,
            but = in(reg) but,
            next = inout(reg) first => _,
            half = out(reg) _,
            differ = out(reg) _,
            left = inout(reg) groups => left,
            options(nostack, readonly),
        );
    }
    groups - left
}

/// Returns true if all entries are holes, [`COMPARED`] at a time: 0.8 instructions an entry. Each is read by a single-copy atomic
/// access of its own (B2.2.1, elements), so others may store to them meanwhile.
///
/// # Safety
///
/// The entries of so many groups can be read.
#[inline(always)]
pub(crate) unsafe fn holes_by_vectors(first: *const u64, groups: usize) -> bool {
    let any: u64;
    // SAFETY: as above.
    unsafe {
        asm!(
            ".arch_extension simd",
            "movi v4.2d, #0",
            "2:",
            ".rept {eights}",
            "ld1 {{v0.2d, v1.2d, v2.2d, v3.2d}}, [{next}], #64",
            "orr v0.16b, v0.16b, v1.16b",
            "orr v2.16b, v2.16b, v3.16b",
            "orr v4.16b, v4.16b, v0.16b",
            "orr v4.16b, v4.16b, v2.16b",
            ".endr",
            "mov {any}, v4.d[0]",
            "mov {half}, v4.d[1]",
            "orr {any}, {any}, {half}",
            "cbnz {any}, 3f",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            "3:",
            eights = const COMPARED / 8,
            next = inout(reg) first => _,
            half = out(reg) _,
            any = out(reg) any,
            left = inout(reg) groups => _,
            options(nostack, readonly),
        );
    }
    any == 0
}
