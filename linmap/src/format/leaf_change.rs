//! A change of leaves, bit by bit, applied to each leaf of a range.

use crate::format::descriptor::Descriptor;
use crate::format::geometry::Level;

/// A change of each leaf of a range, bit by bit: a descriptor has its fields where
/// [`Attributes`](crate::Attributes) has them.
#[derive(Clone, Copy)]
pub(crate) struct LeafChange {
    pub(crate) clear: u64,
    pub(crate) set: u64,
    /// [`STAYS`](Self::STAYS), [`VALID`](Self::VALID) or [`INVALID`](Self::INVALID). A word like the others, so that they
    /// cost no more.
    pub(crate) validity: u64,
    /// Refuse memory that would be both writable and executable.
    pub(crate) refuse_write_execute: bool,
    /// Leave out holes, instead of refusing them.
    pub(crate) skip_holes: bool,
}

impl LeafChange {
    pub(crate) const STAYS: u64 = 0;
    pub(crate) const VALID: u64 = 1;
    pub(crate) const INVALID: u64 = 2;

    /// No change.
    pub(crate) const NONE: Self =
        Self { clear: 0, set: 0, validity: Self::STAYS, refuse_write_execute: false, skip_holes: false };

    /// Removes the mapping.
    pub(crate) const REMOVE: Self = Self { clear: u64::MAX, ..Self::NONE };

    /// Returns the changed leaf at `level`.
    #[inline]
    pub(crate) const fn of(self, old: Descriptor, level: Level) -> Descriptor {
        if self.validity != Self::STAYS {
            return self.with_validity(old, level);
        }
        Descriptor(old.0 & !self.clear | self.set)
    }

    /// A separate function, so that the other changes are an AND and an OR.
    #[cold]
    #[inline(never)]
    const fn with_validity(self, old: Descriptor, level: Level) -> Descriptor {
        // The bits that change have the same places in valid and in invalid leaves.
        Descriptor(old.0 & !self.clear | self.set).with_validity(self.validity == Self::VALID, level)
    }
}
