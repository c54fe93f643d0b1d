//! A core's data side: an access asks the first level, a miss there the second, a miss there walks the tables.

use super::core::{Core, WalkCache};
use super::store::Store;
use super::translation::{Stretch, Translation};

/// What accesses came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) accesses: u64,
    pub(crate) l1_misses: u64,
    /// Misses of the second level: each is a walk.
    pub(crate) walks: u64,
    /// Descriptors that walks read from memory.
    pub(crate) walk_reads: u64,
}

/// TLBs over one linear map.
pub(crate) struct Unit {
    map: Translation,
    l1: Store,
    l2: Store,
    walk: Walk,
    /// The entry of the last access: it is the most recently used.
    last: u64,
    pub(crate) counts: Counts,
    /// An address that was accessed and is not mapped.
    pub(crate) unmapped: Option<u64>,
}

enum Walk {
    None,
    InL2,
    Own(Store),
}

/// Sets a table entry apart from a translation.
const TABLE: u64 = 1 << 63;

/// What tells entries apart: the address, and how much of it they cover.
#[inline]
fn key(address: u64, shift: u32) -> u64 {
    (address >> shift) << 6 | u64::from(shift)
}

impl Unit {
    /// Empty ones.
    pub(crate) fn new(core: &Core, map: Translation, seed: u64) -> Self {
        let store = |entries, ways, salt| Store::new(entries, ways, core.replacement, seed ^ salt);
        Self {
            map,
            l1: store(core.l1.entries, core.l1.ways, 1),
            l2: store(core.l2.entries, core.l2.ways, 2),
            walk: match core.walk {
                WalkCache::None => Walk::None,
                WalkCache::InL2 => Walk::InL2,
                WalkCache::Own { entries, ways } => Walk::Own(store(entries, ways, 3)),
            },
            last: 0,
            counts: Counts::default(),
            unmapped: None,
        }
    }

    /// So many accesses, one after the other, to addresses of one page from this one on.
    #[inline]
    pub(crate) fn access(&mut self, address: u64, accesses: u64) {
        self.counts.accesses += accesses;
        let Some(stretch) = self.map.find(address) else {
            self.unmapped.get_or_insert(address);
            return;
        };
        let stretch = *stretch;
        let key = key(address, stretch.l1_shift);
        if key == self.last {
            return;
        }
        self.last = key;
        if !self.l1.touch(key, address >> stretch.l1_shift) {
            self.miss(address, &stretch, key);
        }
    }

    #[inline(never)]
    fn miss(&mut self, address: u64, stretch: &Stretch, l1_key: u64) {
        self.counts.l1_misses += 1;
        let (l2_key, number) = (key(address, stretch.l2_shift), address >> stretch.l2_shift);
        if !self.l2.touch(l2_key, number) {
            self.walk(address, stretch.tables);
            self.l2.insert(l2_key, number);
        }
        self.l1.insert(l1_key, address >> stretch.l1_shift);
    }

    /// Reads the tables from below the lowest one that is cached, and caches those.
    fn walk(&mut self, address: u64, tables: usize) {
        self.counts.walks += 1;
        let (l2, walk) = (&mut self.l2, &mut self.walk);
        let store = match walk {
            Walk::None => {
                self.counts.walk_reads += tables as u64 + 1;
                return;
            }
            Walk::InL2 => l2,
            Walk::Own(store) => store,
        };
        let shifts = &self.map.level_shifts[..tables];
        let number = |shift: u32| address >> shift;
        let cached =
            shifts.iter().rposition(|&shift| store.touch(key(address, shift) | TABLE, number(shift)));
        let missing = cached.map_or(0, |level| level + 1);
        for &shift in &shifts[missing..] {
            store.insert(key(address, shift) | TABLE, number(shift));
        }
        self.counts.walk_reads += (tables - missing) as u64 + 1;
    }

    /// Counts from here on; what is cached stays.
    pub(crate) fn restart(&mut self) {
        self.counts = Counts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tlb::core;
    use linmap::{Geometry, Granule, Layout, Leaves, OaFormat, Pa, Rodata};

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn unit(changes: &[&str], leaves: Leaves) -> Unit {
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        let core = core::read("neoverse-n1", &changes).expect("a core");
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let mut ram = [Pa(0)..Pa(64 * GIB)];
        let layout = Layout::new(g, &mut ram, &mut [], Pa(0)..Pa(0), Rodata::Off).expect("a layout");
        let map = Translation::new(&core, &layout, leaves);
        Unit::new(&core, map, 0)
    }

    fn counts(unit: &mut Unit, addresses: impl Iterator<Item = u64>) -> (u64, u64, u64) {
        unit.restart();
        addresses.for_each(|address| unit.access(address, 1));
        (unit.counts.l1_misses, unit.counts.walks, unit.counts.walk_reads)
    }

    #[test]
    fn a_level_holds_what_it_has_entries_for() {
        let mut pages = unit(&["coalesce=1", "walk.cache=none"], Leaves::Pages);
        let touch = |count: u64| (0..count).map(|page| page << 12);
        assert_eq!(counts(&mut pages, touch(48)), (48, 48, 4 * 48));
        assert_eq!(counts(&mut pages, touch(48)), (0, 0, 0));
        // One more than fits, in order: from then on the first level misses always, the second never.
        assert_eq!(counts(&mut pages, touch(49)), (1, 1, 4));
        assert_eq!(counts(&mut pages, touch(49)), (49, 0, 0));
        assert_eq!(counts(&mut pages, touch(1280)), (1280, 1280 - 49, 4 * (1280 - 49)));
        assert_eq!(counts(&mut pages, touch(1280)), (1280, 0, 0));
    }

    #[test]
    fn coalescing_multiplies_the_reach() {
        let mut pages = unit(&["walk.cache=none"], Leaves::Pages);
        let touch = |count: u64| (0..count).map(|page| page << 12);
        assert_eq!(counts(&mut pages, touch(4 * 48)), (48, 48, 4 * 48));
        assert_eq!(counts(&mut pages, touch(4 * 48)), (0, 0, 0));
    }

    #[test]
    fn walks_start_below_what_is_cached() {
        let mut pages = unit(&["coalesce=1"], Leaves::Pages);
        // All four levels, then only the last; then a table of pages, and one of blocks, that are new.
        assert_eq!(counts(&mut pages, [0].into_iter()), (1, 1, 4));
        assert_eq!(counts(&mut pages, [4096].into_iter()), (1, 1, 1));
        assert_eq!(counts(&mut pages, [2 * MIB].into_iter()), (1, 1, 2));
        assert_eq!(counts(&mut pages, [GIB].into_iter()), (1, 1, 3));
        let mut own = unit(&["coalesce=1", "walk.cache=4/full"], Leaves::Pages);
        assert_eq!(counts(&mut own, [0, 4096, 2 * MIB].into_iter()), (3, 3, 4 + 1 + 2));
    }

    #[test]
    fn large_leaves_are_broken_down_for_the_first_level() {
        let mut large = unit(&[], Leaves::Largest);
        // 16G in one run of 1G blocks: the second level keeps 1G of it, the first 512M.
        assert_eq!(counts(&mut large, [0, 512 * MIB, GIB].into_iter()), (3, 2, 2 + 1));
        assert_eq!(counts(&mut large, [4096, 513 * MIB].into_iter()), (0, 0, 0));
    }

    #[test]
    fn what_is_not_mapped_is_noted() {
        let mut large = unit(&[], Leaves::Largest);
        large.access(64 * GIB, 1);
        assert_eq!(large.unmapped, Some(64 * GIB));
    }
}
