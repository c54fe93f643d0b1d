//! A copy of live tables has the same entries in the range, and is as any other tree.

use std::ops::ControlFlow::Continue;

use crate::dirty_memory::dirty_memory;
use crate::raw::{load, store};
use linmap::arch::{Descriptor, Entry, Level, TableLimits};
use linmap::error::BuildError;
use linmap::host::HostMemory;
use linmap::{Attributes, Change, Geometry, Half, Leaves, Pa, Policy, Region, SharedSpace, Slot, Tree, Va};
use test_support::geometries;

/// An entry as two trees may have it in common: where a table is does not matter.
type Seen = (Va, Level, Option<Entry>, TableLimits);

fn seen(memory: &HostMemory, space: &SharedSpace, range: (Va, Va)) -> Vec<Seen> {
    let mut seen = Vec::new();
    let _ = space.on(&memory.platform()).read(|reader| {
        reader.visit(range, |visited| {
            let entry = Some(visited.entry).filter(|entry| !matches!(entry, Entry::Table(_)));
            seen.push((visited.va, visited.level, entry, visited.limits));
            Continue(())
        })
    });
    seen
}

fn all(g: Geometry) -> (Va, Va) {
    let base = g.base(Half::Upper);
    (Va(base), Va(base + ((1 << g.va_bits()) - 1)))
}

/// Makes a map with leaves of all sizes, pages whose memory is apart, present-invalid and read-only ones, an empty table and a
/// restricted one. Returns it with the first address of what is mapped.
fn various(memory: &HostMemory, g: Geometry) -> (SharedSpace, Va) {
    let (page, block) = (g.page_size(), g.level_size(Level::new(2)));
    let start = all(g).0.0 + block - 3 * page;
    let of = |at: u64, oa: u64, pages: u64, leaves| {
        let region = Region::new(Va(start + at * page), Pa(oa), pages * page, Attributes::RAM);
        Region { leaves, ..region }
    };
    let large = 3 + 2 * block / page + 5;
    let apart = (0..40).map(|n| of(large + 7 + n, (n ^ 1) * page, 1, Leaves::Pages));
    let regions = [of(0, block - 3 * page, large, Leaves::Largest)].into_iter().chain(apart);
    let tree = Tree::build_regions(memory, g, Half::Upper, regions).expect("enough pages");
    let (space, platform) = (SharedSpace::adopt(tree), memory.platform());
    space.set_policy(Policy::Live);
    let at = |n: u64| Va(start + n * page);
    // SAFETY: no CPU uses these tables.
    unsafe {
        space.on(&platform).protect(at(1), 20, Change::READ_ONLY).expect("mapped");
        space.on(&platform).set_valid(at(large + 10), 12, false).expect("mapped");
        space.on(&platform).unmap(at(large + 30), 1).expect("mapped");
    }
    if g.levels() > 1 {
        let slot = Slot { table: space.root(), index: g.index(start, g.root()) };
        store(memory, slot, Descriptor(load(memory, slot).0 | TableLimits::UXN.bits()));
    }
    (space, Va(start))
}

#[test]
fn a_copy_has_the_same_entries() {
    for g in geometries() {
        let memory = HostMemory::new(g, 64);
        let (space, _) = various(&memory, g);
        let tree = space.on(&memory.platform()).copy(all(g)).expect("enough pages");
        assert_eq!(tree.stats(), space.on(&memory.platform()).stats(), "{g:?}");
        assert_eq!(tree.write_execute(), None);
        let copy = SharedSpace::adopt(tree);
        assert_ne!(copy.root(), space.root());
        assert_eq!(seen(&memory, &copy, all(g)), seen(&memory, &space, all(g)), "{g:?}");
    }
}

/// Addresses outside the range have no entries, and entries at its ends are whole.
#[test]
fn a_part_is_copied() {
    for g in geometries() {
        let memory = HostMemory::new(g, 64);
        let (space, start) = various(&memory, g);
        let pages = 2 * g.level_size(Level::new(2)) / g.page_size();
        for (first, last) in [(0, 0), (2, 40), (0, pages), (pages, pages + 30), (pages + 11, pages + 60)] {
            let at = |n: u64| start.0 + n * g.page_size();
            let range = (Va(at(first)), Va(at(last + 1) - 1));
            let copy = SharedSpace::adopt(space.on(&memory.platform()).copy(range).expect("enough pages"));
            assert_eq!(seen(&memory, &copy, range), seen(&memory, &space, range), "{g:?} {first} {last}");
            let platform = memory.platform();
            for level in (1..4).map(Level::new) {
                let in_run = |(_, at, entry, _): &&Seen| {
                    *at == level && matches!(entry, Some(Entry::Leaf(leaf)) if leaf.contiguous)
                };
                let members = seen(&memory, &copy, all(g)).iter().filter(in_run).count();
                assert_eq!(members % g.contiguous_entries(level), 0, "{g:?} {level:?}: {first} to {last}");
            }
            assert_eq!(
                copy.on(&platform).read(|reader| reader.count(all(g))),
                copy.on(&platform).stats(),
                "{g:?}: {first} to {last}"
            );
        }
        for outside in [(Va(0), Va(g.page_size())), (Va(start.0 + 1), start)] {
            let empty = space.on(&memory.platform()).copy(outside).expect("enough pages");
            assert_eq!(empty.stats().tables, 1, "{g:?}");
        }
    }
}

#[test]
fn a_copy_that_runs_out_of_frames_gives_all_back() {
    for g in geometries() {
        let memory = dirty_memory(g, 64);
        let needed = various(&memory, g).0.on(&memory.platform()).stats().tables;
        for available in 0..needed {
            let memory = dirty_memory(g, (needed + available) as usize);
            let (space, _) = various(&memory, g);
            let error = space.on(&memory.platform()).copy(all(g)).unwrap_err();
            assert_eq!(error, BuildError::OutOfFrames { taken: available }, "{g:?}");
            assert_eq!(memory.in_use() as u64, needed, "{g:?}");
        }
    }
}

#[test]
fn memory_that_is_writable_and_executable_is_found() {
    for g in geometries() {
        let memory = HostMemory::new(g, 64);
        let (space, start) = various(&memory, g);
        space.allow_write_execute(true);
        let (va, executable) =
            (Va(start.0 + 30 * g.page_size()), Change::new(Attributes::empty(), Attributes::PXN));
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&memory.platform()).protect(va, 1, executable.expect("a permission")) }
            .expect("mapped");
        let tree = space.on(&memory.platform()).copy(all(g)).expect("enough pages");
        assert_eq!(tree.write_execute(), Some(va), "{g:?}");
    }
}
