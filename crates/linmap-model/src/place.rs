//! The place of a table in a tree.

use linmap::arch::{Descriptor, Level, TableLimits};

use crate::space::Space;

/// A table's place in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The root of the tree.
    pub(crate) root: u64,
    /// The level of the table's entries.
    pub(crate) level: Level,
    /// The first address that its first slot translates.
    pub(crate) va: u64,
    /// The regime whose addresses these are: that of the register which loaded the tree last. That a tree in use has but
    /// one is judged when a CPU loads it, and at stores into its root.
    pub(crate) space: Space,
    /// The restrictions in the descriptors of this table and of those above it.
    pub(crate) limits: TableLimits,
}

impl Place {
    /// Returns the place of the table that a table descriptor in this one points to, from an address on.
    pub(crate) const fn below(self, descriptor: u64, va: u64) -> Self {
        let limits = self.limits.union(TableLimits::of(Descriptor(descriptor)));
        Self { level: self.level.next(), va, limits, ..self }
    }
}
