//! A range whose old translations must go.

use crate::format::Span;

/// Addresses, and the smallest entry that a TLB can hold for them.
#[derive(Clone, Copy)]
pub(crate) struct Invalidated {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) entry_shift: u32,
}

impl Invalidated {
    /// Returns both, with the addresses between them.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            entry_shift: self.entry_shift.min(other.entry_shift),
        }
    }

    /// Returns true if the other one overlaps it or is adjacent, and has entries of the same size.
    pub(crate) const fn meets(&self, other: &Self) -> bool {
        let begins_before = self.first <= other.last.saturating_add(1);
        self.entry_shift == other.entry_shift && begins_before && other.first <= self.last.saturating_add(1)
    }

    /// Returns true if what invalidates it invalidates the other one as well.
    pub(crate) const fn has(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last && self.entry_shift <= other.entry_shift
    }

    pub(crate) const fn overlaps(&self, span: Span) -> bool {
        self.first <= span.last && span.first <= self.last
    }
}
