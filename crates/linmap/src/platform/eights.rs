//! Two or eight adjacent words of a live table, each loaded or stored by an atomic access of its own.
//!
//! The pairs are assembly on arm64 (`arm64/pairs.rs`).

#[cfg(not(all(target_arch = "aarch64", not(miri))))]
use core::sync::atomic::AtomicU64;

#[cfg(all(target_arch = "aarch64", not(miri)))]
use crate::platform::arm64::{load_pair, store_pair};
#[cfg(not(all(target_arch = "aarch64", not(miri))))]
use crate::platform::{FOLLOWED, LEADING};

/// Loads eight words, from so many after the first one on.
///
/// # Safety
///
/// They are words of a live table in plain memory.
#[inline(always)]
pub(crate) unsafe fn load_eight<const AFTER: usize>(first: *mut u64) -> [u64; 8] {
    // SAFETY: the caller's promise.
    let ([a, b], [c, d], [e, f], [g, h]) = unsafe {
        (
            load_pair::<AFTER, 0>(first),
            load_pair::<AFTER, 2>(first),
            load_pair::<AFTER, 4>(first),
            load_pair::<AFTER, 6>(first),
        )
    };
    [a, b, c, d, e, f, g, h]
}

/// Stores eight words, from so many after the first one on.
///
/// # Safety
///
/// As for [`load_eight`]. The users of the addresses that the words translate must expect the change.
#[inline(always)]
pub(crate) unsafe fn store_eight<const AFTER: usize>(first: *mut u64, [a, b, c, d, e, f, g, h]: [u64; 8]) {
    // SAFETY: the caller's promise.
    unsafe {
        store_pair::<AFTER, 0>(first, [a, b]);
        store_pair::<AFTER, 2>(first, [c, d]);
        store_pair::<AFTER, 4>(first, [e, f]);
        store_pair::<AFTER, 6>(first, [g, h]);
    }
}

/// Changes eight words, two at a time, from so many after the first one on: in few registers.
///
/// # Safety
///
/// As for [`store_eight`].
#[inline(always)]
pub(crate) unsafe fn change_pairs<const AFTER: usize>(first: *mut u64, changed: impl Fn(u64) -> u64) {
    // SAFETY: the caller's promise.
    unsafe {
        store_pair::<AFTER, 0>(first, load_pair::<AFTER, 0>(first).map(&changed));
        store_pair::<AFTER, 2>(first, load_pair::<AFTER, 2>(first).map(&changed));
        store_pair::<AFTER, 4>(first, load_pair::<AFTER, 4>(first).map(&changed));
        store_pair::<AFTER, 6>(first, load_pair::<AFTER, 6>(first).map(&changed));
    }
}

/// # Safety
///
/// As on arm64.
#[cfg(not(all(target_arch = "aarch64", not(miri))))]
#[inline(always)]
unsafe fn load_pair<const AFTER: usize, const MORE: usize>(first: *mut u64) -> [u64; 2] {
    // SAFETY: the caller's promise.
    [0, 1].map(|n| unsafe { AtomicU64::from_ptr(first.add(AFTER + MORE + n)) }.load(FOLLOWED))
}

/// # Safety
///
/// As on arm64.
#[cfg(not(all(target_arch = "aarch64", not(miri))))]
#[inline(always)]
unsafe fn store_pair<const AFTER: usize, const MORE: usize>(first: *mut u64, pair: [u64; 2]) {
    // SAFETY: the caller's promise.
    [0, 1]
        .into_iter()
        .for_each(|n| unsafe { AtomicU64::from_ptr(first.add(AFTER + MORE + n)) }.store(pair[n], LEADING));
}
