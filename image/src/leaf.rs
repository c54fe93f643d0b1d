//! The leaf that translates an address, as the tables have it.

use linmap::Va;
use linmap::arch::{Entry, LeafSize};

use crate::system::System;

/// A leaf: a page, a block, or a whole contiguous run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub(crate) size: LeafSize,
    /// Its first address.
    pub(crate) va: Va,
}

impl Leaf {
    /// Returns the leaf at an address, valid or present-invalid; none where there is none.
    pub(crate) fn at(system: &System<'_>, va: Va) -> Option<Self> {
        let (_, level, Entry::Leaf(leaf)) =
            system.space.on(&system.platform()).read(|reader| reader.entry(va))?
        else {
            return None;
        };
        let sizes = system.geometry.leaf_sizes();
        let size = *sizes.iter().find(|s| (s.level, s.contiguous) == (level, leaf.contiguous))?;
        Some(Self { size, va: Va(va.0 & !(size.bytes() - 1)) })
    }

    /// Returns the number of its pages.
    pub(crate) fn pages(&self, system: &System<'_>) -> u64 {
        self.size.bytes() >> system.geometry.page_shift()
    }
}
