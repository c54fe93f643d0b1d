//! One table of a map, and entries of it: their place, and the addresses that they translate.

use crate::format::{Descriptor, Geometry, Level, Pa, Span};

/// A table: live, read through a reader, or not yet published.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) pa: Pa,
    /// The address of its entries, if it is live and the memory is plain.
    pub(crate) words: *mut u64,
    pub(crate) level: Level,
    /// log2 of the bytes that an entry spans.
    pub(crate) shift: u32,
    /// The first address that the table translates.
    pub(crate) base: u64,
}

/// Entries of a table: one, and those after it up to the last.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'t> {
    pub(crate) table: &'t Table,
    pub(crate) index: usize,
    /// The index of the last of them.
    pub(crate) last: usize,
    /// The descriptor of the first of them.
    pub(crate) entry: Descriptor,
}

impl Table {
    /// Returns the root table of a half, read through a reader.
    pub(crate) const fn root(pa: Pa, geometry: Geometry, base: u64) -> Self {
        let shift = geometry.level_shift(geometry.root());
        Self { pa, words: core::ptr::null_mut(), level: geometry.root(), shift, base }
    }

    /// Returns the table at `pa` that the entry at `index` points to, read through a reader.
    #[inline(always)]
    pub(crate) const fn below(&self, index: usize, pa: Pa, geometry: Geometry) -> Self {
        Self { pa, ..self.offline(self.va(index), geometry) }
    }

    /// Returns a new table that replaces an entry. Walkers do not reach it; its slots are accessed directly.
    #[inline(always)]
    pub(crate) const fn offline(&self, base: u64, g: Geometry) -> Self {
        let (pa, words) = (Pa(0), core::ptr::null_mut());
        Self { pa, words, level: self.level.down(1), shift: self.shift - g.index_bits(), base }
    }

    /// Returns the first and the last index of the entries that translate addresses of a span. The span must overlap
    /// the table.
    #[inline]
    pub(crate) const fn entries_of(&self, span: Span, g: Geometry) -> (usize, usize) {
        let first = if span.first <= self.base { 0 } else { self.index_of(span.first) };
        let last = self.index_of(span.last);
        // The root may have fewer entries; then the span ends with it.
        let most = (1 << g.index_bits()) - 1;
        (first, if last < most { last } else { most })
    }

    /// Returns the index of the entry that translates an address of the table.
    #[inline]
    pub(crate) const fn index_of(&self, va: u64) -> usize {
        ((va - self.base) >> self.shift) as usize
    }

    /// Returns the first address that an entry translates.
    #[inline]
    pub(crate) const fn va(&self, index: usize) -> u64 {
        self.base + ((index as u64) << self.shift)
    }

    /// Returns the addresses that an entry translates.
    #[inline]
    pub(crate) const fn span_of(&self, index: usize) -> Span {
        let first = self.va(index);
        Span { first, last: first + ((1 << self.shift) - 1) }
    }

    /// Returns all addresses that the table translates.
    #[inline]
    pub(crate) const fn span_of_all(&self, g: Geometry) -> Span {
        Span { first: self.base, last: self.base + (((g.entries(self.level) as u64) << self.shift) - 1) }
    }

    /// Returns the addresses that an entry's contiguous run of `members` entries translates.
    #[inline]
    pub(crate) const fn run_of(&self, index: usize, members: usize) -> Span {
        let first = self.va(index & !(members - 1));
        Span { first, last: first + (((members as u64) << self.shift) - 1) }
    }
}
