//! A change of leaves, bit by bit: what becomes of each leaf of a range.

use crate::format::descriptor::Descriptor;
use crate::format::geometry::Level;

/// A change of each leaf of a range, bit by bit: a descriptor has its fields where
/// [`Attributes`](crate::Attributes) has them.
#[derive(Clone, Copy)]
pub(crate) struct LeafChange {
    pub(crate) clear: u64,
    pub(crate) set: u64,
    /// [`STAYS`](Self::STAYS); or leaves become [`VALID`](Self::VALID) or [`INVALID`](Self::INVALID), and nothing else
    /// about them changes. A word like the others, so that these cost nothing more.
    pub(crate) validity: u64,
    /// Refuse what would be writable and executable at once.
    pub(crate) refuse_write_execute: bool,
}

impl LeafChange {
    pub(crate) const STAYS: u64 = 0;
    pub(crate) const VALID: u64 = 1;
    pub(crate) const INVALID: u64 = 2;

    /// Nothing changes.
    pub(crate) const NONE: Self =
        Self { clear: 0, set: 0, validity: Self::STAYS, refuse_write_execute: false };

    /// The mapping goes.
    pub(crate) const REMOVE: Self =
        Self { clear: u64::MAX, set: 0, validity: Self::STAYS, refuse_write_execute: false };

    /// Returns the changed leaf at `level`.
    #[inline]
    pub(crate) const fn of(self, old: Descriptor, level: Level) -> Descriptor {
        if self.validity != Self::STAYS {
            return self.with_validity(old, level);
        }
        Descriptor(old.0 & !self.clear | self.set)
    }

    /// Apart, so that the other changes are an AND and an OR.
    #[cold]
    #[inline(never)]
    const fn with_validity(self, old: Descriptor, level: Level) -> Descriptor {
        old.with_validity(self.validity == Self::VALID, level)
    }
}
