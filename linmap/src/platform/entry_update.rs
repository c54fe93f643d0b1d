//! The stores that change the size of a leaf, as data.

use crate::format::{Descriptor, Pa};
use crate::platform::memory::{Memory, Slot};

/// Adjacent entries of one live table, and their change: some bits are cleared, then some set.
///
/// Every change of a leaf's size is a few of these. They are data, so that a CPU can apply them while all others are
/// parked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryUpdate {
    /// The first entry.
    pub slot: Slot,
    /// The number of entries, at least 1.
    pub count: usize,
    /// The bits that are cleared.
    pub clear: u64,
    /// The bits that are set after that.
    pub set: u64,
}

impl EntryUpdate {
    /// The largest number of updates in one call of [`Hardware::park`](crate::Hardware::park). At each end of a range
    /// one run is dissolved and one entry replaced; the aliases of an area may have many ends.
    pub const MOST: usize = 32;

    /// Returns the update that replaces one entry.
    pub(crate) const fn replace(table: Pa, index: usize, new: Descriptor) -> Self {
        Self { slot: Slot { table, index }, count: 1, clear: u64::MAX, set: new.0 }
    }

    /// Returns the update that turns a contiguous run into plain entries.
    pub(crate) const fn dissolve(table: Pa, first: usize, members: usize) -> Self {
        let clear = Descriptor::HOLE.with_contiguous().0;
        Self { slot: Slot { table, index: first }, count: members, clear, set: 0 }
    }

    /// Returns the update that turns plain entries into a contiguous run.
    pub(crate) const fn join(table: Pa, first: usize, members: usize) -> Self {
        let set = Descriptor::HOLE.with_contiguous().0;
        Self { slot: Slot { table, index: first }, count: members, clear: 0, set }
    }

    /// Returns the entry after the update.
    pub const fn of(&self, old: Descriptor) -> Descriptor {
        Descriptor(old.0 & !self.clear | self.set)
    }

    /// Applies the update, entry by entry, from the first on.
    ///
    /// # Safety
    ///
    /// The table is a live table of `memory` and has these entries, as [`Memory::load`] and [`Memory::store`] require.
    /// Nothing else stores to it meanwhile. The translations after the update are those that the author of the update
    /// intended.
    pub unsafe fn carry_out<M: Memory>(&self, memory: &M) {
        for index in self.slot.index..self.slot.index + self.count {
            let slot = Slot { index, ..self.slot };
            // SAFETY: the caller's promise.
            unsafe { memory.store(slot, self.of(memory.load(slot))) };
        }
    }
}
