//! What is stored when a leaf changes its size, as data.

use crate::format::{Descriptor, Pa};
use crate::platform::memory::{Memory, Slot};

/// Entries in a row of one live table, and what becomes of each: some bits are cleared, then some set.
///
/// Every change of a leaf's size is a few of these, as data: whoever does them needs nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryUpdate {
    /// The first entry.
    pub slot: Slot,
    /// How many there are, at least 1.
    pub count: usize,
    /// The bits that are cleared.
    pub clear: u64,
    /// The bits that are set then.
    pub set: u64,
}

impl EntryUpdate {
    /// No operation asks for more at once. At each of the two ends of a range a run is dissolved and an entry replaced;
    /// the aliases of an area have many ends.
    pub const MOST: usize = 32;

    /// One entry becomes another.
    pub(crate) const fn replace(table: Pa, index: usize, new: Descriptor) -> Self {
        Self { slot: Slot { table, index }, count: 1, clear: u64::MAX, set: new.0 }
    }

    /// A contiguous run becomes plain entries.
    pub(crate) const fn dissolve(table: Pa, first: usize, members: usize) -> Self {
        let clear = Descriptor::HOLE.with_contiguous().0;
        Self { slot: Slot { table, index: first }, count: members, clear, set: 0 }
    }

    /// Plain entries become a contiguous run.
    pub(crate) const fn join(table: Pa, first: usize, members: usize) -> Self {
        let set = Descriptor::HOLE.with_contiguous().0;
        Self { slot: Slot { table, index: first }, count: members, clear: 0, set }
    }

    /// What becomes of an entry.
    pub const fn of(&self, old: Descriptor) -> Descriptor {
        Descriptor(old.0 & !self.clear | self.set)
    }

    /// Does it, entry by entry, from the first on.
    ///
    /// # Safety
    ///
    /// The table is a live one of `memory`, has these entries, and nobody else stores to it: as
    /// [`Memory::load`] and [`Memory::store`] want it, and as whoever made the update has it.
    pub unsafe fn carry_out<M: Memory>(&self, memory: &M) {
        for index in self.slot.index..self.slot.index + self.count {
            let slot = Slot { index, ..self.slot };
            // SAFETY: the caller's promise.
            unsafe { memory.store(slot, self.of(memory.load(slot))) };
        }
    }
}
