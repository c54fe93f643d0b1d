//! A root that others use too: a part of it is taken over, the rest stays as it is, and all its entries are stored by the
//! memory's own way.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow::Continue;

use linmap::arch::{Descriptor, Entry, Leaf, Level};
use linmap::error::{AdoptError, ChangeError, CreateError, RepaintError};
use linmap::host::{HostMemory, NoHardware};
use linmap::layout::linear_range;
use linmap::read::MarkedRange;
use linmap::{
    Access, Aliased, Attributes, Change, Combined, Frame, Geometry, Granule, Half, Memory, OaFormat, Pa,
    Policy, Region, Rodata, SharedSpace, Slot, Stats, Tree, Va,
};
use test_support::geometries;

const M: u64 = 1 << 20;
const G: u64 = 1 << 30;

/// A memory whose root is not written by its address.
struct Guarded {
    memory: HostMemory,
    root: Cell<Pa>,
    /// The entries of the root, as they were stored.
    entries: RefCell<Vec<u64>>,
    stores: Cell<u64>,
}

// SAFETY: pages and slots are those of the memory in it.
unsafe impl Memory for Guarded {
    const ACCESS: Access = Access::PlainButRoot;

    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.memory.words(table) }
    }

    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.memory.take()
    }

    fn give(&self, frame: Frame) {
        assert_ne!(frame.pa(), self.root.get(), "the root is given back");
        self.memory.give(frame);
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        assert_eq!(slot.table, self.root.get(), "not the root");
        self.entries.borrow_mut()[slot.index] = new.0;
        self.stores.set(self.stores.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { self.memory.store(slot, new) }
    }
}

/// A root in use, of which the linear map's part is taken over.
struct Shared {
    memory: Guarded,
    hardware: NoHardware,
    g: Geometry,
    space: SharedSpace,
    /// The number of table pages that others have, without the root.
    others: u64,
}

type Platform<'a> = Combined<'a, Guarded, NoHardware>;

/// The first address that is not in the linear map's part.
fn rest(g: Geometry) -> u64 {
    linear_range(g).1.0 + 1
}

/// The mappings of others: an image with its constants, and an area in pages.
fn of_others(g: Geometry) -> [Region; 3] {
    let (block, page, at) = (g.level_size(Level::new(2)), g.page_size(), rest(g));
    let region = |va: u64, oa: u64, bytes: u64, attributes| Region::new(Va(va), Pa(oa), bytes, attributes);
    let area =
        Region { leaves: linmap::Leaves::Pages, ..region(at, 5 * block, 9 * page, Attributes::KERNEL_DATA) };
    let image = region(at + 2 * block, 2 * block, block, Attributes::KERNEL_TEXT);
    [area, image, region(0_u64.wrapping_sub(block), 3 * block, block, Attributes::KERNEL_RODATA)]
}

impl Shared {
    fn new(g: Geometry, frames: usize) -> Self {
        Self::with(g, frames, &[])
    }

    /// The root has these regions in the linear map's part already.
    fn with(g: Geometry, frames: usize, there: &[Region]) -> Self {
        let memory = HostMemory::new(g, frames);
        let runs = there.iter().chain(&of_others(g)).flat_map(|r| r.runs(g)).collect::<Vec<_>>();
        let tree = Tree::build(&memory, g, Half::Upper, runs.into_iter()).expect("enough");
        let (root, all) = (tree.root(), tree.stats().tables);
        _ = tree.into_root();
        let entries = (0..g.entries(g.root()))
            // SAFETY: a table of this memory, which nothing else accesses.
            .map(|index| unsafe { memory.load(Slot { table: root, index }) }.0)
            .collect();
        let memory =
            Guarded { memory, root: Cell::new(root), entries: RefCell::new(entries), stores: Cell::new(0) };
        // SAFETY: the tables are those of this memory, and nobody else changes them.
        let space = unsafe { SharedSpace::from_shared_root(&memory, g, Half::Upper, root, linear_range(g)) }
            .expect("whole entries");
        space.set_policy(Policy::Live);
        let own = Stats::of_runs(g, there.iter().flat_map(|r| r.runs(g))).tables;
        Self { memory, hardware: NoHardware::default(), g, space, others: all - own }
    }

    fn platform(&self) -> Platform<'_> {
        // SAFETY: one thread has all of it.
        unsafe { Combined::new(&self.memory, &self.hardware) }
    }

    /// Everything that others have: their entries of the root, and all leaves below.
    fn rest(&self) -> (Vec<u64>, Vec<(Va, Level, Leaf)>) {
        let g = self.g;
        let mut leaves = Vec::new();
        let _ = self.space.on(&self.platform()).read(|reader| {
            reader.visit((Va(rest(g)), Va(u64::MAX)), |visited| {
                if let Entry::Leaf(leaf) = visited.entry {
                    leaves.push((visited.va, visited.level, leaf));
                }
                Continue(())
            })
        });
        let first = g.entries(g.root()) / 2;
        (self.root()[first..].to_vec(), leaves)
    }

    /// The leaves and the tables in the linear map's part of the root.
    fn root_entries(&self) -> (u64, u64) {
        let (g, entries) = (self.g, self.root());
        let (leaves, others): (Vec<u64>, Vec<u64>) = entries[..g.entries(g.root()) / 2]
            .iter()
            .filter(|entry| **entry != 0)
            .partition(|entry| matches!(Descriptor(**entry).decode(g, g.root()), Entry::Leaf(_)));
        (leaves.len() as u64, others.len() as u64)
    }

    /// The entries of the root.
    fn root(&self) -> Vec<u64> {
        let table = self.space.root();
        assert_eq!(table, self.memory.root.get(), "the root moved");
        let entries = 0..self.g.entries(self.g.root());
        // SAFETY: a live table of this memory, which nothing else accesses.
        entries.map(|index| unsafe { self.memory.load(Slot { table, index }) }.0).collect()
    }

    /// Counts are those of the tables, table pages in use too, and the root is as it was stored by its own way.
    fn is_sound(&self) {
        let counted = self.space.on(&self.platform()).read(|reader| reader.count(linear_range(self.g)));
        assert_eq!(self.space.on(&self.platform()).stats(), counted);
        assert_eq!(self.memory.memory.in_use() as u64, counted.tables + self.others);
        assert_eq!(self.root(), *self.memory.entries.borrow(), "a store went past the memory's own way");
    }

    fn create(&self, regions: &[Region]) -> Result<Stats, CreateError> {
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(&self.platform()).create_regions(regions.iter().copied()) }
    }
}

/// RAM with the image's alias in the middle, at an offset that is not the start of the half; the largest leaves are in the
/// root where that may have leaves.
fn ram(g: Geometry) -> [Region; 3] {
    let largest = g.level_size(g.first_leaf_level()).min(G);
    let (va, oa) = (g.base(Half::Upper) + 2 * largest, 4 * largest);
    let part = |at: u64, bytes: u64, attributes| Region::new(Va(va + at), Pa(oa + at), bytes, attributes);
    let page = g.page_size();
    let image = 3 * page..20 * page;
    [
        part(0, image.start, Attributes::RAM),
        part(image.start, image.end - image.start, Attributes::KERNEL_DATA),
        part(image.end, 2 * largest - image.end, Attributes::RAM),
    ]
}

#[test]
fn the_rest_of_a_root_stays_as_it_is() {
    for g in geometries() {
        let shared = Shared::new(g, 3000);
        let (platform, rest) = (shared.platform(), shared.rest());
        assert_eq!(shared.space.range(), linear_range(g));
        assert_eq!(shared.space.on(&platform).stats(), Stats::ROOT, "{g:?}");
        let regions = ram(g);
        let stats = Stats::of_runs(g, regions.iter().flat_map(|r| r.runs(g)));
        assert_eq!(shared.create(&regions), Ok(stats), "{g:?}");
        assert_eq!(shared.space.on(&platform).stats(), stats);
        shared.is_sound();
        let (large, image, page) = (regions[2], regions[1], g.page_size());
        let last = Va(large.va.0 + large.bytes - page);
        // SAFETY: no CPU uses these tables.
        unsafe {
            // The image is a region of its own: no leaf changes its size.
            shared.space.set_policy(Policy::Fixed);
            shared
                .space
                .on(&platform)
                .protect(image.va, image.bytes / page, Change::READ_ONLY)
                .expect("whole leaves");
            shared.space.set_policy(Policy::Live);
            for policy in [Policy::Live, Policy::Park] {
                shared.space.set_policy(policy);
                shared.space.on(&platform).set_valid(last, 1, false).expect("enough");
                shared.is_sound();
                shared.space.on(&platform).set_valid(last, 1, true).expect("enough");
                shared.space.on(&platform).collapse(large.va, large.bytes / page).expect("enough");
                shared.is_sound();
            }
            let all = regions.iter().map(|r| r.bytes).sum::<u64>() / page;
            shared.space.on(&platform).protect(regions[0].va, all, Change::READ_ONLY).expect("enough");
            shared.is_sound();
            shared.space.on(&platform).unmap(last, 1).expect("enough");
            shared.is_sound();
            shared.space.on(&platform).unmap(regions[0].va, all - 1).expect("enough");
            shared.is_sound();
            assert_eq!(shared.space.on(&platform).stats(), Stats::ROOT, "{g:?}");
            shared
                .space
                .on(&platform)
                .map(regions[0].va, all, regions[0].oa, Attributes::RAM)
                .expect("enough");
            shared.is_sound();
        }
        assert!(rest == shared.rest(), "{g:?}: the rest changed");
    }
}

#[test]
fn a_repaint_keeps_the_root() {
    for g in geometries().into_iter().map(|g| g.with_largest_leaf(4 << 30)) {
        let shared = Shared::new(g, 3000);
        let (platform, rest) = (shared.platform(), shared.rest());
        let regions = ram(g);
        let bytes = regions.iter().map(|r| r.bytes).sum::<u64>();
        shared.create(&regions).expect("enough");
        let (leaves, tables) = shared.root_entries();
        let is_leaf = g.new_leaf_sizes().iter().any(|size| size.level == g.root());
        assert_eq!(leaves != 0, is_leaf, "{g:?}: {leaves} leaves in the root");
        let before = shared.memory.stores.get();
        let pages = regions.map(|r| Region { leaves: linmap::Leaves::Pages, ..r });
        let stats = Stats::of_runs(g, pages.iter().flat_map(|r| r.runs(g)));
        assert_eq!(shared.space.on(&platform).repaint(linear_range(g), &[]), Ok(stats), "{g:?}");
        assert_eq!(shared.memory.stores.get() - before, leaves + tables, "{g:?}");
        shared.is_sound();
        assert_eq!(shared.space.on(&platform).stats().bytes(g), bytes);
        assert_eq!(shared.root_entries(), (0, leaves + tables));
        assert!(rest == shared.rest(), "{g:?}: the rest changed");
    }
}

/// A map on four levels, with blocks of 1G in the second.
fn k4() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

/// Three levels: the root has leaves of 1G.
fn k4_39() -> Geometry {
    Geometry::new(Granule::K4, 39, OaFormat::Bits48).expect("a geometry")
}

#[test]
fn what_is_there_already_is_counted() {
    for g in geometries() {
        let regions = ram(g);
        let shared = Shared::with(g, 3000, &regions);
        let stats = Stats::of_runs(g, regions.iter().flat_map(|r| r.runs(g)));
        assert_eq!(shared.space.on(&shared.platform()).stats(), stats, "{g:?}");
        shared.is_sound();
    }
}

/// Holes are passed over several at a time, and nothing else is.
#[test]
fn entries_between_holes_are_counted() {
    let g = k4();
    let at = |slot: u64| {
        let va = Va(g.base(Half::Upper) + (slot << g.level_shift(g.root())));
        Region::new(va, Pa(slot * M), g.page_size(), Attributes::RAM)
    };
    for first in 0..10 {
        for second in first + 1..first + 10 {
            for third in [second + 1, 250, 255] {
                let regions = [first, second, third].map(at);
                let shared = Shared::with(g, 40, &regions);
                let stats = shared.space.on(&shared.platform()).stats();
                assert_eq!(stats.tables, 1 + 3 * 3, "{first}, {second}, {third}");
                assert_eq!(stats.bytes(g), 3 * g.page_size(), "{first}, {second}, {third}");
            }
        }
    }
}

/// Everything that changes more than whole leaves.
#[test]
fn what_is_not_taken_over_is_refused() {
    for g in [k4(), k4_39()] {
        let shared = Shared::new(g, 3000);
        shared.create(&ram(g)).expect("enough");
        let (platform, before) = (shared.platform(), shared.rest());
        let [area, image, _] = of_others(g);
        let not_owned = |va: Va| Err(ChangeError::NotOwned { va });
        let beyond = Va(rest(g));
        // From the last page that was taken over on.
        let across = Va(beyond.0 - g.page_size());
        let space = &shared.space;
        // SAFETY: no CPU uses these tables.
        unsafe {
            assert_eq!(
                space.on(&platform).map(Va(beyond.0 + G), 1, Pa(0), Attributes::RAM),
                not_owned(Va(beyond.0 + G))
            );
            assert_eq!(space.on(&platform).unmap(area.va, 1), not_owned(area.va));
            assert_eq!(space.on(&platform).map(across, 2, Pa(0), Attributes::RAM), not_owned(beyond));
            assert_eq!(space.on(&platform).unmap_all(&[(ram(g)[0].va, 3), (area.va, 1)]), not_owned(area.va));
            for policy in [Policy::Live, Policy::Park] {
                space.set_policy(policy);
                let part = space.on(&platform).protect(image.va, 1, Change::NOT_EXECUTABLE);
                assert_eq!(part, not_owned(image.va));
                let part = space.on(&platform).set_valid(Va(image.va.0 + g.page_size()), 1, false);
                assert!(matches!(part, Err(ChangeError::NotOwned { .. })), "{part:?}");
            }
        }
        assert_eq!(space.on(&platform).split_to_pages(image.va, 1), not_owned(image.va));
        assert_eq!(space.on(&platform).collapse(area.va, 1), not_owned(area.va));
        assert_eq!(space.on(&platform).pin(area.va, 1), not_owned(area.va));
        assert_eq!(space.most_tables_in_pages(across, 2), 0);
        let all = (Va(g.base(Half::Upper)), Va(u64::MAX));
        assert_eq!(space.on(&platform).repaint(all, &[]), Err(RepaintError::NotOwned { va: beyond }));
        let there = Region::new(Va(beyond.0 + g.level_size(g.root())), Pa(0), M, Attributes::RAM);
        let graft = Err(CreateError::NotOwned { va: there.va });
        assert_eq!(shared.create(&[there]), graft);
        assert!(before == shared.rest(), "{g:?}");
        shared.is_sound();
        // Whole leaves change.
        // SAFETY: as above.
        unsafe {
            space.on(&platform).protect(area.va, 2, Change::READ_ONLY).expect("pages");
            space.on(&platform).set_valid(image.va, image.bytes / g.page_size(), false).expect("a block");
        }
        assert!(before != shared.rest(), "{g:?}");
        shared.is_sound();
    }
}

#[test]
fn a_part_of_an_entry_is_not_taken_over() {
    let g = k4_39();
    let tree = |memory: &HostMemory| {
        Tree::build(memory, g, Half::Upper, std::iter::empty()).expect("a page").into_root()
    };
    let memory = HostMemory::new(g, 1);
    let root = tree(&memory).into_pa();
    let take = |range| {
        // SAFETY: the root is one of this memory, and nobody changes its tables.
        unsafe { SharedSpace::from_shared_root(&memory, g, Half::Upper, root, range) }.map(|s| s.range())
    };
    let (first, last) = linear_range(g);
    assert_eq!(take((first, last)), Ok((first, last)));
    // Runs of the root have 16 entries of 1G.
    assert_eq!(take((Va(first.0 + G), last)), Err(AdoptError::PartOfEntry { va: Va(first.0 + G) }));
    assert_eq!(take((first, Va(last.0 - 1))), Err(AdoptError::PartOfEntry { va: Va(last.0 - 1) }));
    for (first, last) in [(last, first), (Va(0), Va(G - 1)), (Va(first.0 - 16 * G), last)] {
        assert_eq!(take((first, last)), Err(AdoptError::OutsideHalf { first, last }));
    }
    let other = HostMemory::new(Geometry::new(Granule::K16, 47, OaFormat::Bits48).expect("one"), 1);
    // SAFETY: it is refused before anything is read.
    let refused = unsafe { SharedSpace::from_shared_root(&other, g, Half::Upper, root, linear_range(g)) };
    assert!(matches!(refused, Err(AdoptError::Memory(_))));
}

/// The area is in the rest of the root, its aliases are in the part that was taken over.
#[test]
fn an_area_of_others_changes_with_its_aliases() {
    for g in [k4(), k4_39()] {
        let shared = Shared::new(g, 3000);
        let (platform, [area, ..]) = (shared.platform(), of_others(g));
        let base = g.base(Half::Upper);
        let all = Region::new(Va(base), Pa(0), 2 * G, Attributes::RAM);
        shared.create(&[all]).expect("enough");
        let mut aliased = Aliased::new(shared.space.on(&platform), base, Rodata::Full);
        // SAFETY: no CPU uses these tables.
        unsafe { aliased.set_memory_ro(area.va, 9) }.expect("mapped");
        for va in [area.va, Va(base + area.oa.0)] {
            for page in 0..9 {
                let entry =
                    shared.space.on(&platform).read(|reader| reader.entry(Va(va.0 + page * g.page_size())));
                let Some((_, Level::PAGE, Entry::Leaf(leaf))) = entry else { panic!("{entry:?}") };
                assert!(leaf.attributes.contains(Attributes::READ_ONLY));
            }
        }
        shared.is_sound();
    }
}

/// A dump shows all of the root, and restrictions in the tables of others.
#[test]
fn readers_see_all_of_the_root() {
    let g = k4();
    let shared = Shared::new(g, 100);
    let (platform, index) = (shared.platform(), g.index(rest(g), g.root()));
    let slot = Slot { table: shared.space.root(), index };
    // SAFETY: others restrict their own table: it is not executable by EL0.
    unsafe {
        let table = shared.memory.memory.load(slot);
        shared.memory.store(slot, Descriptor(table.0 | 1 << 60));
    }
    shared.create(&ram(g)).expect("enough");
    let dump = |range| {
        let mut text = String::new();
        let region = MarkedRange { range, start: "start", end: "end" };
        let stats = shared
            .space
            .on(&platform)
            .read(|reader| reader.dump(region, &mut text))
            .expect("a string takes all");
        (text, stats)
    };
    let (all, part) = (dump((Va(g.base(Half::Upper)), Va(u64::MAX))), dump(linear_range(g)));
    for region in of_others(g) {
        let first = format!("{:#018x}-", region.va.0);
        assert!(all.0.contains(&first) && !part.0.contains(&first), "{first} in {}", all.0);
    }
    // What is below can be read, and not taken apart.
    assert!(shared.space.on(&platform).read(|reader| reader.entry(of_others(g)[0].va)).is_some());
}
