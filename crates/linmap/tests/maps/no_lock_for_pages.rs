//! Table pages are taken and given back while no lock is held, by every call, and none is lost where they run out. Retired
//! pages, which may come under a lock, wait in a list here.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use linmap::arch::Tlbi;
use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::{
    Access, Aliased, Attributes, CannotPark, Change, ChangeFlags, Combined, Dsb, EntryUpdate, Frame,
    Geometry, Granule, Half, Hardware, Hotplug, Layout, Memory, OaFormat, Pa, Policy, Promise, Region,
    Remake, Rodata, SharedSpace, Sharing, Tree, Va,
};

/// The locks of one CPU, and the pages that wait for its readers.
struct Locks {
    held: Cell<usize>,
    retired: RefCell<Vec<Frame>>,
}

/// A lock that is held.
struct Held<'h>(&'h Cell<usize>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

// SAFETY: one thread uses the tables, and no CPU translates by them.
unsafe impl Hardware for Locks {
    fn promise(&self) -> Promise {
        Promise { never_aborts: true, range_tlbi: false, repeat_tlbi: false }
    }

    fn dsb(&self, _: Dsb) {}

    fn isb(&self) {}

    fn tlbi(&self, _: Tlbi, _: Geometry) {}

    fn sync_code(&self, _: Va, _: u64) {}

    unsafe fn park(&self, memory: &impl Memory, _: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        for update in updates {
            // SAFETY: the caller's entries, which nobody else uses.
            unsafe { update.carry_out(memory) };
        }
        Ok(())
    }
}

// SAFETY: there is one thread, so a lock only counts. Retired pages are kept.
unsafe impl Sharing for Locks {
    const LOCKS: usize = 64;
    const HOLD: usize = 64;

    type Held<'h> = Held<'h>;

    fn lock(&self, _: usize) -> Held<'_> {
        self.held.set(self.held.get() + 1);
        Held(&self.held)
    }

    fn retire(&self, _: &impl Memory, frame: Frame) {
        self.retired.borrow_mut().push(frame);
    }
}

/// Table pages, of which so many are left. No lock is held when one is taken or given back.
struct Asserting<'m> {
    memory: &'m HostMemory,
    locks: &'m Locks,
    left: Cell<usize>,
}

impl Asserting<'_> {
    fn check(&self) {
        assert_eq!(self.locks.held.get(), 0, "a table page is taken or given back under a lock");
    }
}

// SAFETY: pages and words are those of the memory below.
unsafe impl Memory for Asserting<'_> {
    const ACCESS: Access = Access::Plain;

    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.check();
        let left = self.left.get().checked_sub(1)?;
        let frame = self.memory.take()?;
        self.left.set(left);
        Some(frame)
    }

    fn give(&self, frame: Frame) {
        self.check();
        self.left.set(self.left.get() + 1);
        self.memory.give(frame);
    }

    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.memory.words(table) }
    }
}

type Platform<'m> = Combined<'m, Asserting<'m>, Locks>;

const PAGES: usize = if cfg!(miri) { 128 } else { 4096 };
/// The pages of a third of RAM: a gigabyte, and less under Miri, which tries each call as well.
const THIRD: u64 = if cfg!(miri) { 1 << 12 } else { 1 << 18 };
/// The pages of the area.
const AREA: u64 = if cfg!(miri) { 17 } else { 40 };
/// Where RAM begins, which the linear map has at its start.
const RAM: u64 = 1 << 30;

fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

fn at(page: u64) -> Va {
    Va(geometry().base(Half::Upper) + (page << 12))
}

fn area(page: u64) -> Va {
    Va(linear_range(geometry()).1.0 + 1 + (page << 12))
}

/// The map and the memory of all calls of a test.
struct World<'m> {
    platform: Platform<'m>,
    space: SharedSpace,
}

impl<'m> World<'m> {
    /// RAM in large leaves, and an area whose pages are apart in memory.
    fn new(memory: &'m Asserting<'m>, policy: Policy) -> Self {
        // SAFETY: nothing else locks the tables of this memory.
        let platform = unsafe { Combined::new(memory, memory.locks) };
        let empty = Tree::build(&platform, geometry(), Half::Upper, std::iter::empty()).expect("a root");
        let space = SharedSpace::adopt(empty);
        space.set_policy(policy);
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).map(at(0), 3 * THIRD, Pa(RAM), Attributes::RAM) }.expect("room");
        for n in 0..AREA {
            let page = THIRD / 3 + n * (THIRD / 26);
            let oa = Pa(RAM + (page << 12));
            // SAFETY: as above.
            unsafe { space.on(&platform).map(area(n), 1, oa, Attributes::KERNEL_DATA) }.expect("room");
        }
        Self { platform, space }
    }

    fn change(&self, first: u64, pages: u64, change: Change, flags: ChangeFlags) -> Result<(), String> {
        // SAFETY: no CPU uses these tables.
        said(unsafe { self.space.on(&self.platform).change(at(first), pages, change, flags) })
    }

    fn protect(&self, first: u64, pages: u64) -> Result<(), String> {
        self.change(first, pages, Change::READ_ONLY, ChangeFlags::empty())
    }
}

fn said<T, E: std::fmt::Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(|_| ()).map_err(|e| format!("{e:?}"))
}

/// A call, and its name.
type Call = (&'static str, fn(&World<'_>) -> Result<(), String>);

/// One call each, or two that belong together.
fn calls() -> Vec<Call> {
    vec![
        ("protect a page of a block", |w| w.protect(THIRD + 1025, 1)),
        ("protect in one hold", |w| w.protect(1025, 600)),
        ("protect a long range", |w| w.protect(7, 2 * THIRD + 100)),
        ("later", |w| {
            w.change(77, 1, Change::INVALID, ChangeFlags::LATER)?;
            said(w.space.on(&w.platform).flush(at(77), 1))
        }),
        ("some pages", |w| {
            let pages = [1, 700, 701, THIRD].into_iter().map(at);
            // SAFETY: no CPU uses these tables.
            said(unsafe {
                w.space.on(&w.platform).change_pages(pages, Change::READ_ONLY, ChangeFlags::empty())
            })
        }),
        ("remake", |w| {
            let remake = Remake::to(Pa(RAM + (5 << 30)));
            // SAFETY: no CPU uses these tables.
            said(unsafe { w.space.on(&w.platform).remake(at(512), 512, remake, || Ok::<(), ()>(())) })
        }),
        ("map and unmap", |w| {
            // SAFETY: no CPU uses these tables.
            said(unsafe { w.space.on(&w.platform).map(at(9 * THIRD), 3, Pa(0), Attributes::RAM) })?;
            // SAFETY: no CPU uses these tables.
            said(unsafe { w.space.on(&w.platform).unmap(at(9 * THIRD), 3) })
        }),
        ("map a long range", |w| {
            // SAFETY: no CPU uses these tables.
            said(unsafe {
                w.space.on(&w.platform).map(at(9 * THIRD + 5), 3 * THIRD, Pa(5 << 12), Attributes::RAM)
            })
        }),
        ("unmap a part", |w| {
            // SAFETY: no CPU uses these tables.
            said(unsafe { w.space.on(&w.platform).unmap(at(100), THIRD) })
        }),
        ("unmap all", |w| {
            // SAFETY: no CPU uses these tables.
            said(unsafe { w.space.on(&w.platform).unmap_all(&[(area(0), 7), (area(9), 2)]) })?;
            w.space.on(&w.platform).trim();
            Ok(())
        }),
        ("split and collapse", |w| {
            said(w.space.on(&w.platform).split_to_pages(at(1024), THIRD))?;
            said(w.space.on(&w.platform).collapse(at(0), 3 * THIRD))
        }),
        ("pin and unpin", |w| {
            said(w.space.on(&w.platform).pin(at(5000), 700))?;
            said(w.space.on(&w.platform).unpin(at(5000), 700))
        }),
        ("aliases", |w| {
            let mut aliased = Aliased::new(w.space.on(&w.platform), at(0).0.wrapping_sub(RAM), Rodata::Full);
            // SAFETY: no CPU uses these tables.
            said(unsafe { aliased.set_memory_ro(area(15), 2) })?;
            // SAFETY: no CPU uses these tables.
            said(unsafe { aliased.set_memory_ro(area(0), AREA) })
        }),
        ("hide and show", |w| {
            // SAFETY: no CPU uses these tables.
            said(unsafe { w.space.on(&w.platform).set_valid(at(3000), 100, false) })?;
            // SAFETY: no CPU uses these tables.
            said(unsafe { w.space.on(&w.platform).set_valid(at(3000), 100, true) })
        }),
        ("create", |w| {
            let region =
                |gigabyte: u64| Region::new(at(gigabyte << 18), Pa(gigabyte << 30), 3 << 12, Attributes::RAM);
            // The root's entries are of 512 gigabytes.
            // SAFETY: no CPU uses these tables.
            said(unsafe { w.space.on(&w.platform).create_regions([region(1024), region(1030)]) })
        }),
        ("create where there is something", |w| {
            let region = Region::new(at(THIRD), Pa(0), 3 << 12, Attributes::RAM);
            // SAFETY: no CPU uses these tables.
            match unsafe { w.space.on(&w.platform).create_regions([region]) } {
                Err(linmap::error::CreateError::Occupied { .. }) => Ok(()),
                other => said(other),
            }
        }),
        ("RAM comes and goes", |w| {
            let all = [Pa(RAM)..Pa(RAM + (20 << 30))];
            let mut hotplug = Hotplug::new(w.space.on(&w.platform), &layout(&mut all.clone()));
            let ram = Pa(RAM + (6 << 30))..Pa(RAM + (6 << 30) + (5 << 21));
            // SAFETY: no CPU uses these tables.
            said(unsafe { hotplug.add(ram.clone()) })?;
            // SAFETY: no CPU uses these tables.
            said(unsafe { hotplug.remove(Pa(ram.start.0 + (1 << 21))..Pa(ram.end.0 - (1 << 21))) })
        }),
        ("repaint", |w| said(w.space.on(&w.platform).repaint(linear_range(geometry()), &[]))),
        ("repaint under the same root", |w| {
            w.space.fix_root();
            said(w.space.on(&w.platform).repaint(linear_range(geometry()), &[]))
        }),
        ("copy", |w| {
            w.protect(1025, 1)?;
            let copy = w.space.on(&w.platform).copy((at(0), at(5 * THIRD))).map_err(|e| format!("{e:?}"))?;
            copy.discard(&w.platform);
            Ok(())
        }),
        ("look", |w| {
            _ = (
                w.space.on(&w.platform).stats(),
                w.space.on(&w.platform).read(|reader| reader.count((at(0), at(3 * THIRD)))),
            );
            _ = w.space.on(&w.platform).read(|reader| reader.count_collapsed((at(0), at(3 * THIRD))));
            Ok(())
        }),
    ]
}

fn layout(ram: &mut [Range<Pa>]) -> Layout<'_> {
    Layout::of_ram(geometry(), ram).and_then(|layout| layout.at(at(0).0 - RAM)).expect("a layout")
}

#[test]
fn no_call_holds_a_lock_while_pages_come_and_go() {
    // Miri, for which a count takes longer than a call, tries each call once.
    let policies = if cfg!(miri) { &[Policy::Live][..] } else { &[Policy::Live, Policy::Park] };
    for &policy in policies {
        for (name, call) in calls() {
            let memory = HostMemory::new(geometry(), PAGES);
            let locks = Locks { held: Cell::new(0), retired: RefCell::default() };
            let asserting = Asserting { memory: &memory, locks: &locks, left: Cell::new(PAGES) };
            let world = World::new(&asserting, policy);
            println!("{policy:?}: {name}");
            assert_eq!(call(&world), Ok(()), "{policy:?}: {name}");
            locks.retired.take().into_iter().for_each(|frame| asserting.give(frame));
            let (stats, all) = (world.space.on(&world.platform).stats(), (at(0), Va(u64::MAX)));
            assert!(
                cfg!(miri) || world.space.on(&world.platform).read(|reader| reader.count(all)) == stats,
                "{policy:?}: {name}"
            );
            assert_eq!(memory.in_use() as u64, stats.tables, "{policy:?}: {name}");
        }
    }
}

#[test]
fn no_page_is_lost_where_they_run_out() {
    for (name, call) in calls() {
        for left in (0..10).chain([100]) {
            let memory = HostMemory::new(geometry(), PAGES);
            let locks = Locks { held: Cell::new(0), retired: RefCell::default() };
            let asserting = Asserting { memory: &memory, locks: &locks, left: Cell::new(PAGES) };
            let world = World::new(&asserting, Policy::Live);
            asserting.left.set(left);
            let done = call(&world);
            locks.retired.take().into_iter().for_each(|frame| asserting.give(frame));
            let stats = world.space.on(&world.platform).stats();
            assert_eq!(memory.in_use() as u64, stats.tables, "{name}: {left} pages: {done:?}");
        }
    }
}
