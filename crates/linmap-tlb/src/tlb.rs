//! Two levels of TLB: an access looks in the first, a miss there in the second, and a miss there walks the tables.

use crate::associative::Associative;
use crate::cpu_core::{Core, WalkCache};
use crate::translation::{Extent, Translation};

/// The events that accesses caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses, one for each cache line.
    pub accesses: u64,
    /// Misses of the first level.
    pub l1_misses: u64,
    /// Misses of the second level: each is a walk.
    pub walks: u64,
    /// Descriptors that walks read from memory.
    pub walk_reads: u64,
}

/// The data-side TLBs of a core over one linear map.
pub struct Tlb {
    map: Translation,
    l1: Associative,
    l2: Associative,
    tables: TableCache,
    /// The first-level key of the last access: the most recently used one.
    last: u64,
    counts: Counts,
    unmapped: Option<u64>,
}

/// The place of the table entries that walks have read.
enum TableCache {
    None,
    InL2,
    Own(Associative),
}

/// A bit of a key: the entry is a table, not a translation.
const TABLE: u64 = 1 << 63;

/// The key of an entry: the address, and log2 of the size that it covers.
#[inline]
fn key(address: u64, shift: u32) -> u64 {
    (address >> shift) << 6 | u64::from(shift)
}

impl Tlb {
    /// Returns empty TLBs. `seed` is for cores that replace entries at random.
    pub fn new(core: &Core, map: Translation, seed: u64) -> Self {
        let memory = |entries, ways, salt| Associative::new(entries, ways, core.replacement, seed ^ salt);
        Self {
            map,
            l1: memory(core.l1.entries, core.l1.ways, 1),
            l2: memory(core.l2.entries, core.l2.ways, 2),
            tables: match core.walk_cache {
                WalkCache::None => TableCache::None,
                WalkCache::InL2 => TableCache::InL2,
                WalkCache::Own { entries, ways } => TableCache::Own(memory(entries, ways, 3)),
            },
            last: 0,
            counts: Counts::default(),
            unmapped: None,
        }
    }

    /// Counts so many accesses in a row to one page. `address` counts from the start of the linear map.
    #[inline]
    pub fn access(&mut self, address: u64, accesses: u64) {
        self.counts.accesses += accesses;
        let Some(extent) = self.map.find(address) else {
            self.unmapped.get_or_insert(address);
            return;
        };
        let extent = *extent;
        let key = key(address, extent.l1_shift);
        if key == self.last {
            return;
        }
        self.last = key;
        if !self.l1.touch(key, address >> extent.l1_shift) {
            self.miss(address, &extent, key);
        }
    }

    #[inline(never)]
    fn miss(&mut self, address: u64, extent: &Extent, l1_key: u64) {
        self.counts.l1_misses += 1;
        let (l2_key, number) = (key(address, extent.l2_shift), address >> extent.l2_shift);
        if !self.l2.touch(l2_key, number) {
            self.walk(address, extent.tables);
            self.l2.insert(l2_key, number);
        }
        self.l1.insert(l1_key, address >> extent.l1_shift);
    }

    /// Reads the tables below the lowest cached one, and caches them.
    fn walk(&mut self, address: u64, tables: usize) {
        self.counts.walks += 1;
        let cache = match &mut self.tables {
            TableCache::None => {
                self.counts.walk_reads += tables as u64 + 1;
                return;
            }
            TableCache::InL2 => &mut self.l2,
            TableCache::Own(cache) => cache,
        };
        let shifts = &self.map.level_shifts[..tables];
        let number = |shift: u32| address >> shift;
        let cached =
            shifts.iter().rposition(|&shift| cache.touch(key(address, shift) | TABLE, number(shift)));
        let missing = cached.map_or(0, |level| level + 1);
        for &shift in &shifts[missing..] {
            cache.insert(key(address, shift) | TABLE, number(shift));
        }
        self.counts.walk_reads += (tables - missing) as u64 + 1;
    }

    /// Returns the counts since the start or the last [`Tlb::restart`].
    #[inline]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Sets all counts to 0; entries stay.
    pub fn restart(&mut self) {
        self.counts = Counts::default();
    }

    /// Returns the first address that was accessed and is not mapped. Such accesses miss nothing.
    pub const fn unmapped(&self) -> Option<u64> {
        self.unmapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;
    use linmap::{Geometry, Granule, Layout, Leaves, OaFormat, Pa, Rodata};

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn n1(changes: &[&str], leaves: Leaves) -> Tlb {
        let mut parameters = Parameters::built_in("neoverse-n1").expect("a core");
        for change in changes {
            parameters.set(change, "a test", "here").expect("a change");
        }
        let core = parameters.core().expect("a core");
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let mut ram = [Pa(0)..Pa(64 * GIB)];
        let layout = Layout::new(g, &mut ram, &mut [], Pa(0)..Pa(0), Rodata::Off).expect("a layout");
        let map = Translation::new(&core, &layout, leaves);
        Tlb::new(&core, map, 0)
    }

    fn counts(tlb: &mut Tlb, addresses: impl Iterator<Item = u64>) -> (u64, u64, u64) {
        tlb.restart();
        addresses.for_each(|address| tlb.access(address, 1));
        (tlb.counts.l1_misses, tlb.counts.walks, tlb.counts.walk_reads)
    }

    #[test]
    fn a_level_holds_as_many_pages_as_it_has_entries() {
        let mut pages = n1(&["coalesce=1", "walk.cache=none"], Leaves::Pages);
        let touch = |count: u64| (0..count).map(|page| page << 12);
        assert_eq!(counts(&mut pages, touch(48)), (48, 48, 4 * 48));
        assert_eq!(counts(&mut pages, touch(48)), (0, 0, 0));
        // One page more than fits, in order: then the first level always misses, the second never.
        assert_eq!(counts(&mut pages, touch(49)), (1, 1, 4));
        assert_eq!(counts(&mut pages, touch(49)), (49, 0, 0));
        assert_eq!(counts(&mut pages, touch(1280)), (1280, 1280 - 49, 4 * (1280 - 49)));
        assert_eq!(counts(&mut pages, touch(1280)), (1280, 0, 0));
    }

    #[test]
    fn coalescing_multiplies_the_reach() {
        let mut pages = n1(&["walk.cache=none"], Leaves::Pages);
        let touch = |count: u64| (0..count).map(|page| page << 12);
        assert_eq!(counts(&mut pages, touch(4 * 48)), (48, 48, 4 * 48));
        assert_eq!(counts(&mut pages, touch(4 * 48)), (0, 0, 0));
    }

    #[test]
    fn walks_start_below_cached_tables() {
        let mut pages = n1(&["coalesce=1"], Leaves::Pages);
        // All four levels; only the last; with a new table of pages; with a new table of blocks.
        assert_eq!(counts(&mut pages, [0].into_iter()), (1, 1, 4));
        assert_eq!(counts(&mut pages, [4096].into_iter()), (1, 1, 1));
        assert_eq!(counts(&mut pages, [2 * MIB].into_iter()), (1, 1, 2));
        assert_eq!(counts(&mut pages, [GIB].into_iter()), (1, 1, 3));
        let mut own = n1(&["coalesce=1", "walk.cache=4/full"], Leaves::Pages);
        assert_eq!(counts(&mut own, [0, 4096, 2 * MIB].into_iter()), (3, 3, 4 + 1 + 2));
    }

    #[test]
    fn large_leaves_are_broken_down_for_the_first_level() {
        let mut large = n1(&[], Leaves::Largest);
        // 16G in one run of 1G blocks: an entry of the second level covers 1G of it, one of the first 512M.
        assert_eq!(counts(&mut large, [0, 512 * MIB, GIB].into_iter()), (3, 2, 2 + 1));
        assert_eq!(counts(&mut large, [4096, 513 * MIB].into_iter()), (0, 0, 0));
    }

    #[test]
    fn an_unmapped_access_is_remembered() {
        let mut large = n1(&[], Leaves::Largest);
        large.access(64 * GIB, 1);
        assert_eq!(large.unmapped(), Some(64 * GIB));
    }
}
