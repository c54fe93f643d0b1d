//! Many entries of a live table at once, by vectors, where its memory offers them: compared with an arithmetic progression, and
//! bits flipped.
//!
//! Each function says how far it went. The caller goes on from there, by general registers: that is all of it for a memory
//! without vectors, and for a processor that is not this one. Where the compiler uses vector registers itself, its own loops
//! are as good.

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
use crate::format::Descriptor;
use crate::live::locked::Locked;
use crate::platform::Platform;
use crate::read::Table;

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
use crate::platform::arm64::{Sixteens, flip_entries_by_vectors, sixteens_in_series_by_vectors};

/// How far entries continue a series, as far as it was looked at by vectors.
pub(crate) struct InSeries {
    /// The index up to which they are as expected.
    pub(crate) end: usize,
    /// True if one of the entries that follow is not.
    pub(crate) differs: bool,
    /// True if they are, but have not all the contiguous bit of the first.
    pub(crate) mixed: bool,
}

impl InSeries {
    /// Returns that nothing was looked at from an index on.
    const fn unknown(end: usize) -> Self {
        Self { end, differs: false, mixed: false }
    }
}

#[cfg(all(target_arch = "aarch64", not(target_feature = "neon")))]
impl<P: Platform> Locked<'_, P> {
    /// Returns true if entries of a table may be read and written by vectors: live tables are plain memory there.
    #[inline(always)]
    pub(super) fn has_vectors(&self, table: &Table) -> bool {
        let is_plain = P::PLAIN && !(P::STORES_ROOT && table.level == self.geometry.root());
        P::OFFERS_VECTORS && is_plain && self.platform.has_vectors()
    }

    /// Compares entries, from one on and before another, with `first`, `first + step` and so on, in all but the contiguous bit, `N`
    /// sixteens between two branches. Returns how far it has come.
    #[inline(always)]
    pub(crate) fn series_by_vectors<const N: usize>(
        &self,
        table: &Table,
        (index, end): (usize, usize),
        (first, step): (u64, u64),
    ) -> InSeries {
        let sixteens = (end - index) / 16;
        if sixteens == 0 {
            return InSeries::unknown(index);
        }
        // The lower half of a descriptor is counted up. Most series end before it is full.
        let room = (1 << 32u32) - (first & u64::from(u32::MAX) & step.wrapping_neg());
        let most = if step == 0 { sixteens } else { (room >> step.trailing_zeros()) as usize / 16 };
        let sixteens = sixteens.min(most);
        // Entries are taken apart from their lowest 16 bits on.
        if sixteens == 0 || cfg!(target_endian = "big") || !self.has_vectors(table) {
            return InSeries::unknown(index);
        }
        // SAFETY: the table is live and has these entries, and its memory is plain. The caller holds the locks of what
        // they translate, so nothing writes meanwhile. So many entries have the same upper half.
        let Sixteens { same, others } = unsafe {
            sixteens_in_series_by_vectors::<N>(
                table.words.add(index),
                sixteens,
                (first, step),
                Descriptor::HOLE.with_contiguous().0,
            )
        };
        InSeries { end: index + same * 16, differs: same < sixteens, mixed: others }
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
        _: (u64, u64),
    ) -> InSeries {
        InSeries::unknown(index)
    }

    #[inline(always)]
    pub(crate) fn flip_by_vectors(&self, _: &Table, (index, _): (usize, usize), _: u64) -> usize {
        index
    }
}
