//! Eight adjacent words of a live table, each loaded or stored by an atomic access of its own: where they are not written in
//! assembly.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Loads eight words, from so many after the first one on.
///
/// # Safety
///
/// They are words of a live table in plain memory.
#[inline(always)]
pub(crate) unsafe fn load_eight<const AFTER: usize>(first: *mut u64) -> [u64; 8] {
    // SAFETY: the caller's promise.
    core::array::from_fn(|n| unsafe { AtomicU64::from_ptr(first.add(AFTER + n)) }.load(Relaxed))
}

/// Stores eight words, from so many after the first one on.
///
/// # Safety
///
/// As for [`load_eight`]. The users of the addresses that the words translate must expect the change.
#[inline(always)]
pub(crate) unsafe fn store_eight<const AFTER: usize>(first: *mut u64, new: [u64; 8]) {
    // SAFETY: the caller's promise.
    (0..8).for_each(|n| unsafe { AtomicU64::from_ptr(first.add(AFTER + n)) }.store(new[n], Relaxed));
}
