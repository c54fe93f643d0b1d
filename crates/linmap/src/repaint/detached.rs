//! Tables of the second tree that a leaf or a hole has replaced. They are given back after the hold.

use core::mem::take;

use crate::build::{Counters, discard};
use crate::format::{Descriptor, Geometry, Level};
use crate::platform::Memory;

/// Descriptors of such tables, and their levels.
pub(crate) struct Detached {
    tables: [Descriptor; Self::ROOM],
    levels: [Level; Self::ROOM],
    used: usize,
}

impl Detached {
    /// Above the last level no run has more entries than half of this.
    const ROOM: usize = 64;

    pub(crate) const fn new() -> Self {
        Self { tables: [Descriptor::HOLE; Self::ROOM], levels: [Level::PAGE; Self::ROOM], used: 0 }
    }

    /// Returns true if the entries of a run may not have room any more.
    pub(crate) const fn is_full(&self) -> bool {
        self.used > Self::ROOM / 2
    }

    /// Adds a table at `level`, with all tables below it. No entry points to it any more.
    pub(crate) fn add(&mut self, table: Descriptor, level: Level) {
        (self.tables[self.used], self.levels[self.used]) = (table, level);
        self.used += 1;
    }

    /// Gives all of them back, and subtracts them from the counts. No lock is held.
    pub(crate) fn give_back<M: Memory>(&mut self, memory: &M, g: Geometry, counters: &Counters) {
        for (table, level) in self.tables[..take(&mut self.used)].iter().zip(self.levels) {
            discard(memory, g, Some(counters), (*table, level));
        }
    }
}
