//! Fills of tables that no walker reaches: descriptors in arithmetic progression, holes, and bits that flip.
//!
//! Kernels are compiled without vector registers. There a pair of general registers is stored at a time, which is the limit of most
//! cores' stores. Where the compiler uses vector registers itself, its own loops are as good.

use core::sync::atomic::{Ordering, compiler_fence};

/// So many entries of a table that is filled take no longer than one that is read and stored.
pub(crate) const FILLED: usize = 6;

/// Writes `first`, `first + step` and so on.
#[inline]
pub(crate) fn series(slots: &mut [u64], first: u64, step: u64) {
    match slots {
        [] => {}
        // A block among contiguous runs, or a page that has no neighbour.
        [slot] => *slot = first,
        _ => many(slots, first, step),
    }
}

/// Fills several entries: the hot loop of creation.
#[cfg(not(all(target_arch = "aarch64", not(target_feature = "neon"))))]
#[inline]
fn many(slots: &mut [u64], first: u64, step: u64) {
    let mut value = first;
    for slot in slots {
        *slot = value;
        value = value.wrapping_add(step);
    }
}

/// Fills several entries: the hot loop of creation. It takes 1.5 instructions an entry: an addition for each, and a store for two.
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn many(slots: &mut [u64], first: u64, step: u64) {
    use crate::platform::arm64::write_series;
    let (long, rest) = slots.as_chunks_mut::<128>();
    let next = long.iter_mut().fold(first, |value, chunk| write_series(chunk, value, step));
    let (short, rest) = rest.as_chunks_mut::<8>();
    let mut next = short.iter_mut().fold(next, |value, chunk| write_series(chunk, value, step));
    for slot in rest {
        *slot = next;
        next = next.wrapping_add(step);
    }
}

/// Flips bits of all entries.
#[inline(never)]
pub(crate) fn flip(slots: &mut [u64], bits: u64) {
    let (eights, rest) = slots.as_chunks_mut::<8>();
    eights.iter_mut().for_each(|eight| *eight = eight.map(|entry| entry ^ bits));
    rest.iter_mut().for_each(|slot| *slot ^= bits);
}

/// Writes holes, a kilobyte at a time. Where the compiler uses vector registers, there is a `memset` that is better than any loop;
/// but from two kilobytes on it may be one instruction of the CPU, which takes longer, and hardly overlaps with what follows.
#[cfg(not(all(target_arch = "aarch64", not(target_feature = "neon"))))]
#[inline]
pub(crate) fn holes(slots: &mut [u64]) {
    for part in slots.chunks_mut(128) {
        part.fill(0);
        // Prevents the compiler from joining the parts again.
        compiler_fence(Ordering::SeqCst);
    }
}

/// Writes holes, a few at a time. A single fill would become a call of `memset`, which costs five times as much if that
/// `memset` is not made for long ranges.
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
pub(crate) fn holes(slots: &mut [u64]) {
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
