//! One table of a map: where it is, and what its entries translate.

use crate::format::{Geometry, Level, Pa, Span};

/// A table: live, read through a reader, or not yet published.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) pa: Pa,
    /// Its entries, where it is live and the memory is plain.
    pub(crate) words: *mut u64,
    pub(crate) level: Level,
    /// log2 of what an entry spans.
    pub(crate) shift: u32,
    /// What its first entry translates.
    pub(crate) base: u64,
}

impl Table {
    /// The root table of a half, read through a reader.
    pub(crate) const fn root(pa: Pa, geometry: Geometry, base: u64) -> Self {
        let shift = geometry.level_shift(geometry.root());
        Self { pa, words: core::ptr::null_mut(), level: geometry.root(), shift, base }
    }

    /// The table at `pa` that the entry at `index` points to, read through a reader.
    #[inline(always)]
    pub(crate) const fn below(&self, index: usize, pa: Pa, geometry: Geometry) -> Self {
        Self { pa, ..self.offline(self.va(index), geometry) }
    }

    /// A table that takes the place of an entry. Walkers do not reach it; its slots are accessed directly.
    #[inline(always)]
    pub(crate) const fn offline(&self, base: u64, g: Geometry) -> Self {
        let (pa, words) = (Pa(0), core::ptr::null_mut());
        Self { pa, words, level: self.level.down(1), shift: self.shift - g.index_bits(), base }
    }

    /// The entries that translate addresses of a span which overlaps the table, the last one included.
    #[inline]
    pub(crate) const fn entries_of(&self, span: Span, g: Geometry) -> (usize, usize) {
        let first = if span.first <= self.base { 0 } else { self.index_of(span.first) };
        let last = self.index_of(span.last);
        // The root may have fewer, and the span ends with it.
        let most = (1 << g.index_bits()) - 1;
        (first, if last < most { last } else { most })
    }

    /// The entry that translates an address of the table.
    #[inline]
    pub(crate) const fn index_of(&self, va: u64) -> usize {
        ((va - self.base) >> self.shift) as usize
    }

    /// The first address that an entry translates.
    #[inline]
    pub(crate) const fn va(&self, index: usize) -> u64 {
        self.base + ((index as u64) << self.shift)
    }

    /// What an entry translates.
    #[inline]
    pub(crate) const fn span_of(&self, index: usize) -> Span {
        let first = self.va(index);
        Span { first, last: first + ((1 << self.shift) - 1) }
    }

    /// What the contiguous run of `members` translates that an entry is in.
    #[inline]
    pub(crate) const fn run_of(&self, index: usize, members: usize) -> Span {
        let first = self.va(index & !(members - 1));
        Span { first, last: first + (((members as u64) << self.shift) - 1) }
    }
}
