//! Many entries of a live table at once, by vectors, where its memory offers them: compared with an arithmetic progression, and
//! bits flipped.
//!
//! Each function says how far it went. The caller goes on from there, by general registers: that is all of it for a memory
//! without vectors, and for a processor that is not this one. Where the compiler uses vector registers itself, its own loops
//! are as good.

use crate::live::locked::Locked;
use crate::platform::Platform;
use crate::read::Table;

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
use crate::platform::arm64::{flip_entries_by_vectors, turns_in_series_by_vectors};

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
impl<P: Platform> Locked<'_, P> {
    /// Returns true if entries of a table may be read and written by vectors: live tables are plain memory there.
    #[inline(always)]
    pub(super) fn has_vectors(&self, table: &Table) -> bool {
        let is_plain = P::PLAIN && !(P::STORES_ROOT && table.level == self.geometry.root());
        P::OFFERS_VECTORS && is_plain && self.platform.has_vectors()
    }

    /// Compares entries, from one on and before another, with `first`, `first + step` and so on, `N` eights at a time. Returns
    /// the index up to which they are as expected, as far as it has looked.
    #[inline(always)]
    pub(crate) fn series_by_vectors<const N: usize>(
        &self,
        table: &Table,
        (index, end): (usize, usize),
        first: u64,
        step: u64,
    ) -> usize {
        if !self.has_vectors(table) {
            return index;
        }
        // SAFETY: the table is live and has these entries, and its memory is plain. The caller holds the locks of what
        // they translate, so nothing writes meanwhile.
        let turns = unsafe {
            turns_in_series_by_vectors::<N>(table.words.add(index), (end - index) / (8 * N), first, step)
        };
        index + turns * 8 * N
    }

    /// Flips bits of entries, from one on and before another. Returns the index of the first that still has its old bits.
    #[inline(always)]
    pub(crate) fn flip_by_vectors(&self, table: &Table, (index, end): (usize, usize), bits: u64) -> usize {
        if !self.has_vectors(table) {
            return index;
        }
        let eights = (end - index) / 8;
        // SAFETY: as above; as for `store`.
        unsafe { flip_entries_by_vectors(table.words.add(index), eights, bits) };
        index + eights * 8
    }
}

#[cfg(not(all(target_arch = "aarch64", not(target_feature = "neon"))))]
impl<P: Platform> Locked<'_, P> {
    #[inline(always)]
    pub(crate) fn series_by_vectors<const N: usize>(
        &self,
        _: &Table,
        (index, _): (usize, usize),
        _: u64,
        _: u64,
    ) -> usize {
        index
    }

    #[inline(always)]
    pub(crate) fn flip_by_vectors(&self, _: &Table, (index, _): (usize, usize), _: u64) -> usize {
        index
    }
}
