//! Fills of tables that no walker reaches: descriptors in arithmetic progression, and holes.

use core::sync::atomic::{Ordering, compiler_fence};

/// The hot loop of creation. The compiler turns a plain loop into vector stores if there are vector registers.
#[cfg(not(all(target_arch = "aarch64", not(target_feature = "neon"))))]
#[inline]
pub(crate) fn fill_with_step(slots: &mut [u64], first: u64, step: u64) {
    let mut value = first;
    for slot in slots {
        *slot = value;
        value = value.wrapping_add(step);
    }
}

/// The same for kernels, which use no vector registers. A constant number of stores per iteration becomes store pairs:
/// 1.56 instructions an entry, where a plain loop takes 2 or 3.
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline]
pub(crate) fn fill_with_step(slots: &mut [u64], first: u64, step: u64) {
    let (long, rest) = slots.as_chunks_mut();
    let (short, rest) = rest.as_chunks_mut::<8>();
    let mut value = fill_chunks(long, first, step);
    let mut put = |slot: &mut u64| {
        *slot = value;
        value = value.wrapping_add(step);
    };
    short.iter_mut().flatten().for_each(&mut put);
    rest.iter_mut().for_each(put);
}

/// Returns the first value that was not written.
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_chunks(chunks: &mut [[u64; 64]], first: u64, step: u64) -> u64 {
    let mut value = first;
    chunks.iter_mut().flatten().for_each(|slot| {
        *slot = value;
        value = value.wrapping_add(step);
    });
    value
}

/// Writes holes, a few at a time. A single fill would become a call of `memset`, which costs five times as much if that
/// `memset` is not optimised for long ranges.
pub(crate) fn fill_holes(slots: &mut [u64]) {
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
