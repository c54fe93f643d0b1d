//! The tables as read for the lookup of an alias. Tables that must not be read are skipped here: the check reports them
//! when it visits them.

use core::cell::Cell;

use crate::format::{Descriptor, Level, Pa};
use crate::platform::Slot;
use crate::read::reader::ReadTables;

/// A reader of tables where they may be read, up to a number of slots.
pub(super) struct Guarded<'a, R> {
    reader: &'a R,
    /// Returns true if there is RAM at an address.
    is_ram: Option<&'a dyn Fn(Pa) -> bool>,
    /// The address bits that no table has.
    beyond: u64,
    /// The number of reads that are left.
    left: Cell<u64>,
}

impl<'a, R> Guarded<'a, R> {
    /// Makes a reader that refuses tables outside RAM and those with address bits in `beyond`, and all after `left`
    /// reads.
    pub(super) const fn new(
        reader: &'a R,
        is_ram: Option<&'a dyn Fn(Pa) -> bool>,
        beyond: u64,
        left: u64,
    ) -> Self {
        Self { reader, is_ram, beyond, left: Cell::new(left) }
    }

    /// Returns the number of reads that are left.
    pub(super) const fn left(&self) -> u64 {
        self.left.get()
    }
}

/// The reason why an entry was not read.
pub(super) enum Refusal<E> {
    /// No reads are left.
    Limit,
    /// The table must not be read.
    Unfit,
    /// The reader's error.
    Read(E),
}

impl<R: ReadTables> ReadTables for Guarded<'_, R> {
    type Error = Refusal<R::Error>;

    fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Self::Error> {
        self.left.set(self.left.get().checked_sub(1).ok_or(Refusal::Limit)?);
        let is_ram = self.is_ram.is_none_or(|is_ram| is_ram(slot.table));
        if !is_ram || slot.table.0 & self.beyond != 0 {
            return Err(Refusal::Unfit);
        }
        self.reader.entry(slot, level).map_err(Refusal::Read)
    }
}
