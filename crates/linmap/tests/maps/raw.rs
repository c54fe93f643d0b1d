//! The tables in a host's memory, slot by slot, past what owns them.
//!
//! The one place of the tests that is `unsafe`: they build tables, hold no reference into one, and then
//! look at every bit or put others there.
#![allow(dead_code)] // each test uses what it needs

use std::convert::Infallible;

use linmap::arch::{Descriptor, Level};
use linmap::host::HostMemory;
use linmap::read::ReadTables;
use linmap::{Memory, Slot};

/// Returns the contents of a slot.
pub(crate) fn load(memory: &HostMemory, slot: Slot) -> Descriptor {
    // SAFETY: `HostMemory` refuses slots that it does not have; no test has a `&mut` into a table.
    unsafe { memory.load(slot) }
}

/// Puts a descriptor into a slot.
pub(crate) fn store(memory: &HostMemory, slot: Slot, new: Descriptor) {
    // SAFETY: as for `load`; no walker but the tests' own uses the tables.
    unsafe { memory.store(slot, new) }
}

/// Reads tables like a dump, without owning them.
pub(crate) struct Raw<'m>(pub(crate) &'m HostMemory);

impl ReadTables for Raw<'_> {
    type Error = Infallible;

    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, Infallible> {
        Ok(load(self.0, slot))
    }
}
