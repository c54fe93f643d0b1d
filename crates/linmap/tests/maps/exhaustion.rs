//! No page is lost when frames run out, at every single allocation, or runs are refused.
//!
//! After each failure every frame is back, the address space says what it said, and the same memory
//! serves the next attempt.

use crate::dirty_memory::dirty_memory;
use crate::raw::load;
use linmap::arch::{Descriptor, Level};
use linmap::error::{BuildError, ChangeError, CreateError, Unaligned};
use linmap::host::HostMemory;
use linmap::layout::{Run, linear_range};
use linmap::read::MarkedRange;
use linmap::{
    Attributes, Geometry, Granule, Half, Layout, Leaves, OaFormat, Pa, Region, Rodata, SharedSpace, Slot,
    Stats, Tree, Va,
};
use test_support::geometries;

const G: u64 = 1 << 30;

fn k4() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap()
}

/// Shows `check` a machine whose map has tables at each level: ragged RAM and a carve-out.
fn with_layout<T>(g: Geometry, check: impl FnOnce(Layout<'_>) -> T) -> T {
    let mut ram = [Pa(G + 0x3_0000)..Pa(3 * G - 0x5_0000), Pa(9 * G + 0x1_0000)..Pa(11 * G)];
    let mut carve_outs = [Pa(10 * G)..Pa(10 * G + 0x10_0000)];
    let image = Pa(G + 0x21_0000)..Pa(G + 0x43_0000);
    check(Layout::new(g, &mut ram, &mut carve_outs, image, Rodata::Full).expect("a good machine"))
}

fn page(at: u64) -> Run {
    Run {
        va: Va(0xffff_0000_0000_0000 + at),
        oa: Pa(at),
        level: Level::PAGE,
        contiguous: false,
        descriptors: 1,
        attributes: Attributes::RAM,
    }
}

fn build(memory: &HostMemory, g: Geometry, runs: &[Run]) -> Result<Tree, BuildError> {
    Tree::build(memory, g, Half::Upper, runs.iter().copied())
}

/// Creates a region for each run, which is of pages.
fn create(space: &SharedSpace, memory: &HostMemory, runs: &[Run]) -> Result<Stats, CreateError> {
    let region = |run: &Run| Region::new(run.va, run.oa, run.descriptors << 12, run.attributes);
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&memory.platform()).create_regions(runs.iter().map(region)) }
}

#[test]
fn a_tree_that_runs_out_of_frames_gives_all_back() {
    for g in geometries() {
        with_layout(g, |layout| {
            let needed = Stats::of_runs(g, layout.runs(Leaves::Largest)).tables;
            for available in 1..needed {
                let memory = dirty_memory(g, available as usize);
                let result = Tree::build(&memory, g, Half::Upper, layout.runs(Leaves::Largest));
                assert_eq!(result.unwrap_err(), BuildError::OutOfFrames { taken: available }, "{g:?}");
                assert_eq!(memory.in_use(), 0, "{g:?}: {available} of {needed}");
            }
            let memory = dirty_memory(g, needed as usize);
            let tree = Tree::build(&memory, g, Half::Upper, layout.runs(Leaves::Largest)).expect("enough");
            tree.discard(&memory);
            assert_eq!(memory.in_use(), 0, "{g:?}");
        });
    }
}

/// A run of pages that fills tables, where each takes a frame in a row.
#[test]
fn tables_that_are_filled_whole_are_given_back() {
    for g in geometries() {
        let entries = 1u64 << g.index_bits();
        let at = (2 * entries - 5) << g.page_shift();
        let va = Va(g.base(Half::Upper) + at);
        let run = Run { va, oa: Pa(at), descriptors: 3 * entries + 7, ..page(0) };
        let needed = u64::from(g.levels()) - 1 + 5;
        for available in 1..needed {
            let memory = dirty_memory(g, available as usize);
            let error = build(&memory, g, &[run]).unwrap_err();
            assert_eq!((error, memory.in_use()), (BuildError::OutOfFrames { taken: available }, 0), "{g:?}");
        }
        let tree = build(&dirty_memory(g, needed as usize), g, &[run]).expect("enough");
        assert_eq!(tree.stats().tables, needed, "{g:?}");
    }
}

/// A live address space with its last page mapped, far from the linear map.
struct Live {
    memory: HostMemory,
    space: SharedSpace,
}

impl Live {
    /// `spare` frames are left when it stands.
    fn new(g: Geometry, spare: usize) -> Self {
        let page = Run { va: Va(!(g.page_size() - 1)), ..page(0) };
        let memory = dirty_memory(g, g.levels() as usize + spare);
        let tree = build(&memory, g, &[page]).expect("one table a level");
        Self { memory, space: SharedSpace::adopt(tree) }
    }

    /// Returns the leaves, and the whole root, bit by bit.
    fn state(&self) -> (String, Vec<Descriptor>, usize) {
        let g = self.space.geometry();
        let mut text = String::new();
        let range = (Va(g.base(Half::Upper)), Va(u64::MAX));
        let region = MarkedRange { range, start: "upper half", end: "its end" };
        self.space
            .on(&self.memory.platform())
            .read(|reader| reader.dump(region, &mut text))
            .expect("a string takes all");
        let table = self.space.root();
        let root = (0..g.entries(g.root())).map(|index| load(&self.memory, Slot { table, index }));
        (text, root.collect(), self.memory.in_use())
    }

    fn create(&self, layout: &Layout<'_>) -> Result<Stats, CreateError> {
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(&self.memory.platform()).create(layout, Leaves::Largest) }
    }
}

#[test]
fn creation_that_runs_out_of_frames_changes_nothing() {
    for g in geometries() {
        with_layout(g, |layout| {
            let needed = Stats::of_runs(g, layout.runs(Leaves::Largest)).tables as usize;
            for spare in 0..needed {
                let live = Live::new(g, spare);
                let before = live.state();
                let taken = spare as u64;
                assert_eq!(
                    live.create(&layout),
                    Err(CreateError::Build(BuildError::OutOfFrames { taken })),
                    "{g:?}"
                );
                assert_eq!(live.state(), before, "{g:?}: {spare} of {needed}");
            }
            let live = Live::new(g, needed);
            let before = live.memory.in_use();
            let stats = live.create(&layout).expect("enough");
            assert_eq!(stats, Stats::of_runs(g, layout.runs(Leaves::Largest)), "{g:?}");
            // The root that was built is given back: the live one has its entries.
            assert_eq!(live.memory.in_use(), before + stats.tables as usize - 1, "{g:?}");
        });
    }
}

#[test]
fn a_map_is_not_created_where_there_is_one() {
    for g in geometries() {
        with_layout(g, |layout| {
            let needed = Stats::of_runs(g, layout.runs(Leaves::Largest)).tables as usize;
            let live = Live::new(g, 2 * needed);
            live.create(&layout).expect("enough");
            let counted = live.space.on(&live.memory.platform()).read(|reader| reader.count(linear_range(g)));
            assert_eq!(counted, Stats::of_runs(g, layout.runs(Leaves::Largest)), "{g:?}");
            let before = live.state();
            let (start, _) = linear_range(g);
            assert_eq!(live.create(&layout), Err(CreateError::Occupied { va: start }), "{g:?}");
            assert_eq!(live.state(), before, "{g:?}");
        });
    }
}

/// A slot that is taken is named, also where the tree has a hole; slots on either side are free to use.
#[test]
fn the_occupied_slot_is_named() {
    const SLOT: u64 = 512 * G;
    let g = k4();
    let memory = dirty_memory(g, 32);
    let space = SharedSpace::adopt(build(&memory, g, &[page(2 * SLOT)]).unwrap());
    for runs in [[page(0), page(2 * SLOT + 4 * G)], [page(SLOT), page(3 * SLOT)]] {
        let error = create(&space, &memory, &runs).unwrap_err();
        assert_eq!(error, CreateError::Occupied { va: Va(0xffff_0000_0000_0000 + 2 * SLOT) });
        assert_eq!(memory.in_use(), 4);
    }
    for (runs, in_use) in [([page(0), page(SLOT)], 10), ([page(3 * SLOT), page(255 * SLOT)], 16)] {
        assert_eq!(create(&space, &memory, &runs).map(|stats| stats.tables), Ok(7));
        assert_eq!(memory.in_use(), in_use);
    }
    let counted = space.on(&memory.platform()).read(|reader| reader.count(linear_range(g)));
    assert_eq!((counted.bytes(g), counted.tables), (5 << 12, 16));
}

/// A layout for other tables is refused before anything is built.
#[test]
fn a_layout_of_another_geometry_or_half_is_refused() {
    let other = Geometry::new(Granule::K4, 47, OaFormat::Bits48).unwrap();
    for (g, half) in [(other, Half::Upper), (k4(), Half::Lower)] {
        let memory = dirty_memory(g, 4);
        let tree = Tree::build(&memory, g, half, std::iter::empty()).unwrap();
        let space = SharedSpace::adopt(tree);
        with_layout(k4(), |layout| {
            // SAFETY: no CPU uses these tables.
            let created = unsafe { space.on(&memory.platform()).create(&layout, Leaves::Largest) };
            assert_eq!(created, Err(CreateError::OtherGeometry));
            assert_eq!(memory.in_use(), 1);
        });
    }
}

/// A creation is judged as what is mapped: pages that can be written and executed are refused by both,
/// unless the owner of the machine allows them.
#[test]
fn pages_that_are_writable_and_executable_are_not_created() {
    let bits = [Attributes::READ_ONLY, Attributes::DIRTY_MANAGED, Attributes::PXN, Attributes::UXN];
    let flags =
        |n: usize| (0..4).filter(|bit| n >> bit & 1 == 1).fold(Attributes::ACCESSED, |a, bit| a | bits[bit]);
    let (mut refused, mut made) = (0, 0);
    for g in geometries() {
        let (base, page_size) = (g.base(Half::Upper), g.page_size());
        for attributes in (0..16).map(flags) {
            let memory = dirty_memory(g, 16);
            let space = SharedSpace::adopt(build(&memory, g, &[]).unwrap());
            let va = Va(base + page_size);
            // SAFETY: no CPU uses these tables.
            let mapped = unsafe { space.on(&memory.platform()).map(va, 1, Pa(page_size), attributes) };
            // SAFETY: as above.
            unsafe { space.on(&memory.platform()).unmap(va, 1) }.unwrap_or_default();
            let good = Region::new(Va(base), Pa(0), page_size, Attributes::RAM);
            let regions = [good, Region { va, oa: Pa(page_size), attributes, ..good }];
            // SAFETY: as above.
            let create = || unsafe { space.on(&memory.platform()).create_regions(regions) };
            let result = create();
            assert_eq!(result.is_err(), mapped.is_err(), "{g:?}: {attributes:?}");
            if mapped.is_ok() {
                made += 1;
                continue;
            }
            refused += 1;
            assert_eq!(mapped, Err(ChangeError::WriteExecute { va }), "{g:?}: {attributes:?}");
            assert_eq!(result, Err(CreateError::WriteExecute { va }), "{g:?}: {attributes:?}");
            assert_eq!((memory.in_use(), space.on(&memory.platform()).stats()), (1, Stats::ROOT));
            space.allow_write_execute(true);
            assert_eq!(create().map(|stats| stats.tables), Ok(g.levels().into()));
        }
    }
    assert!(refused >= 9 * 94 && made >= 7 * 94, "{refused} refused, {made} not");
}

/// Runs that cannot be mapped, each after a page that can, so that there are tables to give back.
#[test]
fn bad_runs_are_refused_and_all_is_given_back() {
    let (g, good) = (k4(), page(0));
    let at = |level, contiguous| Run { level: Level::new(level), contiguous, ..page(16 * G) };
    let not_a_leaf = |run: Run| (run, BuildError::NotALeaf { va: run.va, level: run.level });
    let unaligned = |run: Run, unaligned, leaf| (run, BuildError::Unaligned { va: run.va, unaligned, leaf });
    let out_of_range = |run: Run| (run, BuildError::OutOfRange { va: run.va });
    let (odd, second) = (Va(good.va.0 + 0x1800), page(16 * G + 0x1000).va);
    let rows = [
        (good, BuildError::Unordered { va: good.va }),
        not_a_leaf(at(-1, false)),
        not_a_leaf(at(0, false)),
        unaligned(Run { va: odd, ..good }, Unaligned::Va(odd), 0x1000),
        unaligned(Run { oa: Pa(0x800), ..page(0x1000) }, Unaligned::Pa(Pa(0x800)), 0x1000),
        unaligned(Run { va: second, ..at(2, false) }, Unaligned::Va(second), 2 << 20),
        unaligned(Run { oa: Pa(0x1000), ..at(2, false) }, Unaligned::Pa(Pa(0x1000)), 2 << 20),
        not_a_leaf(Run { descriptors: 0, ..page(0x1000) }),
        // Contiguous runs: not whole, and aligned to a member only.
        unaligned(at(3, true), Unaligned::Size(0x1000), 0x1_0000),
        unaligned(Run { descriptors: 24, ..at(3, true) }, Unaligned::Size(0x1_8000), 0x1_0000),
        unaligned(Run { va: second, descriptors: 16, ..at(3, true) }, Unaligned::Va(second), 0x1_0000),
        unaligned(
            Run { oa: Pa(0x1000), descriptors: 16, ..at(3, true) },
            Unaligned::Pa(Pa(0x1000)),
            0x1_0000,
        ),
        unaligned(Run { descriptors: 16, oa: Pa(G), ..at(1, true) }, Unaligned::Pa(Pa(G)), 16 * G),
        // Below the half, past its end, and past the output addresses.
        out_of_range(Run { va: Va(0x1000), ..good }),
        out_of_range(Run { va: Va(0xfffe_ffff_ffff_f000), ..good }),
        out_of_range(Run { va: Va(u64::MAX << 12), descriptors: 2, ..good }),
        out_of_range(Run { descriptors: u64::MAX, ..page(0x1000) }),
        out_of_range(Run { oa: Pa(1 << 48), ..page(0x1000) }),
        out_of_range(Run { oa: Pa((1 << 48) - 0x1000), descriptors: 2, ..page(0x1000) }),
    ];
    for (bad, error) in rows {
        let memory = dirty_memory(g, 16);
        assert_eq!(build(&memory, g, &[good, bad]).unwrap_err(), error, "{bad:?}");
        assert_eq!(memory.in_use(), 0, "{bad:?}");
    }
}

/// Regions that cannot be mapped, each after one that can; regions without a whole page at a page are left out, wherever they are.
#[test]
fn bad_regions_are_refused_and_all_is_given_back() {
    let (g, base) = (k4(), Va(0xffff_0000_0000_0000));
    let good = Region::new(Va(base.0 + G), Pa(G), 3 << 12, Attributes::RAM);
    let at = |va: u64, oa: u64, bytes: u64| Region::new(Va(va), Pa(oa), bytes, Attributes::RAM);
    let next = good.va.0 + good.bytes;
    let both = Attributes::RAM & !(Attributes::PXN | Attributes::UXN);
    let unordered = |region: Region| (region, BuildError::Unordered { va: region.va }.into());
    let out_of_range = |region: Region| (region, BuildError::OutOfRange { va: region.va }.into());
    let writable = Region { attributes: both, ..at(next, 0, 0x1000) };
    let rows: [(Region, CreateError); 8] = [
        unordered(good),
        unordered(at(next - 0x1000, 0, 0x2000)),
        unordered(at(base.0, 0, 0x1000)),
        // Below the half, and the end of the output addresses. What is beyond the last address is left out.
        out_of_range(at(0x1000, 0, 0x1000)),
        out_of_range(at(0xfffe_ffff_ffff_f000, 0, 0x1000)),
        out_of_range(at(next, (1 << 48) - 0x1000, 0x2000)),
        out_of_range(at(next, 1 << 48, 0x1000)),
        (writable, CreateError::WriteExecute { va: writable.va }),
    ];
    let memory = dirty_memory(g, 16);
    let space = SharedSpace::adopt(build(&memory, g, &[]).unwrap());
    // SAFETY: no CPU uses these tables.
    let create = |regions: &[Region]| unsafe {
        space.on(&memory.platform()).create_regions(regions.iter().copied()).map(|stats| stats.tables)
    };
    for (bad, error) in rows {
        assert_eq!(create(&[good, bad]), Err(error), "{bad:?}");
        assert_eq!((memory.in_use(), space.on(&memory.platform()).stats()), (1, Stats::ROOT), "{bad:?}");
    }
    let nothing =
        [at(0, 0, 0xfff), at(u64::MAX - 0xfff, 0x800, 0x1000), at(0x800, 0x800, 0x1800), at(0, 0, 0)];
    let last = at(u64::MAX - 0x1fff, (1 << 48) - 0x2000, 0x2abc);
    assert_eq!(create(&nothing), Ok(1));
    assert_eq!(create(&[nothing[0], good, nothing[1], nothing[2], last, nothing[3]]), Ok(7));
    let sizes = g.leaf_sizes();
    let pages = sizes.last().expect("pages");
    assert_eq!(space.on(&memory.platform()).stats().descriptors(*pages), 5);
}

/// The last page of the half and of the output addresses can be mapped.
#[test]
fn the_ends_are_in_range() {
    for g in geometries() {
        let last = Va(!(g.page_size() - 1));
        let oa = Pa((1 << g.oa_bits()) - g.page_size());
        let memory = dirty_memory(g, 8);
        let tree = build(&memory, g, &[Run { va: last, oa, ..page(0) }]).expect("in range");
        assert_eq!(tree.stats().tables, u64::from(g.levels()), "{g:?}");
    }
}

/// Sizes that the geometry lacks: runs where there are none, blocks that want a 52-bit output address.
#[test]
fn leaves_of_other_geometries_are_refused() {
    let rows = [
        (Granule::K16, OaFormat::Lpa2, 1, true),
        (Granule::K16, OaFormat::Bits48, 1, false),
        (Granule::K64, OaFormat::Lpa, 1, true),
        (Granule::K64, OaFormat::Bits48, 1, false),
        (Granule::K4, OaFormat::Lpa2, 0, true),
    ];
    for (granule, oa, level, contiguous) in rows {
        let g = Geometry::new(granule, 48, oa).unwrap();
        let run = Run { level: Level::new(level), contiguous, descriptors: 32, ..page(0) };
        let error = build(&dirty_memory(g, 8), g, &[run]).unwrap_err();
        assert_eq!(error, BuildError::NotALeaf { va: run.va, level: run.level }, "{g:?}");
    }
}

/// A tree without runs is an empty root, whatever the frame held.
#[test]
fn no_runs_make_an_empty_root() {
    for g in geometries() {
        let memory = dirty_memory(g, 1);
        let tree = build(&memory, g, &[]).expect("one page");
        assert_eq!(tree.stats(), Stats::ROOT);
        let table = tree.root();
        let slots = (0..g.entries(g.root())).map(|index| load(&memory, Slot { table, index }));
        assert!(slots.into_iter().all(|d| d == Descriptor::HOLE), "{g:?}");
    }
}

/// Levels without leaves are refused at every geometry, the impossible ones too.
#[test]
fn a_level_without_leaves_is_refused() {
    for g in geometries() {
        for number in -1..3 {
            let level = Level::new(number);
            if !g.may_be_leaf(level) {
                let memory = dirty_memory(g, 8);
                let run = Run { va: Va(g.base(Half::Upper)), level, ..page(0) };
                assert!(
                    matches!(build(&memory, g, &[run]), Err(BuildError::NotALeaf { .. })),
                    "{g:?} {number}"
                );
                assert_eq!(memory.in_use(), 0);
            }
        }
    }
}

/// A page belongs to the memory that it came from.
#[test]
#[should_panic(expected = "is not in this memory")]
fn another_memorys_tree_is_refused() {
    let g = k4();
    let (one, other) = (dirty_memory(g, 8), dirty_memory(g, 8));
    build(&one, g, &[page(0)]).unwrap().discard(&other);
}
