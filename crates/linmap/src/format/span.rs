//! A range of addresses that may include the highest address.

/// A range of addresses, both ends included.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Span {
    #[inline]
    pub(crate) const fn covers(self, first: u64, last: u64) -> bool {
        self.first <= first && last <= self.last
    }

    /// Returns the addresses that are in both spans. There are some.
    #[inline(always)]
    pub(crate) fn common(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }
}
