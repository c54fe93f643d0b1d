//! Table pages at an offset: each is handed out once, and a map made of them is the one that host memory gives.

use linmap::arch::Level;
use linmap::host::HostMemory;
use linmap::{
    Attributes, Change, Combined, Geometry, Half, Leaves, Memory, OaFormat, OffsetMemory, Pa, Policy, Region,
    SharedSpace, Slot, Tree, Va,
};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeSet;
use test_support::prelude::*;

/// RAM as a kernel reaches it: at made-up physical addresses.
struct Ram {
    words: *mut u8,
    layout: Layout,
    range: std::ops::Range<Pa>,
}

impl Ram {
    fn new(g: Geometry, pages: u64) -> Self {
        let page = g.page_size();
        let layout = Layout::from_size_align((pages * page) as usize, page as usize).expect("a layout");
        // SAFETY: some bytes.
        let words = unsafe { alloc(layout) };
        assert!(!words.is_null());
        let start = Pa(0x40_0000_0000);
        Self { words, layout, range: start..Pa(start.0 + pages * page) }
    }

    /// The offset that is added to its addresses.
    fn offset(&self) -> u64 {
        (self.words.expose_provenance() as u64).wrapping_sub(self.range.start.0)
    }

    /// A memory that has all of it.
    fn memory(&self, g: Geometry) -> OffsetMemory {
        // SAFETY: it is there, and nothing else uses it.
        let memory: OffsetMemory = unsafe { OffsetMemory::new(g, self.range.clone(), self.offset()) };
        // SAFETY: likewise.
        let added = unsafe { memory.add(self.range.clone()) };
        assert_eq!(added, self.layout.size() as u64);
        memory
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.words, self.layout) };
    }
}

/// Returns one geometry for each page size.
fn geometries() -> impl Iterator<Item = Geometry> {
    let usual = |g: &Geometry| g.va_bits() == 48 && g.oa_format() == OaFormat::Bits48;
    test_support::geometries().into_iter().filter(usual)
}

#[test]
fn pages_are_taken_until_there_are_no_more() {
    for g in geometries() {
        let ram = Ram::new(g, 7);
        let memory = ram.memory(g);
        let mut frames = Vec::new();
        while let Some(mut frame) = memory.take() {
            let pa = frame.pa().0;
            memory.with_slots(&mut frame, Level::PAGE, |slots| slots.fill(pa));
            frames.push(frame);
        }
        let pages: BTreeSet<Pa> = frames.iter().map(|frame| frame.pa()).collect();
        let all = (0..7).map(|n| Pa(ram.range.start.0 + n * g.page_size()));
        assert!(pages.into_iter().eq(all), "{g:?}");
        assert_eq!(memory.free_bytes(), 0);
        for mut frame in frames {
            // Nobody else wrote to it.
            let pa = frame.pa().0;
            memory.with_slots(&mut frame, Level::PAGE, |slots| assert!(slots.iter().all(|&word| word == pa)));
            memory.give(frame);
        }
        assert_eq!(memory.free_bytes(), 7 * g.page_size());
    }
}

#[test]
fn only_whole_pages_in_reach_are_added() {
    let g = geometries().next().expect("a geometry");
    let (ram, page) = (Ram::new(g, 8), g.page_size());
    let start = ram.range.start.0;
    // SAFETY: the pages are there, and nothing else uses them.
    let memory: OffsetMemory = unsafe { OffsetMemory::new(g, Pa(start)..Pa(start + 6 * page), ram.offset()) };
    let add = |from: u64, to: u64| {
        // SAFETY: each page of the reach at most once, below.
        unsafe { memory.add(Pa(from)..Pa(to)) }
    };
    assert_eq!(add(start + 1, start + page), 0);
    assert_eq!(add(start + page - 1, start + 3 * page + 5), 2 * page);
    assert_eq!(add(start + 4 * page, u64::MAX), 2 * page);
    assert_eq!(add(0, start), 0);
    assert_eq!(add(u64::MAX - 1, u64::MAX), 0);
    assert_eq!(memory.free_bytes(), 4 * page);
}

#[test]
#[should_panic(expected = "not a page of this memory")]
fn pages_of_another_memory_are_refused() {
    let g = geometries().next().expect("a geometry");
    let (ram, other) = (Ram::new(g, 1), HostMemory::new(g, 1));
    ram.memory(g).give(other.take().expect("a page"));
}

/// Creates, changes and takes down a map, and counts it after each step.
fn life<M: Memory>(memory: &M, g: Geometry) -> Vec<String> {
    let hardware = linmap::host::NoHardware::default();
    // SAFETY: nothing else locks its tables.
    let platform = unsafe { Combined::new(memory, &hardware) };
    let base = g.base(Half::Upper);
    let bytes = 4 * g.level_size(linmap::arch::Level::new(2));
    let region =
        Region { va: Va(base), oa: Pa(0), bytes, attributes: Attributes::RAM, leaves: Leaves::Largest };
    let tree = Tree::build(memory, g, Half::Upper, region.runs(g)).expect("pages enough");
    let space = SharedSpace::adopt(tree);
    space.set_policy(Policy::Live);
    let mut seen = vec![format!("{:?}", space.on(&platform).stats())];
    let page = Va(base + 5 * g.page_size());
    for change in [Change::READ_ONLY, Change::WRITABLE] {
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).protect(page, 1, change) }.expect("a change");
        seen.push(format!("{:?}", space.on(&platform).stats()));
    }
    space.on(&platform).collapse(page, 1).expect("a collapse");
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&platform).unmap(Va(base), bytes / g.page_size()) }.expect("no map");
    seen.push(format!("{:?}", space.on(&platform).stats()));
    seen
}

#[test]
fn a_map_is_the_one_that_host_memory_gives() {
    for g in geometries() {
        let ram = Ram::new(g, 16);
        let memory = ram.memory(g);
        assert_eq!(life(&memory, g), life(&HostMemory::new(g, 16), g), "{g:?}");
        assert_eq!(memory.free_bytes(), 15 * g.page_size(), "all but the root");
    }
}

/// Pages that were taken before keep their contents and are reached; free ones stay free.
#[test]
fn pages_move_to_another_offset() {
    for g in geometries() {
        let (ram, page) = (Ram::new(g, 4), g.page_size());
        let memory = ram.memory(g);
        let mut frame = memory.take().expect("a page");
        memory.with_slots(&mut frame, Level::PAGE, |slots| slots.fill(7));
        let table = frame.into_pa();
        // The same memory by other addresses: as if physical addresses were shifted with the offset.
        let elsewhere = Ram::new(g, 4);
        // SAFETY: both are there for as long as the test.
        unsafe { elsewhere.words.copy_from_nonoverlapping(ram.words, ram.layout.size()) };
        // SAFETY: the copy has all that the first had, and nothing else uses it.
        let moved: OffsetMemory<linmap::Unshared> =
            unsafe { memory.moved(ram.range.clone(), elsewhere.offset()) };
        assert_eq!(moved.free_bytes(), 3 * page);
        // SAFETY: a page that was taken.
        unsafe {
            assert_eq!(moved.load(Slot { table, index: 3 }).0, 7);
            moved.store(Slot { table, index: 3 }, linmap::arch::Descriptor(8));
            assert_eq!(moved.words(table).add(3).read(), 8);
        }
        // SAFETY: a page that was taken, and no table points to.
        moved.give(unsafe { linmap::Frame::from_pa(table) });
        assert_eq!(moved.free_bytes(), 4 * page);
    }
}

proptest! {
    /// However pages come and go, none is handed out twice, and none is lost.
    #[test]
    fn any_order(steps: Vec<u8>) {
        let g = geometries().next().expect("a geometry");
        let (ram, pages) = (Ram::new(g, 9), 9);
        let memory = ram.memory(g);
        let mut taken = Vec::new();
        for step in steps {
            if step % 3 == 0 && !taken.is_empty() {
                memory.give(taken.swap_remove(step as usize % taken.len()));
            } else if let Some(frame) = memory.take() {
                prop_assert!(ram.range.contains(&frame.pa()));
                prop_assert!(taken.iter().all(|other: &linmap::Frame| other.pa() != frame.pa()));
                taken.push(frame);
            } else {
                prop_assert_eq!(taken.len(), pages);
            }
            prop_assert_eq!(memory.free_bytes(), (pages - taken.len()) as u64 * g.page_size());
        }
    }
}

/// The lock of a memory that one CPU uses is taken once, and again after it was given back.
#[test]
fn an_unshared_lock_is_taken_once() {
    use linmap::Unshared;
    use lock_api::RawMutex;
    let lock = Unshared::INIT;
    for _ in 0..2 {
        assert!(lock.try_lock());
        assert!(!lock.try_lock());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.lock())).is_err());
        // SAFETY: it is taken, right above.
        unsafe { lock.unlock() };
    }
    lock.lock();
    assert!(!lock.try_lock());
}
