//! Changes in a manner: permissions and validity in one call, invalidations left for later, holes left out, and lists of
//! pages.

use linmap::arch::{Entry, Leaf, Level};
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::{
    Attributes, Change, ChangeFlags, Geometry, Granule, Half, OaFormat, Pa, Platform, Policy, Region,
    SharedSpace, Stats, Tree, Va,
};
use test_support::geometries;

/// A map with one large leaf, and the one after it, of a size that each geometry has.
struct Map<'m, P> {
    space: SharedSpace,
    platform: &'m P,
    g: Geometry,
    start: Va,
    /// The pages of one of the leaves.
    pages: u64,
    before: Stats,
}

fn with_map(g: Geometry, tables: usize, work: impl FnOnce(&Map<'_, linmap::host::Host<'_>>)) {
    let memory = HostMemory::new(g, tables);
    let platform = memory.platform();
    let tree = Tree::build(&platform, g, Half::Upper, std::iter::empty()).expect("a root");
    let space = SharedSpace::adopt(tree);
    space.set_policy(Policy::Live);
    let size = g.level_size(Level::new(2));
    let (start, pages) = (Va(g.base(Half::Upper) + 4 * size), size >> g.page_shift());
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&platform).map(start, 2 * pages, Pa(4 * size), Attributes::RAM) }.expect("room");
    let before = space.on(&platform).stats();
    work(&Map { space, platform: &platform, g, start, pages, before });
}

impl<P: Platform> Map<'_, P> {
    fn va(&self, page: u64) -> Va {
        Va(self.start.0 + (page << self.g.page_shift()))
    }

    fn leaf(&self, page: u64) -> Leaf {
        match self.space.on(self.platform).read(|reader| reader.entry(self.va(page))) {
            Some((_, _, Entry::Leaf(leaf))) => leaf,
            other => panic!("page {page} is {other:?}"),
        }
    }

    fn change(&self, page: u64, pages: u64, change: Change, flags: ChangeFlags) -> Result<(), ChangeError> {
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(self.platform).change(self.va(page), pages, change, flags) }
    }

    fn list(&self, pages: &[u64], change: Change, flags: ChangeFlags) -> Result<(), ChangeError> {
        let pages = pages.iter().map(|&page| self.va(page));
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(self.platform).change_pages(pages, change, flags) }
    }

    fn flush(&self, page: u64, pages: u64) {
        self.space.on(self.platform).flush(self.va(page), pages).expect("in the half");
    }

    fn collapse(&self) -> Stats {
        self.space.on(self.platform).collapse(self.start, 2 * self.pages).expect("live");
        self.space.on(self.platform).stats()
    }

    /// The number of invalidations so far.
    fn invalidations(&self) -> u64 {
        self.space.on(self.platform).changes().invalidations
    }
}

const NOW: ChangeFlags = ChangeFlags::empty();
const LATER: ChangeFlags = ChangeFlags::LATER;
const KEPT: Change = Change::READ_ONLY.and(Change::INVALID);
const BACK: Change = Change::WRITABLE.and(Change::VALID);

/// Memory that is both writable and executable, and may be so no longer, is refused also where nothing would change.
#[test]
fn what_is_writable_and_executable_already_is_refused() {
    for g in geometries() {
        with_map(g, 16, |map| {
            map.space.allow_write_execute(true);
            map.change(0, 2 * map.pages, Change::EXECUTABLE, NOW).expect("permitted");
            // The first leaf becomes pages; the second stays.
            map.space.on(map.platform).split_to_pages(map.va(0), map.pages).expect("live");
            map.space.allow_write_execute(false);
            for page in [1, map.pages + 1] {
                let refused = Err(ChangeError::WriteExecute { va: map.va(page) });
                for (change, flags) in [(Change::VALID, NOW), (Change::WRITABLE, NOW), (Change::VALID, LATER)]
                {
                    assert_eq!(map.change(page, 1, change, flags), refused, "{g:?}, {page}: {change:?}");
                    assert_eq!(map.list(&[page], change, flags), refused, "{g:?}, {page}: {change:?}");
                }
                // SAFETY: no CPU uses these tables.
                let later = unsafe {
                    map.space.on(map.platform).change(map.va(page), 1, Change::VALID, ChangeFlags::LATER)
                };
                assert_eq!(later, refused, "{g:?}, {page}");
            }
        });
    }
}

#[test]
fn permissions_and_validity_change_in_one_call() {
    for g in geometries() {
        with_map(g, 16, |map| {
            for (page, pages) in [(3, 1), (0, map.pages), (map.pages - 1, 2), (5, map.pages)] {
                assert_eq!(map.change(page, pages, KEPT, NOW), Ok(()), "{g:?}");
                for page in [page, page + pages - 1] {
                    let leaf = map.leaf(page);
                    assert!(!leaf.valid && leaf.attributes.contains(Attributes::READ_ONLY), "{g:?}");
                    assert_eq!(
                        leaf.oa.0 >> g.page_shift(),
                        (4 * map.pages + page) & !(leaf_pages(map, page) - 1)
                    );
                }
                let issued = map.invalidations();
                assert_eq!(map.change(page, pages, BACK, NOW), Ok(()), "{g:?}");
                assert_eq!(map.invalidations(), issued, "what was invalid is in no TLB");
                assert_eq!(map.collapse(), map.before, "{g:?}");
            }
        });
    }
}

/// The number of pages of the entry that a page is in.
fn leaf_pages<P: Platform>(map: &Map<'_, P>, page: u64) -> u64 {
    let (_, level, _) = map.space.on(map.platform).read(|reader| reader.entry(map.va(page))).expect("mapped");
    map.g.level_size(level) >> map.g.page_shift()
}

#[test]
fn what_is_left_for_later_is_pending_until_a_flush() {
    for g in geometries() {
        with_map(g, 16, |map| {
            // A part of a leaf, a page, a page again: the first is split, so it takes table pages.
            for (page, pages) in [(3, 2), (3, 1), (7, 1)] {
                let issued = map.invalidations();
                assert_eq!(map.change(page, pages, Change::INVALID, LATER), Ok(()));
                assert!(map.space.has_pending(), "{g:?}");
                map.flush(page + pages, 1);
                assert_eq!(map.invalidations(), issued, "nothing of that is pending, {g:?}");
                map.flush(page + pages - 1, 1);
                assert!(map.invalidations() > issued && !map.space.has_pending(), "{g:?}");
                // What was invalid needs none.
                assert_eq!(map.change(page, pages, Change::VALID, LATER), Ok(()));
                assert!(!map.space.has_pending(), "{g:?}");
            }
            assert_eq!(map.collapse(), map.before, "{g:?}");
        });
    }
}

#[test]
fn a_pending_range_is_not_collapsed() {
    for g in geometries() {
        with_map(g, 16, |map| {
            map.change(3, 1, Change::READ_ONLY, NOW).expect("mapped");
            map.change(3, 1, Change::WRITABLE, LATER).expect("mapped");
            assert_ne!(map.collapse(), map.before, "{g:?}");
            map.flush(0, 16);
            assert_eq!(map.collapse(), map.before, "{g:?}");
        });
    }
}

#[test]
fn who_finds_a_change_made_invalidates_what_is_pending() {
    for g in geometries() {
        with_map(g, 16, |map| {
            for page in [3, 9] {
                map.change(page, 1, Change::READ_ONLY, LATER).expect("mapped");
            }
            let issued = map.invalidations();
            map.change(4, 5, Change::WRITABLE, NOW).expect("mapped");
            assert_eq!(map.invalidations(), issued, "another range, {g:?}");
            map.change(3, 2, Change::READ_ONLY, NOW).expect("mapped");
            assert!(map.invalidations() > issued && map.space.has_pending(), "{g:?}");
            // SAFETY: no CPU uses these tables.
            unsafe { map.space.on(map.platform).unmap(map.va(9), 1) }.expect("mapped");
            assert!(!map.space.has_pending(), "{g:?}");
        });
    }
}

/// Ranges are joined when there are many, and one flush of any of them then invalidates them all.
#[test]
fn many_pending_ranges_are_joined() {
    for g in geometries() {
        with_map(g, 16, |map| {
            map.space.on(map.platform).split_to_pages(map.start, map.pages).expect("live");
            for page in (1..100).step_by(2) {
                map.change(page, 1, Change::INVALID, LATER).expect("mapped");
            }
            map.flush(0, map.pages);
            assert!(!map.space.has_pending(), "{g:?}");
        });
    }
}

#[test]
fn holes_are_refused_or_left_out() {
    for g in geometries() {
        with_map(g, 16, |map| {
            let all = 2 * map.pages;
            // SAFETY: no CPU uses these tables.
            unsafe { map.space.on(map.platform).unmap(map.va(5), 3) }.expect("mapped");
            let hole = Err(ChangeError::Hole { va: map.va(5) });
            assert_eq!(map.change(2, 10, KEPT, NOW), hole);
            assert_eq!(map.list(&[9, 4, 5, 2], KEPT, NOW), hole);
            assert!(map.leaf(4).valid && map.leaf(9).valid);
            for flags in [ChangeFlags::SKIP_HOLES, ChangeFlags::all()] {
                // Beyond the end there is no table at all.
                assert_eq!(map.change(2, all + 10 * map.pages, KEPT, flags), Ok(()));
                assert!(
                    !map.leaf(2).valid && !map.leaf(8).valid && !map.leaf(all - 1).valid && map.leaf(1).valid
                );
                assert_eq!(
                    map.space.on(map.platform).read(|reader| reader.entry(map.va(6))).map(|found| found.2),
                    Some(Entry::Hole)
                );
                assert_eq!(map.list(&[9, 4, 5, 6, 2, all], BACK, flags), Ok(()));
                assert!(map.leaf(9).valid && map.leaf(4).valid && map.leaf(2).valid && !map.leaf(3).valid);
                assert_eq!(map.change(0, all, BACK, flags), Ok(()));
                assert!(map.leaf(3).valid);
                map.flush(0, all);
            }
            assert_eq!(map.change(6, 1, KEPT, ChangeFlags::SKIP_HOLES), Ok(()), "nothing but a hole");
        });
    }
}

/// The end of a change in a hole takes no table page.
#[test]
fn an_end_in_a_hole_takes_no_tables() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry").with_largest_leaf(1 << 30);
    let (page, large) = (g.page_size(), 1u64 << 30);
    // The root and the table below it, and those that replace the leaf: one of blocks and one of pages.
    let memory = HostMemory::new(g, 4);
    let platform = memory.platform();
    let region = Region::new(Va(g.base(Half::Upper)), Pa(0), large, Attributes::RAM);
    let space =
        SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, region.runs(g)).expect("two pages"));
    space.set_policy(Policy::Live);
    let last = Va(g.base(Half::Upper) + large - page);
    // SAFETY: no CPU uses these tables.
    let changed = unsafe { space.on(&platform).change(last, 4, Change::READ_ONLY, ChangeFlags::SKIP_HOLES) };
    assert_eq!(changed, Ok(()));
    let leaf = space.on(&platform).read(|reader| reader.entry(last)).map(|found| found.2);
    assert!(
        matches!(leaf, Some(Entry::Leaf(leaf)) if leaf.attributes.contains(Attributes::READ_ONLY)),
        "{leaf:?}"
    );
}

#[test]
fn a_list_changes_as_its_ranges_do() {
    for g in geometries() {
        with_map(g, 16, |map| {
            let last = 2 * map.pages - 1;
            let lists: [Vec<u64>; 5] = [
                vec![],
                (0..map.pages).collect(),
                (1..40).rev().collect(),
                vec![last, 3, 4, 5, map.pages, 3, 1, last],
                (0..2 * map.pages).step_by(97).chain([4, 5]).collect(),
            ];
            for list in lists {
                let issued = map.invalidations();
                assert_eq!(map.list(&list, KEPT, LATER), Ok(()), "{g:?}");
                assert_eq!(map.invalidations(), issued, "{list:?}, {g:?}");
                for page in (0..=last).take(200).chain([map.pages, last]) {
                    assert_eq!(map.leaf(page).valid, !list.contains(&page), "page {page} of {list:?}, {g:?}");
                }
                assert_eq!(map.space.has_pending(), !list.is_empty(), "{g:?}");
                map.flush(0, last + 1);
                assert_eq!(map.list(&list, BACK, NOW), Ok(()), "{g:?}");
                assert_eq!(map.collapse(), map.before, "{g:?}");
            }
        });
    }
}

/// More pages than a hold has entries, none beside another.
#[test]
fn a_long_list_is_all_or_nothing() {
    for g in geometries().into_iter().filter(|g| g.page_shift() > 12) {
        with_map(g, 16, |map| {
            let mut list: Vec<u64> = (0..2 * map.pages - 1).step_by(3).take(1500).collect();
            assert_eq!(map.list(&list, KEPT, NOW), Ok(()), "{g:?}");
            assert!(list.iter().all(|&page| !map.leaf(page).valid && map.leaf(page + 1).valid), "{g:?}");
            assert_eq!(map.list(&list, BACK, NOW), Ok(()), "{g:?}");
            // Its last page is a hole.
            list.push(2 * map.pages);
            assert_eq!(map.list(&list, KEPT, NOW), Err(ChangeError::Hole { va: map.va(2 * map.pages) }));
            assert!(list[..list.len() - 1].iter().all(|&page| map.leaf(page).valid), "{g:?}");
            assert_eq!(map.collapse(), map.before, "{g:?}");
        });
    }
}

/// Without table pages for all its cuts a list changes no translation, and what it has cut collapses again.
#[test]
fn a_list_that_runs_out_of_tables_changes_nothing() {
    for g in geometries() {
        // The tables of the map, and one for the first of the two cuts.
        let mut tables = 0;
        with_map(g, 16, |map| tables = map.before.tables as usize);
        with_map(g, tables + 1, |map| {
            let list = [3, map.pages + 3];
            let refused = map.list(&list, KEPT, NOW);
            assert!(matches!(refused, Err(ChangeError::OutOfFrames { .. })), "{refused:?}, {g:?}");
            assert!(map.leaf(3).valid && map.leaf(map.pages + 3).valid);
            assert_eq!(map.collapse(), map.before, "{g:?}");
        });
    }
}

/// Both calls name the first page.
#[test]
fn leaves_that_walkers_would_update_are_refused() {
    let clean = Change::new(Attributes::READ_ONLY, Attributes::empty()).expect("permissions");
    for g in geometries() {
        with_map(g, 16, |map| {
            map.space.expect_hardware_updates(true);
            let refused = Err(ChangeError::HardwareUpdated { va: map.va(3) });
            assert_eq!(map.change(3, 1, clean, NOW), refused);
            assert_eq!(map.list(&[3, 9], clean, NOW), refused);
            map.space.expect_hardware_updates(false);
            assert_eq!(map.list(&[3, 9], clean, NOW), Ok(()));
        });
    }
}

#[test]
fn bad_lists_are_refused() {
    for g in geometries() {
        with_map(g, 16, |map| {
            let unaligned = Va(map.va(3).0 + 8);
            let pages = [map.va(0), unaligned];
            let change = |pages: &[Va]| {
                // SAFETY: no CPU uses these tables.
                unsafe { map.space.on(map.platform).change_pages(pages.iter().copied(), KEPT, NOW) }
            };
            assert!(matches!(change(&pages), Err(ChangeError::Unaligned(_))));
            let outside = Va(0x1000_0000);
            assert_eq!(
                change(&[map.va(0), outside]),
                Err(ChangeError::OutsideHalf { va: outside, pages: 1 })
            );
            let end = Va(u64::MAX << g.page_shift());
            assert_eq!(change(&[map.va(0), end, Va(0)]), Err(ChangeError::OutsideHalf { va: end, pages: 2 }));
            assert!(map.leaf(0).valid);
        });
    }
}
