//! Fills of tables that no walker reaches: descriptors in arithmetic progression, and holes.

use core::marker::PhantomData;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::platform::Memory;
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
use crate::platform::arm64::{
    flip_eights_by_vectors, write_any_by_vectors, write_holes_by_vectors, write_series,
    write_series_by_vectors,
};

/// So many entries of a table that is filled take no longer than one that is read and stored.
pub(crate) const FILLED: usize = 6;

/// The stores of long fills: pairs of general registers, or vectors where a memory offers them.
///
/// Where the compiler uses vector registers itself, its own loops are as good, and a memory is not asked.
pub(crate) struct Fills<M> {
    #[cfg_attr(
        not(all(target_arch = "aarch64", not(target_feature = "neon"))),
        expect(dead_code, reason = "the compiler's loops do without")
    )]
    has_vectors: bool,
    of: PhantomData<fn(&M)>,
}

impl<M> Clone for Fills<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Fills<M> {}

impl<M: Memory> Fills<M> {
    /// Returns the stores that a memory offers.
    #[inline(always)]
    pub(crate) fn of(memory: &M) -> Self {
        Self { has_vectors: memory.has_vectors(), of: PhantomData }
    }
}

#[cfg(not(all(target_arch = "aarch64", not(target_feature = "neon"))))]
impl<M: Memory> Fills<M> {
    /// Fills any part of a table.
    #[inline]
    pub(crate) fn series(self, slots: &mut [u64], first: u64, step: u64) {
        fill_with_step(slots, first, step);
    }

    /// Fills a part of a table that is hardly ever empty.
    #[inline]
    pub(crate) fn some(self, slots: &mut [u64], first: u64, step: u64) {
        fill_with_step(slots, first, step);
    }

    /// Fills a whole table below the root.
    #[inline]
    pub(crate) fn table(self, slots: &mut [u64], first: u64, step: u64) {
        fill_with_step(slots, first, step);
    }

    /// Writes holes.
    #[inline]
    pub(crate) fn holes(self, slots: &mut [u64]) {
        fill_holes(slots);
    }

    /// Flips bits of all entries.
    #[inline]
    pub(crate) fn flip(self, slots: &mut [u64], bits: u64) {
        flip(slots, bits);
    }
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
impl<M: Memory> Fills<M> {
    /// Known at build time for a memory that never offers them.
    #[inline(always)]
    fn by_vectors(self) -> bool {
        M::OFFERS_VECTORS && self.has_vectors
    }

    /// Fills any part of a table.
    #[inline]
    pub(crate) fn series(self, slots: &mut [u64], first: u64, step: u64) {
        if !slots.is_empty() {
            self.some(slots, first, step);
        }
    }

    /// Fills a part of a table that is hardly ever empty.
    #[inline]
    pub(crate) fn some(self, slots: &mut [u64], first: u64, step: u64) {
        match slots {
            // A block among contiguous runs, or a page that has no neighbour.
            [slot] => *slot = first,
            _ if self.by_vectors() => fill_by_vectors(slots, first, step),
            _ => fill_with_step(slots, first, step),
        }
    }

    /// Fills a whole table below the root. Those of 4K pages are filled without a branch; the others have a multiple of 512
    /// entries.
    #[inline]
    pub(crate) fn table(self, slots: &mut [u64], first: u64, step: u64) {
        match slots.try_into() {
            Ok(table) if self.by_vectors() => fill_512_by_vectors(table, first, step),
            Ok(table) => fill_512(table, first, step),
            Err(_) if self.by_vectors() => fill_many_by_vectors(slots.as_chunks_mut().0, first, step),
            Err(_) => fill_chunks(slots.as_chunks_mut().0, first, step),
        }
    }

    /// Writes holes.
    #[inline]
    pub(crate) fn holes(self, slots: &mut [u64]) {
        if self.by_vectors() { fill_holes_by_vectors(slots) } else { fill_holes(slots) }
    }

    /// Flips bits of all entries.
    #[inline]
    pub(crate) fn flip(self, slots: &mut [u64], bits: u64) {
        if !self.by_vectors() {
            return flip(slots, bits);
        }
        let (eights, rest) = slots.as_chunks_mut();
        flip_eights_by_vectors(eights, bits);
        rest.iter_mut().for_each(|slot| *slot ^= bits);
    }
}

/// Flips bits of entries by general registers.
fn flip(slots: &mut [u64], bits: u64) {
    let (eights, rest) = slots.as_chunks_mut::<8>();
    eights.iter_mut().for_each(|eight| *eight = eight.map(|entry| entry ^ bits));
    rest.iter_mut().for_each(|slot| *slot ^= bits);
}

/// The hot loop of creation. The compiler turns a plain loop into vector stores if there are vector registers.
#[cfg(not(all(target_arch = "aarch64", not(target_feature = "neon"))))]
#[inline]
fn fill_with_step(slots: &mut [u64], first: u64, step: u64) {
    let mut value = first;
    for slot in slots {
        *slot = value;
        value = value.wrapping_add(step);
    }
}

/// The same for kernels, which use no vector registers: 1.5 instructions an entry, where a plain loop takes 2 or 3. Less
/// than 1.5 is not possible. Each entry is another value, which an instruction has to bring into a register, and a store
/// writes two registers at most.
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_with_step(slots: &mut [u64], first: u64, step: u64) {
    let (long, rest) = slots.as_chunks_mut();
    fill_chunks(long, first, step);
    let mut value = first.wrapping_add(step.wrapping_mul(long.as_flattened().len() as u64));
    let mut put = |slot: &mut u64| {
        *slot = value;
        value = value.wrapping_add(step);
    };
    let (short, rest) = rest.as_chunks_mut::<8>();
    short.iter_mut().flatten().for_each(&mut put);
    rest.iter_mut().for_each(put);
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_chunks(chunks: &mut [[u64; 128]], first: u64, step: u64) {
    chunks.iter_mut().fold(first, |value, chunk| write_series(chunk, value, step));
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_512(table: &mut [u64; 512], first: u64, step: u64) {
    write_series(table, first, step);
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_512_by_vectors(table: &mut [u64; 512], first: u64, step: u64) {
    write_series_by_vectors(table, first, step);
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
fn fill_many_by_vectors(tables: &mut [[u64; 512]], first: u64, step: u64) {
    let after = |n: usize| first.wrapping_add(step.wrapping_mul(512 * n as u64));
    tables.iter_mut().enumerate().for_each(|(n, table)| fill_512_by_vectors(table, after(n), step));
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_by_vectors(slots: &mut [u64], first: u64, step: u64) {
    write_any_by_vectors(slots, first, step);
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_holes_by_vectors(slots: &mut [u64]) {
    write_holes_by_vectors(slots);
}

/// Writes holes, a kilobyte at a time. Where the compiler uses vector registers, there is a `memset` that is better than any loop;
/// but from two kilobytes on it may be one instruction of the CPU, which takes longer, and hardly overlaps with what follows.
#[cfg(not(all(target_arch = "aarch64", not(target_feature = "neon"))))]
#[inline]
fn fill_holes(slots: &mut [u64]) {
    for part in slots.chunks_mut(128) {
        part.fill(0);
        // Prevents the compiler from joining the parts again.
        compiler_fence(Ordering::SeqCst);
    }
}

/// Writes holes, a few at a time. A single fill would become a call of `memset`, which costs five times as much if that
/// `memset` is not optimised for long ranges.
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_holes(slots: &mut [u64]) {
    let (long, rest) = slots.as_chunks_mut::<32>();
    let (short, rest) = rest.as_chunks_mut::<8>();
    let clear = |part: &mut [u64; 8]| {
        *part = [0; 8];
        // Prevents the compiler from joining the parts again.
        compiler_fence(Ordering::SeqCst);
    };
    long.iter_mut().for_each(|chunk| chunk.as_chunks_mut().0.iter_mut().for_each(clear));
    short.iter_mut().for_each(clear);
    for slot in rest {
        *slot = 0;
        compiler_fence(Ordering::SeqCst);
    }
}
