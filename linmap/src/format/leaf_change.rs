//! A change of leaves, bit by bit, applied to each leaf of a range.

use crate::format::descriptor::{Descriptor, VALID};
use crate::format::geometry::Level;

/// A change of each leaf of a range, bit by bit: a descriptor has its fields where
/// [`Attributes`](crate::Attributes) has them.
#[derive(Clone, Copy)]
pub(crate) struct LeafChange {
    pub(crate) clear: u64,
    pub(crate) set: u64,
    /// Not 0 if leaves become valid or invalid, which the valid bit in `set` says. A word like the others, so that they cost no
    /// more.
    pub(crate) validity: u64,
    /// Refuse memory that would be both writable and executable.
    pub(crate) refuse_write_execute: bool,
    /// Leave out holes, instead of refusing them.
    pub(crate) skip_holes: bool,
}

impl LeafChange {
    /// Returns a change of these bits. With the valid bit in `set` leaves become valid, with that in `clear` invalid.
    #[inline(always)]
    pub(crate) const fn of_bits((clear, set): (u64, u64)) -> Self {
        Self { clear, set, validity: (clear | set) & VALID, ..Self::NONE }
    }

    /// No change.
    pub(crate) const NONE: Self =
        Self { clear: 0, set: 0, validity: 0, refuse_write_execute: false, skip_holes: false };

    /// Removes the mapping.
    pub(crate) const REMOVE: Self = Self { clear: u64::MAX, ..Self::NONE };

    /// Returns the changed leaf at `level`.
    #[inline]
    pub(crate) const fn of(self, old: Descriptor, level: Level) -> Descriptor {
        if self.validity != 0 {
            return self.with_validity(old, level);
        }
        Descriptor(old.0 & !self.clear | self.set)
    }

    /// A separate function, so that the other changes are an AND and an OR.
    #[cold]
    #[inline(never)]
    const fn with_validity(self, old: Descriptor, level: Level) -> Descriptor {
        // The other bits that change have the same places in valid and in invalid leaves.
        let changed = Descriptor(old.0 & !(self.clear & !VALID) | self.set & !VALID);
        changed.with_validity(self.set & VALID != 0, level)
    }
}
