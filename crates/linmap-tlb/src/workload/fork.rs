//! Forks: each page table of the parent is read, each of the child is a new page and is written. The descriptions of the
//! areas that they map are read and written between them.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::access_pattern::AccessPattern;
use crate::memory::{Area, Areas, Memory, Slab};

/// Bytes of an area's description (a `vm_area_struct` and its parts), and how many tables an area has.
const DESCRIPTION: u64 = 256;
const TABLES: u64 = 16;
/// Children at a time; their tables are used in turn.
const CHILDREN: u64 = 4;

/// Processes and their children.
pub(crate) struct Fork {
    parents: Area,
    children: Area,
    descriptions: Slab,
    page: u64,
    /// The next table of a child to write.
    to: u64,
}

impl Fork {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        let page = areas.page();
        let parents = areas.area(bytes / (1 + CHILDREN));
        let children = areas.area(parents.bytes * CHILDREN);
        let tables = parents.bytes / page;
        let descriptions = areas.slab(2 * tables.div_ceil(TABLES), DESCRIPTION);
        Self { parents, children, descriptions, page, to: 0 }
    }
}

impl AccessPattern for Fork {
    /// Copies the tables of one area.
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg) {
        let tables = self.parents.bytes / self.page;
        // Areas are copied in random order, the tables of one area in order.
        let from = random.random_range(0..tables) / TABLES * TABLES;
        memory.object(&self.descriptions, from / TABLES, DESCRIPTION);
        memory.object(&self.descriptions, tables.div_ceil(TABLES) + from / TABLES, DESCRIPTION);
        for table in 0..TABLES {
            memory.touch(self.parents, (from + table) * self.page, self.page);
            memory.touch(self.children, self.to * self.page, self.page);
            self.to = (self.to + 1) % (tables * CHILDREN);
        }
    }
}
