//! The leaves of a live map: as large as those of a map that is created, and no larger than the architecture has.

use std::ops::ControlFlow::Continue;

use crate::dirty_memory::dirty_memory;
use crate::raw::{load, store};
use linmap::arch::{Descriptor, Entry, Level};
use linmap::host::{HostMemory, SharedMemory, Threads};
use linmap::layout::Run;
use linmap::read::Checks;
use linmap::{
    Attributes, Change, Geometry, Half, Leaves, Pa, Policy, Region, SharedSpace, Slot, Stats, Tree, Va,
};
use test_support::geometries;

/// An empty upper half whose leaves may change their size.
fn empty(g: Geometry, memory: &HostMemory) -> SharedSpace {
    let space = SharedSpace::adopt(Tree::build(memory, g, Half::Upper, std::iter::empty()).expect("a root"));
    space.set_policy(Policy::Live);
    space
}

/// The counts are those of the tables, in which nothing is reserved and no run is broken.
fn is_sound(space: &SharedSpace, memory: &HostMemory) {
    let (platform, all) = (memory.platform(), (Va(space.geometry().base(Half::Upper)), Va(u64::MAX)));
    assert_eq!(space.on(&platform).stats(), space.on(&platform).read(|reader| reader.count(all)));
    let _ =
        space.on(&platform).read(|reader| reader.check(&Checks::default(), |finding| panic!("{finding}")));
    let _ = space.on(&platform).read(|reader| {
        reader.visit(all, |visited| {
            assert!(!matches!(visited.entry, Entry::Reserved), "{visited:x?}");
            Continue(())
        })
    });
}

/// RAM of each size of leaf, of two of them, and of a page more on both sides: `map` uses the leaves, contiguous runs
/// among them, that creation would use.
#[test]
fn what_is_mapped_has_the_leaves_of_what_is_created() {
    for g in geometries() {
        let (page, base) = (g.page_size(), g.base(Half::Upper));
        for size in g.leaf_sizes().iter().filter(|s| s.bytes() <= 1 << (g.va_bits() - 3)) {
            let at = 2 * size.bytes();
            for (start, bytes) in [
                (at, size.bytes()),
                (at, 2 * size.bytes()),
                (at - page, 2 * size.bytes() + 2 * page),
                // A run's first member is missing.
                (at + page, size.bytes() - page),
            ] {
                if bytes == 0 {
                    continue;
                }
                let memory = dirty_memory(g, 64);
                let (space, platform) = (empty(g, &memory), memory.platform());
                let (va, oa, attributes) = (Va(base + start), Pa(start), Attributes::RAM);
                // SAFETY: no CPU uses these tables.
                unsafe { space.on(&platform).map(va, bytes / page, oa, attributes) }.expect("a hole");
                let region = Region { va, oa, bytes, attributes, leaves: Leaves::Largest };
                let created = Stats::of_runs(g, region.runs(g));
                assert_eq!(space.on(&platform).stats(), created, "{g:?} {start:#x}, {bytes:#x} bytes");
                let mut one = Stats::ROOT;
                one.tables = created.tables;
                one.add_leaves(size.level, size.contiguous, size.descriptors());
                assert!(
                    start != at || bytes != size.bytes() || created == one,
                    "{g:?} {size:?}: {created:?}"
                );
                is_sound(&space, &memory);
            }
        }
    }
}

/// A split dissolves the runs that contain an end of the range, and no others.
#[test]
fn a_split_keeps_whole_runs() {
    for g in geometries() {
        let sizes = g.leaf_sizes();
        let block = sizes.iter().rfind(|s| s.level < Level::PAGE && !s.contiguous).expect("blocks");
        let run = sizes.iter().find(|s| s.level == Level::PAGE && s.contiguous).expect("runs of pages");
        let (page, pages) = (g.page_size(), run.descriptors());
        // The first page, the one after the last, and the number of runs with an end in them.
        for (first, end, cut) in [
            (pages, 2 * pages, 0),
            (pages, 4 * pages, 0),
            (0, 3 * pages, 0),
            (pages, 3 * pages + 1, 1),
            (2 * pages - 1, 4 * pages, 1),
            (pages + 1, 4 * pages - 1, 2),
            (pages + 1, pages + 2, 1),
        ] {
            let memory = dirty_memory(g, 16);
            let (space, platform) = (empty(g, &memory), memory.platform());
            let base = Va(g.base(Half::Upper) + block.bytes());
            // SAFETY: no CPU uses these tables.
            unsafe {
                space.on(&platform).map(base, block.bytes() / page, Pa(0), Attributes::RAM).expect("a hole");
                let va = Va(base.0 + first * page);
                space.on(&platform).protect(va, end - first, Change::READ_ONLY).expect("it is mapped");
            }
            let (all, stats) = (block.bytes() / page, space.on(&platform).stats());
            let single = sizes.last().expect("pages");
            let found = (stats.descriptors(*single), stats.descriptors(*run));
            assert_eq!(found, (cut * pages, all - cut * pages), "{g:?}, pages {first}..{end}");
            is_sound(&space, &memory);
        }
    }
}

/// A whole table of the largest leaves, aligned to all that it spans: no leaf of the level above can replace it where
/// that level has none.
#[test]
fn nothing_collapses_into_a_level_without_leaves() {
    let mut tables = 0;
    for g in geometries() {
        let (page, base) = (g.page_size(), g.base(Half::Upper));
        let highest = (g.root().number()..=Level::PAGE.number()).map(Level::new).find(|&l| g.may_be_leaf(l));
        let level = highest.expect("pages");
        let bytes = g.level_size(level) << g.index_bits();
        // A table below the root that is whole, and memory behind it whose address is aligned.
        if level == g.root() || bytes > 1 << (g.va_bits() - 1) {
            continue;
        }
        let memory = dirty_memory(g, 64);
        let platform = memory.platform();
        let run = Run {
            va: Va(base),
            oa: Pa(0),
            attributes: Attributes::RAM,
            level,
            contiguous: false,
            descriptors: 1 << g.index_bits(),
        };
        let tree = Tree::build(&memory, g, Half::Upper, [run].into_iter()).expect("a table a level");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        // One page is read-only for a while.
        for change in [Change::READ_ONLY, Change::WRITABLE] {
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&platform).protect(Va(base), 1, change) }.expect("it is mapped");
        }
        space.on(&platform).collapse(Va(base), bytes / page).expect("no CPU to park");
        is_sound(&space, &memory);
        let region =
            Region { va: Va(base), oa: Pa(0), bytes, attributes: Attributes::RAM, leaves: Leaves::Largest };
        assert_eq!(space.on(&platform).stats(), Stats::of_runs(g, region.runs(g)), "{g:?}");
        tables += 1;
    }
    assert!(tables > 20, "{tables} geometries have such a table");
}

/// Pages that were taken out one by one come back one by one, from any context: they stay pages until they are valid.
#[test]
fn what_is_not_valid_does_not_collapse() {
    for g in geometries() {
        let sizes = g.leaf_sizes();
        let block = sizes.iter().rfind(|s| s.level < Level::PAGE && !s.contiguous).expect("blocks");
        let (page, va) = (g.page_size(), Va(g.base(Half::Upper) + block.bytes()));
        let pages = block.bytes() / page;
        let memory = dirty_memory(g, 16);
        let (space, platform) = (empty(g, &memory), memory.platform());
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).map(va, pages, Pa(0), Attributes::RAM) }.expect("a hole");
        let created = space.on(&platform).stats();
        space.on(&platform).split_to_pages(va, pages).expect("memory for a table");
        let split = space.on(&platform).stats();
        for page_at in (0..pages).map(|n| Va(va.0 + n * page)) {
            // SAFETY: as above.
            unsafe { space.on(&platform).set_valid(page_at, 1, false) }.expect("a page");
        }
        space.on(&platform).collapse(va, pages).expect("no CPU to park");
        assert_eq!(space.on(&platform).stats(), split, "{g:?}");
        is_sound(&space, &memory);
        for page_at in (0..pages).map(|n| Va(va.0 + n * page)) {
            // SAFETY: as above.
            unsafe { space.on(&platform).set_valid(page_at, 1, true) }.expect("a page");
        }
        space.on(&platform).collapse(va, pages).expect("no CPU to park");
        assert_eq!(space.on(&platform).stats(), created, "{g:?}");
        is_sound(&space, &memory);
    }
}

/// An empty map, and one whose last page has gone, have nothing to collapse.
#[test]
fn an_empty_map_stays_as_it_is() {
    for g in geometries() {
        let memory = dirty_memory(g, 64);
        let (space, platform, va) = (empty(g, &memory), memory.platform(), Va(g.base(Half::Upper)));
        let whole = 1 << (g.va_bits() - g.page_shift());
        for _ in 0..2 {
            space.on(&platform).collapse(va, whole).expect("no CPU to park");
            space.on(&platform).collapse(va, 1).expect("no CPU to park");
            assert_eq!(space.on(&platform).stats(), Stats::ROOT, "{g:?}");
            is_sound(&space, &memory);
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&platform).map(va, 1, Pa(0), Attributes::RAM) }.expect("a hole");
            // SAFETY: as above.
            unsafe { space.on(&platform).unmap(va, 1) }.expect("it is mapped");
        }
    }
}

/// An entry that points to an empty table stays a table, and so no run has it: the runs beside it are formed.
#[test]
fn an_empty_table_is_in_no_run() {
    let level = Level::new(2);
    for g in geometries().into_iter().filter(|g| g.root() < level && g.contiguous_entries(level) > 1) {
        let (block, members) = (g.level_size(level), g.contiguous_entries(level));
        // In the first run of the table, and in the third.
        for at in [3, 2 * members + 1] {
            if 4 * members > 1 << g.index_bits() || 4 * members as u64 * block > 1 << (g.va_bits() - 1) {
                continue;
            }
            let memory = dirty_memory(g, 64);
            let (space, platform, va) = (empty(g, &memory), memory.platform(), Va(g.base(Half::Upper)));
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&platform).map(Va(va.0 + at as u64 * block), 1, Pa(0), Attributes::RAM) }
                .expect("a hole");
            let mut table = space.root();
            let mut now = g.root();
            while now <= level {
                let index = if now == level { at } else { 0 };
                let Entry::Table(below) = load(&memory, Slot { table, index }).decode(g, now) else {
                    panic!()
                };
                (table, now) = (below, now.next());
            }
            store(&memory, Slot { table, index: 0 }, Descriptor::HOLE);
            let pages = 4 * members as u64 * block / g.page_size();
            // SAFETY: as above.
            unsafe { space.on(&platform).map(va, pages, Pa(0), Attributes::RAM) }.expect("holes");
            let mut runs = Vec::new();
            let all = (va, Va(va.0 + (4 * members as u64 * block - 1)));
            let _ = space.on(&platform).read(|reader| {
                reader.visit(all, |visited| {
                    if visited.level == level {
                        runs.push(matches!(visited.entry, Entry::Leaf(leaf) if leaf.contiguous));
                    }
                    Continue(())
                })
            });
            let expected: Vec<_> = (0..4 * members).map(|n| n / members != at / members).collect();
            assert_eq!(runs, expected, "{g:?}: {at}");
        }
    }
}

/// A table that translates many gigabytes goes with its last leaf, although a call that removes two gigabytes holds two
/// locks only.
#[test]
fn an_upper_table_goes_with_its_last_leaf() {
    for g in geometries().into_iter().filter(|g| g.level_shift(g.root()) > 31) {
        let (memory, threads) = (SharedMemory::new(g, 64), Threads::<64, 64>::new());
        // SAFETY: the threads have no other locks for these tables.
        let platform = unsafe { memory.platform(&threads) };
        let tree = Tree::build(&platform, g, Half::Upper, std::iter::empty()).expect("a root");
        let (space, va) = (SharedSpace::adopt(tree), Va(g.base(Half::Upper)));
        space.set_policy(Policy::Live);
        // SAFETY: no CPU uses these tables.
        unsafe {
            space.on(&platform).map(va, (2 << 30) / g.page_size(), Pa(0), Attributes::RAM).expect("a hole");
            assert!(space.on(&platform).stats().tables > 1, "{g:?}");
            space.on(&platform).unmap(va, (2 << 30) / g.page_size()).expect("it is mapped");
        }
        assert_eq!(space.on(&platform).stats().tables, 1, "{g:?}");
        assert_eq!(space.on(&platform).read(|reader| reader.count((va, Va(u64::MAX)))).tables, 1, "{g:?}");
    }
}

/// One empty upper table is left by what unmaps pages that come and go: for the next of them there, until another becomes
/// empty or it is given back.
#[test]
fn one_upper_table_is_left_for_the_next_pages() {
    for g in geometries().into_iter().filter(|g| g.level_shift(g.root()) > 31 && g.entries(g.root()) > 1) {
        let (memory, threads) = (SharedMemory::new(g, 64), Threads::<64, 64>::new());
        // SAFETY: the threads have no other locks for these tables.
        let platform = unsafe { memory.platform(&threads) };
        let tree = Tree::build(&platform, g, Half::Upper, std::iter::empty()).expect("a root");
        let (space, base) = (SharedSpace::adopt(tree), g.base(Half::Upper));
        let tables = || space.on(&platform).stats().tables;
        // SAFETY: no CPU uses these tables.
        let come_and_go = |va| unsafe {
            space.on(&platform).map(va, 1, Pa(0), Attributes::RAM).expect("a hole");
            let mapped = tables();
            space.on(&platform).unmap_all(&[(va, 1)]).expect("it is mapped");
            mapped
        };
        let (one, other) = (Va(base), Va(base + (1 << g.level_shift(g.root()))));
        let all = come_and_go(one);
        let left = tables();
        assert!(left > 1 && left < all, "{g:?}: {left} of {all}");
        for va in [one, other, other, one] {
            let both = come_and_go(va);
            assert!(both == all || both == all + left - 1, "{g:?}: {both}");
            assert_eq!(tables(), left, "{g:?}");
        }
        // SAFETY: as above.
        unsafe { space.on(&platform).map(other, 1, Pa(0), Attributes::RAM) }.expect("a hole");
        space.on(&platform).trim();
        assert_eq!(tables(), all, "{g:?}");
        // One that is in use again is not taken out.
        come_and_go(one);
        // SAFETY: as above.
        unsafe { space.on(&platform).map(one, 1, Pa(0), Attributes::RAM) }.expect("a hole");
        space.on(&platform).trim();
        assert_eq!(tables(), 2 * all - 1, "{g:?}");
    }
}
