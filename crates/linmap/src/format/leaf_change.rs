//! A change of leaves, bit by bit, applied to each leaf of a range.

use crate::format::attributes::Attributes;
use crate::format::descriptor::{Descriptor, VALID};
use crate::format::geometry::Level;

/// A change of each leaf of a range, bit by bit: a descriptor has its fields where
/// [`Attributes`](crate::Attributes) has them.
#[derive(Clone, Copy)]
pub(crate) struct LeafChange {
    pub(crate) clear: u64,
    pub(crate) set: u64,
    /// Not 0 if leaves become valid or invalid, or not global: bits whose places are others in invalid leaves. A word like the
    /// others, so that they cost no more.
    pub(crate) moved: u64,
    /// Refuse memory that would be both writable and executable.
    pub(crate) refuse_write_execute: bool,
    /// Leave out holes, instead of refusing them.
    pub(crate) skip_holes: bool,
}

impl LeafChange {
    /// Returns a change of these bits of a valid leaf. With the valid bit in `set` leaves become valid, with that in `clear`
    /// invalid.
    #[inline(always)]
    pub(crate) const fn of_bits((clear, set): (u64, u64)) -> Self {
        let moved = (clear | set) & VALID | set & Attributes::NOT_GLOBAL.bits();
        Self { clear, set, moved, ..Self::NONE }
    }

    /// No change.
    pub(crate) const NONE: Self =
        Self { clear: 0, set: 0, moved: 0, refuse_write_execute: false, skip_holes: false };

    /// Removes the mapping.
    pub(crate) const REMOVE: Self = Self { clear: u64::MAX, ..Self::NONE };

    /// Returns the changed leaf at `level`.
    #[inline]
    pub(crate) const fn of(self, old: Descriptor, level: Level) -> Descriptor {
        if self.moved != 0 {
            return self.of_valid(old, level);
        }
        Descriptor(old.0 & !self.clear | self.set)
    }

    /// Returns true if a leaf must not become this one, because its memory would be both writable and executable.
    #[inline(always)]
    pub(crate) const fn refuses(self, new: Descriptor) -> bool {
        self.refuse_write_execute && new.is_write_execute()
    }

    /// A separate function, so that the other changes are an AND and an OR.
    #[cold]
    #[inline(never)]
    const fn of_valid(self, old: Descriptor, level: Level) -> Descriptor {
        let valid = if (self.clear | self.set) & VALID == 0 { old.is_valid() } else { self.set & VALID != 0 };
        if !valid && !old.is_valid() {
            return self.of_invalid(old, level);
        }
        self.of_shown(old.with_validity(true, level)).with_validity(valid, level)
    }

    /// Returns the changed leaf of one that stays invalid, and stays taken out if it was.
    #[cold]
    #[inline(never)]
    const fn of_invalid(self, old: Descriptor, level: Level) -> Descriptor {
        let changed = self.of_shown(old.with_validity(true, level)).with_validity(false, level);
        if old.is_taken_out() { changed.taken_out() } else { changed }
    }

    /// Returns the changed leaf of a valid one, before it becomes invalid.
    #[inline(always)]
    const fn of_shown(self, shown: Descriptor) -> Descriptor {
        Descriptor(shown.0 & !self.clear | self.set | VALID)
    }
}
