//! Covers: the bits by which others are kept away from addresses.

/// log2 of the bytes of addresses that are guarded together. No page table translates more.
pub(crate) const GIGABYTE: u32 = 30;

/// A part of what keeps others away: a bit for each. The guard knows their meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cover(pub(crate) u64);

impl Cover {
    /// Nothing, as where there are no others.
    pub(crate) const NOTHING: Self = Self(0);

    /// Returns both together.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what both have.
    #[must_use]
    #[inline]
    pub(crate) const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the first part of it. It is enough for counts, and to agree on which of several callers does something.
    #[must_use]
    #[inline]
    pub(crate) const fn first(self) -> Self {
        Self(self.0 & self.0.wrapping_neg())
    }

    /// Returns true if it has all of another one.
    #[inline(always)]
    pub(crate) const fn has(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// Another claim overlaps, or there are too many.
pub(crate) struct Claimed;
