//! A fork: each page table of the parent is read, each of the child is a new page and is written. Between them
//! stand the descriptions of the areas that they map.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::memory::{Area, Areas, Memory, Slab};
use super::workload::Step;

/// What describes an area (a `vm_area_struct` and what hangs on it), and how many tables it has.
const DESCRIPTION: u64 = 256;
const TABLES: u64 = 16;
/// Children that are there at once, whose tables are in turn.
const CHILDREN: u64 = 4;

/// Processes whose tables take so many bytes, and their children's.
pub(crate) struct Fork {
    parents: Area,
    children: Area,
    descriptions: Slab,
    page: u64,
    /// The table that is copied next, in the parent and in the child.
    from: u64,
    to: u64,
}

impl Fork {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        let page = areas.page();
        let parents = areas.area(bytes / (1 + CHILDREN));
        let children = areas.area(parents.bytes * CHILDREN);
        let tables = parents.bytes / page;
        let descriptions = areas.slab(2 * tables.div_ceil(TABLES), DESCRIPTION);
        Self { parents, children, descriptions, page, from: 0, to: 0 }
    }
}

impl Step for Fork {
    /// Copies the tables of one area.
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg) {
        let tables = self.parents.bytes / self.page;
        // Parents fork in any order, and an area's tables are copied in theirs.
        self.from = random.random_range(0..tables) / TABLES * TABLES;
        memory.object(&self.descriptions, self.from / TABLES, DESCRIPTION);
        memory.object(&self.descriptions, tables.div_ceil(TABLES) + self.from / TABLES, DESCRIPTION);
        for table in 0..TABLES {
            memory.touch(self.parents, (self.from + table) * self.page, self.page);
            memory.touch(self.children, self.to * self.page, self.page);
            self.to = (self.to + 1) % (tables * CHILDREN);
        }
    }
}
