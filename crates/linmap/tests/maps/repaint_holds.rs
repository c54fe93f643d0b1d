//! The holds of a repaint: each is short however much others change, nothing is allocated in one, and it ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;

use linmap::arch::{Descriptor, Entry, Level, Tlbi};
use linmap::error::{ChangeError, RepaintError};
use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::{
    Attributes, Change, Dsb, EntryUpdate, Frame, Geometry, Granule, Half, Hardware, Leaves, Memory, OaFormat,
    Pa, Platform, Policy, Promise, Region, SharedSpace, Sharing, Slot, Stats, Tree, Va,
};
use test_support::Random;

const G: u64 = 1 << 30;

/// A host with several locks, which counts what is read in a hold and refuses to allocate in one. Something else happens
/// before each hold. Pages that were live are kept until the end, and must not be written.
struct Watched<'m, const LOCKS: usize> {
    memory: &'m HostMemory,
    /// The locks that are held.
    held: Cell<u64>,
    /// The number of descriptors of live tables that were read in this hold.
    loads: Cell<usize>,
    longest: Cell<usize>,
    holds: Cell<u64>,
    /// The number of times that this context may still wait.
    waits: Cell<u64>,
    meanwhile: Meanwhile<'m, LOCKS>,
    /// True while something else happens.
    elsewhere: Cell<bool>,
    retired: RefCell<Vec<(Frame, u64)>>,
}

type Meanwhile<'m, const LOCKS: usize> = Box<dyn Fn(&Watched<'m, LOCKS>, u64) + 'm>;

struct Held<'h> {
    held: &'h Cell<u64>,
    number: usize,
    loads: &'h Cell<usize>,
    /// The longest hold of the repaint.
    longest: Option<&'h Cell<usize>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.held.set(self.held.get() & !(1 << self.number));
        if self.held.get() == 0 {
            let loads = self.loads.take();
            self.longest.inspect(|longest| longest.set(longest.get().max(loads)));
        }
    }
}

impl<'m, const LOCKS: usize> Watched<'m, LOCKS> {
    fn new(memory: &'m HostMemory, meanwhile: impl Fn(&Self, u64) + 'm) -> Self {
        let (held, loads, longest, holds) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
        let (waits, elsewhere, retired) = (Cell::new(0), Cell::new(false), RefCell::default());
        let meanwhile: Meanwhile<'m, LOCKS> = Box::new(meanwhile);
        Self { memory, held, loads, longest, holds, waits, meanwhile, elsewhere, retired }
    }

    /// Readers have left.
    fn grace_period(&self) {
        for (mut frame, content) in self.retired.take() {
            assert_eq!(
                self.memory.with_slots(&mut frame, Level::PAGE, |slots| sum(slots)),
                content,
                "a retired page was written"
            );
            self.memory.give(frame);
        }
    }
}

fn sum(slots: &[u64]) -> u64 {
    slots.iter().fold(0, |sum, slot| sum.rotate_left(5) ^ slot)
}

// SAFETY: it is the memory below, except that nothing is plain, so that loads can be counted.
unsafe impl<const LOCKS: usize> Memory for Watched<'_, LOCKS> {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        assert_eq!(self.held.get(), 0, "a page is taken in a hold");
        self.memory.take()
    }

    fn give(&self, frame: Frame) {
        assert_eq!(self.held.get(), 0, "a page is given back in a hold");
        self.memory.give(frame);
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.memory.with_slots(frame, level, work)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        self.loads.set(self.loads.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { self.memory.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.store(slot, new) }
    }
}

// SAFETY: one thread uses the tables, and no CPU translates by them.
unsafe impl<const LOCKS: usize> Hardware for Watched<'_, LOCKS> {
    fn promise(&self) -> Promise {
        Promise { never_aborts: true, ..Promise::default() }
    }

    fn dsb(&self, _: Dsb) {}
    fn isb(&self) {}
    fn tlbi(&self, _: Tlbi, _: Geometry) {}
    fn sync_code(&self, _: Va, _: u64) {}

    unsafe fn park(&self, _: &impl Memory, _: Pa, updates: &[EntryUpdate]) -> Result<(), linmap::CannotPark> {
        assert!(updates.is_empty());
        Ok(())
    }
}

// SAFETY: there is one thread, and locks that panic if they are not taken in order. Pages are retired until the end.
unsafe impl<const LOCKS: usize> Sharing for Watched<'_, LOCKS> {
    const LOCKS: usize = LOCKS;

    type Held<'h>
        = Held<'h>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> Held<'_> {
        if self.held.get() == 0 && !self.elsewhere.replace(true) {
            self.holds.set(self.holds.get() + 1);
            (self.meanwhile)(self, self.holds.get());
            self.elsewhere.set(false);
            self.loads.set(0);
        }
        assert!(number < LOCKS && self.held.get() >> number == 0, "{number} of {LOCKS}");
        self.held.set(self.held.get() | 1 << number);
        let Self { held, loads, .. } = self;
        let longest = (!self.elsewhere.get()).then_some(&self.longest);
        Held { held, number, loads, longest }
    }

    fn wait(&self) -> bool {
        assert_eq!(self.held.get(), 0, "a wait in a hold");
        let waits = self.waits.get();
        self.waits.set(waits.saturating_sub(1));
        waits > 0
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    fn retire(&self, _: &impl Memory, mut frame: Frame) {
        let content = self.memory.with_slots(&mut frame, Level::PAGE, |slots| sum(slots));
        self.retired.borrow_mut().push((frame, content));
    }
}

/// Memory in the largest leaves, at the start of the half.
struct Map {
    memory: HostMemory,
    space: SharedSpace,
    bytes: u64,
}

impl Map {
    fn new(g: Geometry, bytes: u64) -> Self {
        let tables = Self::tables(g, bytes) as usize;
        let memory = HostMemory::new(g, 3 * tables + 600);
        let runs = Self::region(g, bytes, Leaves::Largest).runs(g);
        let tree = Tree::build(&memory, g, Half::Upper, runs).expect("enough");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        Self { memory, space, bytes }
    }

    fn region(g: Geometry, bytes: u64, leaves: Leaves) -> Region {
        Region { va: Va(g.base(Half::Upper)), oa: Pa(0), bytes, attributes: Attributes::RAM, leaves }
    }

    /// Returns the number of tables of such a map in pages.
    fn tables(g: Geometry, bytes: u64) -> u64 {
        Stats::of_runs(g, Self::region(g, bytes, Leaves::Pages).runs(g)).tables
    }

    fn first(&self) -> Va {
        Va(self.space.geometry().base(Half::Upper))
    }

    fn pages(&self) -> u64 {
        self.bytes / self.space.geometry().page_size()
    }

    /// Makes some page writable or read-only. Returns false if others have claimed it.
    fn change<P: Platform>(&self, platform: &P, random: &mut Random, model: &Model) -> bool {
        let g = self.space.geometry();
        // The last page table comes and goes.
        let pages = self.pages() - (1 << g.index_bits());
        let va = Va(self.first().0 + random.below(pages) * g.page_size());
        let read_only = random.below(2) == 0;
        let change = if read_only { Change::READ_ONLY } else { Change::WRITABLE };
        // SAFETY: no CPU uses the addresses of tables in host memory.
        match unsafe { self.space.on(platform).protect(va, 1, change) } {
            Ok(()) => _ = model.borrow_mut().insert(va, read_only),
            Err(error) => {
                assert_eq!(error, ChangeError::Busy { va });
                return false;
            }
        }
        true
    }

    /// Removes everything that the last page table translates, or maps it again. Returns true if it is not mapped now.
    fn turn_last<P: Platform>(&self, platform: &P, hole: bool) -> bool {
        let g = self.space.geometry();
        let bytes = g.level_size(Level::new(2));
        let (from, count) = (self.bytes - bytes, bytes / g.page_size());
        let va = Va(self.first().0 + from);
        // SAFETY: no CPU uses the addresses of tables in host memory.
        let turned = unsafe {
            if hole {
                self.space.on(platform).map(va, count, Pa(from), Attributes::RAM)
            } else {
                self.space.on(platform).unmap(va, count)
            }
        };
        assert!(matches!(turned, Ok(()) | Err(ChangeError::Busy { .. })), "{turned:?}");
        hole != turned.is_ok()
    }

    /// All is in pages, each as the model says, and the counts are right.
    fn is_in_pages<P: Platform>(&self, platform: &P, model: &Model) {
        let g = self.space.geometry();
        let (mut pages, model) = (0, model.borrow());
        let all = (self.first(), Va(u64::MAX));
        let _ = self.space.on(platform).read(|reader| {
            reader.visit(all, |visited| {
                if let Entry::Leaf(leaf) = visited.entry {
                    assert!(visited.level == Level::PAGE && !leaf.contiguous, "{visited:?}");
                    let read_only = model.get(&visited.va).copied().unwrap_or(false);
                    assert_eq!(leaf.attributes.is_writable(), !read_only, "{visited:?}");
                    assert_eq!(leaf.oa.0, visited.va.0 - all.0.0);
                    pages += 1;
                }
                Continue(())
            })
        });
        assert_eq!((pages, self.space.policy()), (self.pages(), Policy::Pages));
        self.is_counted(platform);
        assert!(self.space.on(platform).stats().bytes(g) == self.bytes);
    }

    fn is_counted<P: Platform>(&self, platform: &P) {
        let counted = self.space.on(platform).read(|reader| reader.count((self.first(), Va(u64::MAX))));
        assert_eq!(self.space.on(platform).stats(), counted);
        assert_eq!(self.memory.in_use() as u64, counted.tables);
    }
}

/// The pages that have changed, and whether they are read-only.
type Model = RefCell<BTreeMap<Va, bool>>;

fn geometry(granule: Granule) -> Geometry {
    Geometry::new(granule, 48, OaFormat::Bits48).expect("built")
}

/// The most descriptors of live tables that are read in a hold: as many as a hold may have, or a table, and the ways to them.
fn most(g: Geometry) -> usize {
    // And holes, which are passed over at a fraction of the cost.
    4096.max(1 << g.index_bits()) + 1024
}

/// Scattered changes before each hold, for as long as it takes.
#[test]
fn a_changer_that_never_stops_delays_it_and_makes_no_hold_long() {
    for (granule, changes) in [(Granule::K4, 33), (Granule::K4, 500), (Granule::K16, 33), (Granule::K64, 33)]
    {
        never_stops::<64>(geometry(granule), changes, 3 * G);
        never_stops::<1>(geometry(granule), changes, G);
    }
}

fn never_stops<const LOCKS: usize>(g: Geometry, changes: u64, bytes: u64) {
    let (map, model) = (Map::new(g, bytes), Model::default());
    let (refused, random) = (Cell::new(0), RefCell::new(Random::new(changes)));
    let hole = Cell::new(false);
    let platform = Watched::<LOCKS>::new(&map.memory, |platform, _| {
        let changes = if map.space.policy() == Policy::Live { changes } else { 0 };
        for _ in 0..changes {
            let changed = map.change(platform, &mut random.borrow_mut(), &model);
            refused.set(refused.get() + u64::from(!changed));
        }
        if changes != 0 {
            hole.set(map.turn_last(platform, hole.get()));
        }
    });
    map.space.on(&platform).repaint(linear_range(g), &[]).expect("frames enough");
    assert!(refused.get() > 0, "{g:?}: it got by without a claim");
    let (longest, most) = (platform.longest.get(), most(g));
    assert!(longest <= most, "{g:?} {LOCKS}: {longest} descriptors in one hold of {most}");
    if hole.get() {
        assert!(!map.turn_last(&platform, true));
    }
    platform.grace_period();
    map.is_in_pages(&platform, &model);
}

/// Scattered changes that come once, after the first pass: only what they changed is copied again, without a claim.
#[test]
fn scattered_changes_are_copied_again_one_by_one() {
    // Some gigabytes share their marks.
    for (granule, gigabytes) in [(Granule::K4, 8), (Granule::K16, 8), (Granule::K64, 72)] {
        for changes in [33, 500] {
            let (g, bytes) = (geometry(granule), gigabytes * G);
            let (map, model) = (Map::new(g, bytes), Model::default());
            let quiet = Watched::<64>::new(&map.memory, |_, _| {});
            map.space.on(&quiet).repaint(linear_range(g), &[]).expect("frames enough");
            let last = quiet.holds.get();
            quiet.grace_period();

            let map = Map::new(g, bytes);
            let random = RefCell::new(Random::new(changes));
            let platform = Watched::<64>::new(&map.memory, |platform, hold| {
                if hold == last / 2 {
                    for _ in 0..changes {
                        assert!(map.change(platform, &mut random.borrow_mut(), &model), "claimed");
                    }
                }
            });
            map.space.on(&platform).repaint(linear_range(g), &[]).expect("frames enough");
            assert!(!platform.retired.borrow().is_empty());
            let (longest, most) = (platform.longest.get(), most(g));
            assert!(longest <= most, "{g:?}: {longest} descriptors in one hold of {most}");
            platform.grace_period();
            map.is_in_pages(&platform, &model);
        }
    }
}

/// A change before any hold, that of the switch above all, is in the second tree.
#[test]
fn a_change_before_any_hold_is_copied() {
    for granule in [Granule::K4, Granule::K64] {
        let g = geometry(granule);
        let (mut hold, mut last) = (0, 1);
        while hold <= last {
            let (map, model) = (&Map::new(g, G), &Model::default());
            let platform = Watched::<64>::new(&map.memory, move |platform, now| {
                if now == hold {
                    assert!(map.change(platform, &mut Random::new(hold), model), "claimed");
                }
            });
            map.space.on(&platform).repaint(linear_range(g), &[]).expect("frames enough");
            last = platform.holds.get();
            platform.grace_period();
            map.is_in_pages(&platform, model);
            hold += 1;
        }
        assert!(last > 64 + 2, "{g:?}: {last} holds");
    }
}

/// A long operation of another caller has claimed a part of the range, and does not end before the repaint.
#[test]
fn a_claim_of_others_is_in_the_way_of_the_switch() {
    let g = geometry(Granule::K4);
    for (waits, at) in [(0, 66), (0, 80), (100, 70)] {
        let map = Map::new(g, G);
        map.space.on(&map.memory.platform()).split_to_pages(map.first(), map.pages()).expect("enough");
        let model = Model::default();
        let results = Cell::new(0);
        let platform = Watched::<64>::new(&map.memory, |_, hold| {
            // In the middle of the long operation.
            if hold == at {
                let in_use = map.memory.in_use();
                let other = Watched::<64>::new(&map.memory, |_, _| {});
                other.waits.set(waits);
                let result = map.space.on(&other).repaint(linear_range(g), &[]);
                assert_eq!(result, Err(RepaintError::Busy));
                assert_eq!((other.waits.get(), other.retired.borrow().len()), (0, 0));
                assert_eq!(map.memory.in_use(), in_use);
                results.set(results.get() + 1);
            }
        });
        // SAFETY: no CPU uses the addresses of tables in host memory.
        unsafe { map.space.on(&platform).protect(map.first(), map.pages(), Change::READ_ONLY) }
            .expect("it is mapped");
        assert_eq!((results.get(), map.space.policy()), (1, Policy::Live));
        map.is_counted(&platform);
        // Nothing is in the way any more.
        map.space.on(&platform).repaint(linear_range(g), &[]).expect("frames enough");
        platform.grace_period();
        let page = g.page_size();
        model.borrow_mut().extend((0..map.pages()).map(|n| (Va(map.first().0 + n * page), true)));
        map.is_in_pages(&platform, &model);
    }
}

/// Pages run out in holds: those that are there are used, and all are given back, none of it in a hold.
#[test]
fn pages_run_out_between_holds() {
    for granule in [Granule::K4, Granule::K64] {
        let g = geometry(granule);
        let map = Map::new(g, G);
        let platform = Watched::<64>::new(&map.memory, |_, _| {});
        let needed = Map::tables(g, G);
        for spare in 0..needed {
            let taken: Vec<_> = std::iter::from_fn(|| map.memory.take()).collect();
            let mut taken = taken.into_iter();
            taken.by_ref().take(spare as usize).for_each(|frame| map.memory.give(frame));
            let in_use = map.memory.in_use();
            let result = map.space.on(&platform).repaint(linear_range(g), &[]);
            assert_eq!(result, Err(RepaintError::OutOfFrames { taken: spare }), "{g:?}");
            assert_eq!(map.memory.in_use(), in_use, "{g:?}");
            taken.for_each(|frame| map.memory.give(frame));
        }
        map.is_counted(&platform);
    }
}
