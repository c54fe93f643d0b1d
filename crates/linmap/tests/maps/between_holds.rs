//! A long operation lets go of its locks now and then. A neighbour, who changes pages beside those of the operation, does
//! so at each of these moments in turn. Both then find their pages as if they had been alone.

use std::cell::{Cell, RefCell};

use linmap::arch::{Entry, Tlbi};
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::{
    Aliased, Attributes, CannotPark, Change, ChangeFlags, Combined, Dsb, EntryUpdate, Geometry, Granule,
    Half, Hardware, Memory, OaFormat, Pa, Policy, Promise, Rodata, SharedSpace, Sharing, Tree, Va,
};

const PAGE: u64 = 1 << 12;
const BLOCK: u64 = 1 << 21;

/// Hardware of one CPU, which does something else before the hold with a number.
pub(crate) struct Interrupted<'i, const HOLD: usize> {
    memory: &'i HostMemory,
    held: Cell<u32>,
    /// The number of holds until something else happens.
    pub(crate) left: Cell<u64>,
    /// The number of invalidations.
    invalidations: Cell<u64>,
    otherwise: Otherwise<'i, HOLD>,
}

pub(crate) type Platform<'h, 'i, const HOLD: usize> = Combined<'h, HostMemory, Interrupted<'i, HOLD>>;
pub(crate) type Otherwise<'i, const HOLD: usize> =
    Box<dyn Fn(&Platform<'_, 'i, HOLD>, &Interrupted<'i, HOLD>) + 'i>;

pub(crate) struct Held<'h>(&'h Cell<u32>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.update(|held| held - 1);
    }
}

// SAFETY: one thread, which has no TLB and no other CPU. Nothing else happens while a lock is held.
unsafe impl<const HOLD: usize> Hardware for Interrupted<'_, HOLD> {
    fn promise(&self) -> Promise {
        Promise { never_aborts: true, range_tlbi: true, repeat_tlbi: false }
    }

    fn dsb(&self, _: Dsb) {}
    fn isb(&self) {}

    fn tlbi(&self, _: Tlbi, _: Geometry) {
        self.invalidations.update(|n| n + 1);
    }

    fn sync_code(&self, _: Va, _: u64) {}

    unsafe fn park(&self, _: &impl Memory, _: Pa, _: &[EntryUpdate]) -> Result<(), CannotPark> {
        Err(CannotPark)
    }
}

// SAFETY: there is one thread, and others run only while no lock is held. Readers hold all locks.
unsafe impl<const HOLD: usize> Sharing for Interrupted<'_, HOLD> {
    const LOCKS: usize = 64;
    const HOLD: usize = HOLD;

    type Held<'h>
        = Held<'h>
    where
        Self: 'h;

    fn lock(&self, _: usize) -> Held<'_> {
        if self.held.get() == 0 {
            self.left.update(|left| left.wrapping_sub(1));
            if self.left.get() == 0 {
                // SAFETY: its locks are these.
                let platform = unsafe { Combined::new(self.memory, self) };
                (self.otherwise)(&platform, self);
            }
        }
        self.held.update(|held| held + 1);
        Held(&self.held)
    }
}

pub(crate) fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

pub(crate) fn pa(va: Va) -> Pa {
    Pa((va.0 - geometry().base(Half::Upper)) + (1 << 40))
}

/// Calls `work` with an empty map, in which `otherwise` happens before the hold `number` after it was set.
pub(crate) fn with_map<const HOLD: usize>(
    otherwise: impl Fn(&SharedSpace, &Platform<'_, '_, HOLD>, &Interrupted<'_, HOLD>),
    work: impl FnOnce(&SharedSpace, &Platform<'_, '_, HOLD>, &Interrupted<'_, HOLD>),
) {
    let memory = HostMemory::new(geometry(), 512);
    let tree = Tree::build(&memory, geometry(), Half::Upper, std::iter::empty()).expect("a root");
    let space = SharedSpace::adopt(tree);
    space.set_policy(Policy::Live);
    let hardware = Interrupted {
        memory: &memory,
        held: Cell::new(0),
        left: Cell::new(0),
        invalidations: Cell::new(0),
        otherwise: Box::new(|platform, hardware| otherwise(&space, platform, hardware)),
    };
    // SAFETY: nothing else locks these tables.
    let platform = unsafe { Combined::new(&memory, &hardware) };
    work(&space, &platform, &hardware);
    let base = geometry().base(Half::Upper);
    let all = (Va(base), Va(u64::MAX));
    assert_eq!(
        space.on(&platform).stats(),
        space.on(&platform).read(|reader| reader.count(all)),
        "the counts"
    );
}

pub(crate) fn is_read_only<const HOLD: usize>(
    space: &SharedSpace,
    platform: &Platform<'_, '_, HOLD>,
    va: Va,
) -> bool {
    let Some((_, _, Entry::Leaf(leaf))) = space.on(platform).read(|reader| reader.entry(va)) else {
        panic!("{va} is not mapped")
    };
    leaf.attributes.contains(Attributes::READ_ONLY)
}

/// A long change that has only the last page of a block left to do, and a neighbour who splits the block.
#[test]
fn a_neighbour_splits_the_leaf_at_an_end() {
    let block = geometry().base(Half::Upper) + BLOCK;
    let (mine, theirs) = (Va(block + BLOCK - PAGE), Va(block));
    let mut last = 0;
    for number in 1..40 {
        let changed = Cell::new(false);
        let neighbour = |space: &SharedSpace, platform: &Platform<'_, '_, 8>, _: &Interrupted<'_, 8>| {
            // SAFETY: no CPU uses these tables.
            let result = unsafe { space.on(platform).protect(theirs, 1, Change::READ_ONLY) };
            changed.set(result.is_ok());
        };
        with_map::<8>(neighbour, |space, platform, hardware| {
            // SAFETY: no CPU uses these tables.
            unsafe {
                space.on(platform).map(Va(block), 512, pa(Va(block)), Attributes::RAM).expect("room");
                for page in 0..20 {
                    let va = Va(block + BLOCK + page * PAGE);
                    let attributes = Attributes::RAM | Attributes::READ_ONLY;
                    space.on(platform).map(va, 1, pa(va), attributes).expect("room");
                }
                hardware.left.set(number);
                assert_eq!(space.on(platform).protect(mine, 21, Change::READ_ONLY), Ok(()));
            }
            hardware.left.set(0);
            assert!(is_read_only(space, platform, mine), "before hold {number}");
            assert!(!is_read_only(space, platform, Va(mine.0 - PAGE)));
            assert_eq!(is_read_only(space, platform, theirs), changed.get());
        });
        last = if changed.get() { number } else { last };
    }
    assert!((5..39).contains(&last), "the neighbour came {last} times");
}

/// A long removal that empties the table at its start, and a neighbour who maps a page of that table's other addresses.
#[test]
fn a_neighbour_maps_where_a_table_was() {
    let block = geometry().base(Half::Upper) + BLOCK;
    let (mine, pages, theirs) = (Va(block + 500 * PAGE), 30, Va(block));
    let (mut last, mut gone) = (0, 0);
    for number in 1..40 {
        let (mapped, before) = (Cell::new(false), Cell::new(0));
        let found_gone = Cell::new(false);
        let neighbour = |space: &SharedSpace,
                         platform: &Platform<'_, '_, 8>,
                         hardware: &Interrupted<'_, 8>| {
            let (_, level, _) = space.on(platform).read(|reader| reader.entry(theirs)).expect("in the half");
            if level != linmap::arch::Level::PAGE {
                found_gone.set(true);
                // Otherwise a walk cache may still have the table.
                assert_ne!(hardware.invalidations.get(), before.get(), "before hold {number}");
            }
            // SAFETY: no CPU uses these tables.
            let result = unsafe { space.on(platform).map(theirs, 1, pa(theirs), Attributes::RAM) };
            mapped.set(result.is_ok());
        };
        with_map::<8>(neighbour, |space, platform, hardware| {
            for page in 0..pages {
                let va = Va(mine.0 + page * PAGE);
                // SAFETY: no CPU uses these tables.
                unsafe { space.on(platform).map(va, 1, pa(va), Attributes::RAM).expect("room") };
            }
            before.set(hardware.invalidations.get());
            hardware.left.set(number);
            // SAFETY: as above.
            assert_eq!(unsafe { space.on(platform).unmap(mine, pages) }, Ok(()));
            hardware.left.set(0);
            assert_eq!(
                mapped.get(),
                matches!(
                    space.on(platform).read(|reader| reader.entry(theirs)),
                    Some((_, _, Entry::Leaf(_)))
                )
            );
            assert!(matches!(
                space.on(platform).read(|reader| reader.entry(mine)),
                Some((_, _, Entry::Hole))
            ));
        });
        last = if mapped.get() { number } else { last };
        gone += u32::from(found_gone.get());
    }
    assert!((5..39).contains(&last), "the neighbour came {last} times");
    assert_ne!(gone, 0, "the table was there until the end");
}

/// An area with pages of a block, not in a row, and a neighbour who changes another page of that block, between the aliases or
/// beside them, or takes away an alias: that alone is claimed.
#[test]
fn a_neighbour_of_aliases() {
    const PAGES: u64 = 12;
    let (area, block) = (linear_range(geometry()).1.0 + 1, geometry().base(Half::Upper) + BLOCK);
    let alias = |n: u64| Va(block + (100 + 3 * n) * PAGE);
    let theirs = |page: u64| Va(block + page * PAGE);
    let (between, beside, taken) = (theirs(101), theirs(7), alias(5));
    for va in [between, beside, taken] {
        let (mut last, mut busy) = (0, 0);
        for number in 1..400 {
            let result = Cell::new(None);
            let neighbour = |space: &SharedSpace, platform: &Platform<'_, '_, 8>, _: &Interrupted<'_, 8>| {
                let claimed = space.is_claimed();
                // SAFETY: no CPU uses these tables.
                let refused = unsafe {
                    match va == taken {
                        true => space.on(platform).unmap(va, 1),
                        false => space.on(platform).protect(va, 1, Change::READ_ONLY),
                    }
                };
                assert!(claimed || refused.is_ok(), "{refused:?}: nobody has claimed it");
                result.set(Some(refused));
            };
            with_map::<8>(neighbour, |space, platform, hardware| {
                let mut aliased =
                    Aliased::new(space.on(platform), block.wrapping_sub(pa(Va(block)).0), Rodata::Full);
                // SAFETY: no CPU uses these tables.
                unsafe {
                    space.on(platform).map(Va(block), 512, pa(Va(block)), Attributes::RAM).expect("room");
                    for n in 0..PAGES {
                        let va = Va(area + n * PAGE);
                        space.on(platform).map(va, 1, pa(alias(n)), Attributes::KERNEL_DATA).expect("room");
                    }
                    hardware.left.set(number);
                    assert_eq!(aliased.set_memory_ro(Va(area), PAGES), Ok(()));
                }
                hardware.left.set(0);
                assert!(!space.is_claimed());
                let done = result.get() == Some(Ok(()));
                for n in 0..PAGES {
                    assert!(is_read_only(space, platform, Va(area + n * PAGE)), "before hold {number}");
                    match space.on(platform).read(|reader| reader.entry(alias(n))) {
                        Some((_, _, Entry::Hole)) => assert!(alias(n) == va && done, "before hold {number}"),
                        _ => assert!(is_read_only(space, platform, alias(n)), "before hold {number}"),
                    }
                }
                let others = [between, beside, theirs(99), theirs(136), theirs(511)];
                let changed: Vec<Va> =
                    others.into_iter().filter(|&va| is_read_only(space, platform, va)).collect();
                assert_eq!(changed, others.into_iter().filter(|&o| o == va && done).collect::<Vec<_>>());
            });
            if let Some(result) = result.get() {
                last = number;
                busy += u32::from(matches!(result, Err(ChangeError::Busy { .. })));
                assert!(result.is_ok() || va == taken, "{result:?}: nobody has claimed it");
            }
        }
        assert!((50..399).contains(&last), "the last time before hold {last}");
        assert_eq!(busy == 0, va != taken, "{va}: busy {busy} times");
    }
}

/// The last page of all addresses, of a block.
#[test]
fn a_block_is_split_at_the_highest_address() {
    with_map::<8>(
        |_, _, _| (),
        |space, platform, _| {
            let (block, page) = (Va(0_u64.wrapping_sub(BLOCK)), Va(0_u64.wrapping_sub(PAGE)));
            // SAFETY: no CPU uses these tables.
            unsafe {
                space.on(platform).map(block, 512, Pa(0), Attributes::RAM).expect("room");
                assert_eq!(space.on(platform).protect(page, 1, Change::READ_ONLY), Ok(()));
                assert_eq!(space.on(platform).unmap(block, 512), Ok(()));
            }
        },
    );
}

/// A hold of no entries is one of one entry.
#[test]
fn a_hold_without_entries_gets_on() {
    with_map::<0>(
        |_, _, _| (),
        |space, platform, _| {
            let va = Va(geometry().base(Half::Upper) + BLOCK - 3 * PAGE);
            // SAFETY: no CPU uses these tables.
            unsafe {
                assert_eq!(space.on(platform).map(va, 9, pa(va), Attributes::RAM), Ok(()));
                assert_eq!(space.on(platform).protect(va, 9, Change::READ_ONLY), Ok(()));
                assert_eq!(space.on(platform).unmap(va, 9), Ok(()));
            }
        },
    );
}

/// A list is read while locks are held, but no more of it than a hold may have entries: its pages may be few leaves.
#[test]
fn a_long_list_is_read_between_holds() {
    let base = geometry().base(Half::Upper);
    with_map::<64>(
        |_, _, _| (),
        |space, platform, hardware| {
            let reads = Cell::new(0);
            let read = |page: u64| {
                reads.update(|n| n + u64::from(hardware.held.get() != 0));
                Va(base + page * PAGE)
            };
            let list = (0..512).chain([600, 602]).chain(1024..1536).map(read);
            // SAFETY: no CPU uses these tables.
            unsafe {
                space.on(platform).map(Va(base), 2048, pa(Va(base)), Attributes::RAM).expect("room");
                space
                    .on(platform)
                    .change_pages(list, Change::READ_ONLY, ChangeFlags::empty())
                    .expect("mapped");
            }
            assert!(is_read_only(space, platform, Va(base + 1535 * PAGE)));
            assert!(is_read_only(space, platform, Va(base + 602 * PAGE)));
            assert!(!is_read_only(space, platform, Va(base + 601 * PAGE)));
            assert!(!is_read_only(space, platform, Va(base + 1023 * PAGE)));
            assert!(reads.get() <= 2 * 64, "{} pages were read under locks", reads.get());
        },
    );
}

/// A page by a list is left to a flush like a page by itself: a second change adds to it.
#[test]
fn a_list_of_one_page_is_that_page() {
    let va = Va(geometry().base(Half::Upper) + 3 * PAGE);
    with_map::<64>(
        |_, _, _| (),
        |space, platform, hardware| {
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(platform).map(va, 1, pa(va), Attributes::RAM).expect("room") };
            for change in [Change::READ_ONLY, Change::WRITABLE] {
                // SAFETY: as above.
                unsafe { space.on(platform).change_pages([va].into_iter(), change, ChangeFlags::LATER) }
                    .expect("mapped");
            }
            assert_eq!(hardware.invalidations.get(), 0);
            space.on(platform).flush(va, 1).expect("mapped");
            assert_eq!(hardware.invalidations.get(), 1);
        },
    );
}

/// A list of more pages than a hold has entries takes one hold if it has few ranges and leaves, and several if it has more.
#[test]
fn a_list_of_as_many_pages_as_a_hold_has_entries() {
    let base = geometry().base(Half::Upper);
    with_map::<64>(
        |_, _, _| (),
        |space, platform, hardware| {
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(platform).map(Va(base), 512, pa(Va(base)), Attributes::RAM).expect("room") };
            let holds = |pages: u64, step: u64| {
                hardware.left.set(u64::MAX);
                let list = (0..1).chain(1..pages).map(|n| Va(base + (n * step + n.min(1)) * PAGE));
                // SAFETY: as above.
                unsafe { space.on(platform).change_pages(list, Change::WRITABLE, ChangeFlags::empty()) }
                    .expect("mapped");
                u64::MAX - hardware.left.get()
            };
            assert_eq!([holds(64, 1), holds(2, 2)], [1, 1]);
            assert!(holds(65, 1) > 1, "a claim");
            assert!(holds(65, 2) > 1, "several groups");
        },
    );
}

/// While invalidations are pending, a change elsewhere in the same gigabyte takes one hold. One of the same page
/// invalidates first.
#[test]
fn a_change_beside_what_is_pending() {
    let base = geometry().base(Half::Upper);
    with_map::<64>(
        |_, _, _| (),
        |space, platform, hardware| {
            let change = |page: u64, change, flags| {
                hardware.left.set(u64::MAX);
                hardware.invalidations.set(0);
                // SAFETY: no CPU uses these tables.
                unsafe { space.on(platform).change(Va(base + page * PAGE), 1, change, flags) }
                    .expect("mapped");
                (u64::MAX - hardware.left.get(), hardware.invalidations.get())
            };
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(platform).map(Va(base), 8, pa(Va(base)), Attributes::RAM).expect("room") };
            assert_eq!(change(3, Change::READ_ONLY, ChangeFlags::LATER), (1, 0));
            assert_eq!(change(5, Change::READ_ONLY, ChangeFlags::empty()), (1, 1));
            assert!(space.has_pending());
            assert_eq!(change(3, Change::WRITABLE, ChangeFlags::empty()), (1, 2));
            assert!(!space.has_pending());
        },
    );
}

/// A pending range that is noted with many locks is invalidated once in a hold of them all.
#[test]
fn a_pending_range_of_many_locks_is_invalidated_once() {
    let (run, pages) = (Va(geometry().base(Half::Upper) + (16 << 30)), 16 << 18);
    with_map::<64>(
        |_, _, _| (),
        |space, platform, hardware| {
            let issued = |change, flags| {
                hardware.invalidations.set(0);
                // SAFETY: no CPU uses these tables.
                unsafe { space.on(platform).change(run, pages, change, flags) }.expect("mapped");
                hardware.invalidations.get()
            };
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(platform).map(run, pages, pa(run), Attributes::RAM) }.expect("room");
            let once = issued(Change::READ_ONLY, ChangeFlags::empty());
            assert_eq!(issued(Change::WRITABLE, ChangeFlags::LATER), 0);
            assert_eq!(issued(Change::WRITABLE, ChangeFlags::empty()), once);
            assert!(!space.has_pending());
        },
    );
}

/// Sixty-four long changes are under way at the same time. One more finds no room, and changes nothing.
#[test]
fn as_many_long_changes_as_there_is_room_for() {
    let va = |n: u64| Va(geometry().base(Half::Upper) + n * BLOCK);
    let (begun, results) = (Cell::new(0), RefCell::new(Vec::new()));
    let begin = |space: &SharedSpace, platform: &Platform<'_, '_, 8>, hardware: &Interrupted<'_, 8>| {
        let n = begun.replace(begun.get() + 1);
        // After the attempt and the claim.
        hardware.left.set(if n < 64 { 6 } else { 0 });
        // SAFETY: no CPU uses these tables.
        let result = unsafe { space.on(platform).protect(va(n), 32, Change::READ_ONLY) };
        results.borrow_mut().push(result);
    };
    with_map::<8>(begin, |space, platform, hardware| {
        for n in 0..65 {
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(platform).map(va(n), 32, pa(va(n)), Attributes::RAM) }.expect("room");
        }
        begin(space, platform, hardware);
        assert_eq!(begun.get(), 65, "each begins in the middle of the one before");
        assert_eq!(results.borrow()[0], Err(ChangeError::Busy { va: va(64) }));
        assert!(results.borrow()[1..].iter().all(Result::is_ok), "{results:?}");
        assert!((0..65).all(|n| is_read_only(space, platform, va(n)) == (n < 64)));
    });
}
