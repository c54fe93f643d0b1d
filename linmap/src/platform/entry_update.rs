//! The stores that change the size of a leaf, as data.

use crate::format::{Descriptor, Pa};
use crate::platform::memory::{Memory, Slot};

/// Adjacent entries of one live table, and their change: some bits are cleared, then some set.
///
/// Every change of a leaf's size is a few of these. They are data, so that a CPU can apply them while all others are
/// parked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct EntryUpdate {
    /// The first entry.
    pub slot: Slot,
    /// The table whose entries of the same indices are read: that of `slot` itself, or for a repaint in place the one in
    /// which its new entries are.
    pub from: Pa,
    /// The number of entries, at least 1.
    pub count: usize,
    /// The bits that are cleared in what was read.
    pub clear: u64,
    /// The bits that are set after that. The result is stored.
    pub set: u64,
    /// True if the entries are in the root, whose entries have a way of their own in some memories
    /// ([`Memory::store_root`]).
    pub in_root: bool,
}

impl EntryUpdate {
    /// The largest number of updates in one call of [`Hardware::park`](crate::Hardware::park). At each end of a range
    /// one run is dissolved and one entry replaced; the aliases of an area may have many ends.
    pub const MOST: usize = 32;

    /// Returns the update that replaces one entry.
    pub(crate) const fn replace(table: (Pa, bool), index: usize, new: Descriptor) -> Self {
        Self { clear: u64::MAX, set: new.0, ..Self::of_entries(table, index, 1) }
    }

    /// Returns the update that turns a contiguous run into plain entries.
    pub(crate) const fn dissolve(table: (Pa, bool), first: usize, members: usize) -> Self {
        let clear = Descriptor::HOLE.with_contiguous().0;
        Self { clear, ..Self::of_entries(table, first, members) }
    }

    /// Returns the update that turns plain entries into a contiguous run.
    pub(crate) const fn join(table: (Pa, bool), first: usize, members: usize) -> Self {
        let set = Descriptor::HOLE.with_contiguous().0;
        Self { set, ..Self::of_entries(table, first, members) }
    }

    /// Returns the update that replaces entries of a root by those of another table.
    pub(crate) const fn copy(root: Pa, from: Pa, first: usize, count: usize) -> Self {
        Self { from, ..Self::of_entries((root, true), first, count) }
    }

    /// Returns the update of entries of a table that changes nothing. The flag says whether the table is the root.
    const fn of_entries((table, in_root): (Pa, bool), index: usize, count: usize) -> Self {
        Self { slot: Slot { table, index }, from: table, count, clear: 0, set: 0, in_root }
    }

    /// Returns the entry after the update, from the one that was read.
    pub const fn of(&self, old: Descriptor) -> Descriptor {
        Descriptor(old.0 & !self.clear | self.set)
    }

    /// Applies the update, entry by entry, from the first on.
    ///
    /// # Safety
    ///
    /// The table is a live table of `memory` and has these entries, as [`Memory::load`] and [`Memory::store`] require, and
    /// so has the one that is read. Nothing else stores to them meanwhile. The translations after the update are those
    /// that the author of the update intended.
    pub unsafe fn carry_out<M: Memory>(&self, memory: &M) {
        for index in self.slot.index..self.slot.index + self.count {
            let (slot, from) = (Slot { index, ..self.slot }, Slot { table: self.from, index });
            // SAFETY: the caller's promise.
            unsafe {
                let new = self.of(memory.load(from));
                if M::STORES_ROOT && self.in_root {
                    memory.store_root(slot, new);
                } else {
                    memory.store(slot, new);
                }
            }
        }
    }
}
