//! A change of leaves, bit by bit: how an operation says what becomes of each leaf of a range.

use crate::format::descriptor::Descriptor;
use crate::format::geometry::Level;

/// What becomes of each leaf of a range, bit by bit: a descriptor has its fields where
/// [`Attributes`](crate::Attributes) has them.
#[derive(Clone, Copy)]
pub(crate) struct Edit {
    pub(crate) clear: u64,
    pub(crate) set: u64,
    /// [`STAYS`](Self::STAYS); or leaves become [`VALID`](Self::VALID) or [`INVALID`](Self::INVALID), and nothing else
    /// about them changes. A word like the others, which leaves the code of those as it is without this one.
    pub(crate) validity: u64,
    /// Whether what becomes writable and executable at once is refused.
    pub(crate) refuse_write_execute: bool,
}

impl Edit {
    pub(crate) const STAYS: u64 = 0;
    pub(crate) const VALID: u64 = 1;
    pub(crate) const INVALID: u64 = 2;

    /// Nothing changes.
    pub(crate) const NONE: Self =
        Self { clear: 0, set: 0, validity: Self::STAYS, refuse_write_execute: false };

    /// Nothing is mapped any more.
    pub(crate) const REMOVE: Self =
        Self { clear: u64::MAX, set: 0, validity: Self::STAYS, refuse_write_execute: false };

    /// What becomes of a leaf at `level`.
    #[inline]
    pub(crate) const fn of(self, old: Descriptor, level: Level) -> Descriptor {
        if self.validity != Self::STAYS {
            return self.with_validity(old, level);
        }
        Descriptor(old.0 & !self.clear | self.set)
    }

    /// Apart, so that the other edits are an AND and an OR.
    #[cold]
    #[inline(never)]
    const fn with_validity(self, old: Descriptor, level: Level) -> Descriptor {
        old.with_validity(self.validity == Self::VALID, level)
    }
}
