//! The stores that change the size of a leaf, as data.

use crate::format::{Descriptor, Pa};
use crate::platform::memory::{Memory, Slot};
use crate::platform::slots::{Slots, SlotsMut};

/// Adjacent entries of one live table, and their change: some bits are cleared, then some set.
///
/// Every change of a leaf's size is a few of these. They are data, so that a CPU can apply them while all others are
/// parked. The library alone makes them, so each is a change of a table that it owns:
///
/// ```compile_fail
/// let update = linmap::EntryUpdate::default();
/// ```
/// ```compile_fail
/// fn again(update: &linmap::EntryUpdate) -> linmap::EntryUpdate {
///     update.clone()
/// }
/// ```
/// ```compile_fail
/// fn of_all(update: &mut linmap::EntryUpdate) {
///     update.count = 512;
/// }
/// ```
///
/// It has the layout of C, and its fields are in the order of the methods that return them.
#[derive(PartialEq, Eq, Debug)]
#[repr(C)]
pub struct EntryUpdate {
    slot: Slot,
    from: Pa,
    count: usize,
    clear: u64,
    set: u64,
    in_root: bool,
}

impl EntryUpdate {
    /// The largest number of updates in one call of [`Hardware::park`](crate::Hardware::park). At each end of a range
    /// one run is dissolved and one entry replaced; the aliases of an area may have many ends.
    pub const MOST: usize = 32;

    /// No entries.
    pub(crate) const NONE: Self = Self::of_entries((Pa(0), false), 0, 0);

    /// Returns the first entry.
    pub const fn slot(&self) -> Slot {
        self.slot
    }

    /// Returns the table whose entries of the same indices are read: that of the slot itself, or for a repaint in place the one
    /// in which its new entries are.
    pub const fn from(&self) -> Pa {
        self.from
    }

    /// Returns the number of entries, at least 1.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the bits that are cleared in what was read.
    pub const fn clear(&self) -> u64 {
        self.clear
    }

    /// Returns the bits that are set after that. The result is stored.
    pub const fn set(&self) -> u64 {
        self.set
    }

    /// Returns true if the entries are in the root, whose entries some memories store in a way of their own
    /// ([`Access::PlainButRoot`](crate::Access::PlainButRoot)).
    pub const fn in_root(&self) -> bool {
        self.in_root
    }

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
        // SAFETY: both are tables of this memory with these entries, by the caller's promise, who expects the change.
        let (from, to) = unsafe {
            let slots = |table| Slots::new(memory, (table, Slots::words(memory, table)));
            (slots(self.from), SlotsMut::new(slots(self.slot.table), self.in_root))
        };
        for index in self.slot.index..self.slot.index + self.count {
            to.store(index, self.of(from.load(index)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn an_update_clears_and_then_sets() {
        let table = (Pa(0x1000), false);
        for bits in [0, u64::MAX, 0x00f8_0000_4020_0f03, 1 << 52, !(1 << 52)].map(Descriptor) {
            assert_eq!(EntryUpdate::replace(table, 1, Descriptor(0x703)).of(bits).0, 0x703);
            assert_eq!(EntryUpdate::dissolve(table, 16, 16).of(bits), bits.without_contiguous());
            assert_eq!(EntryUpdate::join(table, 16, 16).of(bits), bits.with_contiguous());
            assert_eq!(EntryUpdate::copy(Pa(0x1000), Pa(0x2000), 3, 4).of(bits), bits);
        }
    }

    #[test]
    fn the_fields_are_in_the_order_of_their_methods() {
        let table = offset_of!(EntryUpdate, slot) + offset_of!(Slot, table);
        let index = offset_of!(EntryUpdate, slot) + offset_of!(Slot, index);
        let [from, count] = [offset_of!(EntryUpdate, from), offset_of!(EntryUpdate, count)];
        let [clear, set] = [offset_of!(EntryUpdate, clear), offset_of!(EntryUpdate, set)];
        let all = [table, index, from, count, clear, set, offset_of!(EntryUpdate, in_root)];
        assert!(table == 0 && all.is_sorted(), "{all:?}");
    }
}
