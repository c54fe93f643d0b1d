//! Fills of tables that no walker reaches: descriptors in arithmetic progression, and holes.

use core::sync::atomic::{Ordering, compiler_fence};

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
use crate::platform::arm64::write_series;

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

/// The same for kernels, which use no vector registers: 1.5 instructions an entry, where a plain loop takes 2 or 3. Less
/// than 1.5 is not possible. Each entry is another value, which an instruction has to bring into a register, and a store
/// writes two registers at most.
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline]
pub(crate) fn fill_with_step(slots: &mut [u64], first: u64, step: u64) {
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

/// Fills a whole table below the root.
#[cfg(not(all(target_arch = "aarch64", not(target_feature = "neon"))))]
pub(crate) use fill_with_step as fill_table_with_step;

/// Fills a whole table below the root. Those of 4K pages are filled without a branch; the others have a multiple of 512 entries.
#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline]
pub(crate) fn fill_table_with_step(slots: &mut [u64], first: u64, step: u64) {
    match slots.try_into() {
        Ok(table) => fill_512(table, first, step),
        Err(_) => fill_chunks(slots.as_chunks_mut().0, first, step),
    }
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
#[inline(never)]
fn fill_512(table: &mut [u64; 512], first: u64, step: u64) {
    write_series(table, first, step);
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
