//! Two or eight adjacent words of a live table, each loaded or stored by an atomic access of its own.
//!
//! The pairs are assembly on arm64 (`arm64/pairs.rs`).

#[cfg(not(all(target_arch = "aarch64", not(miri))))]
use core::sync::atomic::AtomicU64;

#[cfg(all(target_arch = "aarch64", not(miri)))]
use crate::platform::arm64::{load_pair, store_pair};
#[cfg(not(all(target_arch = "aarch64", not(miri))))]
use crate::platform::memory::{FOLLOWED, LEADING};

/// Loads eight words.
///
/// # Safety
///
/// They are words of a live table in plain memory.
#[inline(always)]
pub(crate) unsafe fn load_eight(first: *mut u64) -> [u64; 8] {
    // SAFETY: the caller's promise.
    let ([a, b], [c, d], [e, f], [g, h]) = unsafe {
        (load_pair::<0>(first), load_pair::<2>(first), load_pair::<4>(first), load_pair::<6>(first))
    };
    [a, b, c, d, e, f, g, h]
}

/// Stores eight words.
///
/// # Safety
///
/// As for [`load_eight`]. The users of the addresses that the words translate must expect the change.
#[inline(always)]
pub(crate) unsafe fn store_eight(first: *mut u64, [a, b, c, d, e, f, g, h]: [u64; 8]) {
    // SAFETY: the caller's promise.
    unsafe {
        store_pair::<0>(first, [a, b]);
        store_pair::<2>(first, [c, d]);
        store_pair::<4>(first, [e, f]);
        store_pair::<6>(first, [g, h]);
    }
}

/// # Safety
///
/// As on arm64.
#[cfg(not(all(target_arch = "aarch64", not(miri))))]
#[inline(always)]
unsafe fn load_pair<const AFTER: usize>(first: *mut u64) -> [u64; 2] {
    // SAFETY: the caller's promise.
    [0, 1].map(|n| unsafe { AtomicU64::from_ptr(first.add(AFTER + n)) }.load(FOLLOWED))
}

/// # Safety
///
/// As on arm64.
#[cfg(not(all(target_arch = "aarch64", not(miri))))]
#[inline(always)]
unsafe fn store_pair<const AFTER: usize>(first: *mut u64, pair: [u64; 2]) {
    // SAFETY: the caller's promise.
    [0, 1]
        .into_iter()
        .for_each(|n| unsafe { AtomicU64::from_ptr(first.add(AFTER + n)) }.store(pair[n], LEADING));
}
