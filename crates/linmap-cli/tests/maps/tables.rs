//! Tables that are built one entry at a time, so that they can be wrong in any way.

use std::collections::BTreeMap;

use linmap::arch::{Descriptor, Leaf, Level};
use linmap::{Attributes, Geometry, Granule, OaFormat, Pa};

/// Tables by address.
pub(crate) struct Tables {
    pub(crate) geometry: Geometry,
    pub(crate) root: Pa,
    pub(crate) pages: BTreeMap<Pa, Vec<u64>>,
    next: u64,
}

/// 4K pages and 48 bits, as most kernels have.
pub(crate) fn small() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

impl Tables {
    /// A root without entries; tables are taken from `at` upwards.
    pub(crate) fn new(geometry: Geometry, at: Pa) -> Self {
        let mut tables = Self { geometry, root: at, pages: BTreeMap::new(), next: at.0 };
        tables.take(geometry.root());
        tables
    }

    fn take(&mut self, level: Level) -> Pa {
        let table = Pa(self.next);
        self.next += self.geometry.page_size();
        self.pages.insert(table, vec![0; self.geometry.entries(level)]);
        table
    }

    /// Returns the first free page after the tables.
    pub(crate) fn end(&self) -> Pa {
        Pa(self.next)
    }

    /// Returns the entry for an address at a level; missing tables are made.
    pub(crate) fn slot(&mut self, va: u64, level: Level) -> &mut u64 {
        let g = self.geometry;
        let (mut table, mut at) = (self.root, g.root());
        while at < level {
            let index = g.index(va, at);
            let old = self.pages[&table][index];
            table = match Descriptor(old).decode(g, at) {
                linmap::arch::Entry::Table(child) => child,
                _ => {
                    let child = self.take(at.next());
                    self.pages.get_mut(&table).expect("a table")[index] = Descriptor::table(child, g).0;
                    child
                }
            };
            at = at.next();
        }
        let index = g.index(va, level);
        &mut self.pages.get_mut(&table).expect("a table")[index]
    }

    /// Maps so many consecutive leaves.
    pub(crate) fn map(
        &mut self,
        va: u64,
        pa: u64,
        level: i8,
        count: u64,
        attributes: Attributes,
        contiguous: bool,
    ) {
        let (g, level) = (self.geometry, Level::new(level));
        let size = g.level_size(level);
        for index in 0..count {
            let oa = Pa(pa + index * size);
            let leaf = Leaf { oa, attributes, contiguous, valid: true };
            *self.slot(va + index * size, level) = Descriptor::leaf(leaf, g, level).0;
        }
    }

    /// Returns the tables on the way to the page at an address, the root first.
    pub(crate) fn path(&self, va: u64) -> Vec<Pa> {
        let (mut level, mut path) = (self.geometry.root(), vec![self.root]);
        while let Some(table) = path.last()
            && let entry = self.pages[table][self.geometry.index(va, level)]
            && let linmap::arch::Entry::Table(next) = Descriptor(entry).decode(self.geometry, level)
        {
            path.push(next);
            level = level.next();
        }
        path
    }

    /// Changes the page at an address.
    pub(crate) fn change(&mut self, va: u64, change: impl FnOnce(u64) -> u64) {
        let slot = self.slot(va, Level::PAGE);
        *slot = change(*slot);
    }
}
