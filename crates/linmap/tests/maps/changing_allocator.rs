//! An allocator that changes the map whenever it hands out or takes back a table page, as debug_pagealloc does with pages
//! of the linear map. No call of the allocator may find its own page locked or claimed by the operation that called. And what
//! the operation saw before may be another leaf afterwards.

use std::cell::Cell;

use linmap::arch::Entry;
use linmap::host::{SharedMemory, Threads};
use linmap::layout::linear_range;
use linmap::{
    Access, Aliased, Attributes, Change, Combined, Frame, Geometry, Granule, Half, Memory, OaFormat, Pa,
    Policy, Rodata, SharedSpace, Tree, Va,
};

/// Table pages. Whenever one is taken or given back, something is done first.
struct Changing<'m> {
    memory: &'m SharedMemory,
    first: Cell<Option<&'m dyn Fn()>>,
}

impl Changing<'_> {
    fn change(&self) {
        if let Some(first) = self.first.get() {
            first();
        }
    }
}

// SAFETY: pages and words are those of the memory below.
unsafe impl Memory for Changing<'_> {
    const ACCESS: Access = Access::Plain;

    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.change();
        self.memory.take()
    }

    fn give(&self, frame: Frame) {
        self.change();
        self.memory.give(frame);
    }

    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.memory.words(table) }
    }
}

#[test]
fn table_pages_are_taken_and_given_back_without_locks_and_claims() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    // Nobody waits: an allocator that waited for its own caller would wait for ever.
    let (memory, threads) = (SharedMemory::new(g, 256), Threads::<64, 64>::new().never_waits());
    // SAFETY: nothing else locks the tables of this memory.
    let below = unsafe { memory.platform(&threads) };
    let space = SharedSpace::adopt(Tree::build(&below, g, Half::Upper, std::iter::empty()).expect("a root"));
    space.set_policy(Policy::Live);
    let at = |page: u64| Va(g.base(Half::Upper) + (page << 12));
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&below).map(at(0), 3 << 18, Pa(1 << 30), Attributes::RAM) }.expect("room");
    // The allocator's own changes need no table page.
    space.on(&below).pin(at(1 << 18), 512).expect("room");
    // SAFETY: nothing else locks the tables of this memory.
    let inner = unsafe { memory.platform(&threads) };
    let calls = Cell::new(0);
    let change = || {
        calls.set(calls.get() + 1);
        for valid in [false, true] {
            // SAFETY: no CPU uses these tables.
            let changed = unsafe { space.on(&inner).set_valid(at(1 << 18), 1, valid) };
            assert_eq!(changed, Ok(()), "the allocator cannot wait for its own caller");
        }
    };
    let changing = Changing { memory: &memory, first: Cell::new(Some(&change)) };
    // SAFETY: the same locks.
    let platform = unsafe { Combined::new(&changing, &threads) };
    let called_by = |work: &dyn Fn()| {
        let before = calls.get();
        work();
        calls.get() - before
    };
    let protect = |first: u64, pages: u64, change: Change| {
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).protect(at(first), pages, change) }.expect("nothing to refuse");
    };
    // A page out of a block, in the gigabyte of the allocator's page: one hold.
    assert!(called_by(&|| protect((1 << 18) + 1025, 1, Change::READ_ONLY)) > 0);
    // A long range around the allocator's page, which ends within blocks.
    assert!(called_by(&|| protect(7, (2 << 18) + 100, Change::READ_ONLY)) > 0);
    // Areas with pages before and after the allocator's page, all read-only in the linear map by now: two of them in one hold,
    // forty in several.
    let area = |page: u64| Va(linear_range(g).1.0 + 1 + (page << 12));
    for n in 0..40 {
        let (page, attributes) = (100_000 + n * 10_007, Attributes::KERNEL_DATA);
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&below).map(area(n), 1, Pa((1 << 30) + (page << 12)), attributes) }.expect("room");
    }
    let writable = |first: u64, pages: u64| {
        let mut aliased = Aliased::new(space.on(&platform), at(0).0.wrapping_sub(1 << 30), Rodata::Full);
        // SAFETY: no CPU uses these tables.
        unsafe { aliased.set_memory_rw(area(first), pages) }.expect("nothing to refuse");
    };
    assert!(called_by(&|| writable(15, 2)) > 0);
    assert!(called_by(&|| writable(0, 40)) > 0);
    let split = || space.on(&platform).split_to_pages(at((1 << 18) + 1024), 2048).expect("room");
    assert!(called_by(&split) > 0);
}

#[test]
fn a_leaf_that_has_grown_meanwhile_takes_more_table_pages() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    let (memory, threads) = (SharedMemory::new(g, 64), Threads::<64, 64>::new().never_waits());
    // SAFETY: nothing else locks the tables of this memory.
    let below = unsafe { memory.platform(&threads) };
    let space = SharedSpace::adopt(Tree::build(&below, g, Half::Upper, std::iter::empty()).expect("a root"));
    space.set_policy(Policy::Live);
    let at = |page: u64| Va(g.base(Half::Upper) + (page << 12));
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&below).map(at(0), 1 << 18, Pa(1 << 30), Attributes::RAM) }.expect("room");
    let whole = space.on(&below).stats();
    let split = |change| {
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&below).protect(at(7), 1, change) }.expect("nothing to refuse");
    };
    split(Change::READ_ONLY);
    split(Change::WRITABLE);
    // A page out of a block of 2M takes one table. When it is taken, the gigabyte is one block again, of which it takes two.
    let grow = || space.on(&below).collapse(at(0), 1 << 18).expect("nothing to refuse");
    let changing = Changing { memory: &memory, first: Cell::new(Some(&grow)) };
    // SAFETY: the same locks.
    let platform = unsafe { Combined::new(&changing, &threads) };
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&platform).protect(at(1025), 1, Change::READ_ONLY) }.expect("nothing to refuse");
    let read_only = |page| match space.on(&below).read(|reader| reader.entry(at(page))) {
        Some((_, _, Entry::Leaf(leaf))) => leaf.attributes.contains(Attributes::READ_ONLY),
        other => panic!("{other:?} at page {page}"),
    };
    assert_eq!(space.on(&below).stats().tables, whole.tables + 2);
    assert_eq!([1024, 1025, 1026].map(read_only), [false, true, false]);
    changing.first.set(None);
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&platform).protect(at(1025), 1, Change::WRITABLE) }.expect("nothing to refuse");
    grow();
    assert_eq!(space.on(&below).stats(), whole);
}

/// Others add tables after those of a copy have been counted. What there is in the end is copied, whole.
#[test]
fn a_map_that_grows_while_it_is_copied_takes_more_table_pages() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    let (memory, threads) = (SharedMemory::new(g, 64), Threads::<64, 64>::new().never_waits());
    // SAFETY: nothing else locks the tables of this memory.
    let below = unsafe { memory.platform(&threads) };
    let space = SharedSpace::adopt(Tree::build(&below, g, Half::Upper, std::iter::empty()).expect("a root"));
    space.set_policy(Policy::Live);
    let at = |page: u64| Va(g.base(Half::Upper) + (page << 12));
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&below).map(at(0), 1 << 18, Pa(1 << 30), Attributes::RAM) }.expect("room");
    let grown = Cell::new(0);
    let grow = || {
        if grown.get() < 5 {
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&below).protect(at(512 * grown.get()), 1, Change::READ_ONLY) }.expect("room");
            grown.set(grown.get() + 1);
        }
    };
    let changing = Changing { memory: &memory, first: Cell::new(Some(&grow)) };
    // SAFETY: the same locks.
    let platform = unsafe { Combined::new(&changing, &threads) };
    let copy = space.on(&platform).copy((at(0), Va(u64::MAX))).expect("pages enough");
    assert_eq!((grown.get(), copy.stats()), (5, space.on(&below).stats()));
    copy.discard(&platform);
    assert_eq!(memory.in_use() as u64, space.on(&below).stats().tables);
}
