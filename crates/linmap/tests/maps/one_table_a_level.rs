//! A map is created, changed and repainted where the memory maps one table of each level at a time, as a fixmap does.

use std::cell::RefCell;

use linmap::arch::{Descriptor, Level};
use linmap::error::{BuildError, CreateError};
use linmap::host::{HostMemory, NoHardware};
use linmap::{
    Attributes, Change, Combined, Frame, Geometry, Half, Leaves, Memory, Pa, Policy, Region, SharedSpace,
    Slot, Stats, Tree, Va,
};
use test_support::geometries;

/// A memory with a window for each level, into which one page is mapped at a time.
struct Windows {
    memory: HostMemory,
    /// The pages that are mapped, from the level of the root on.
    mapped: RefCell<Vec<(Level, Pa)>>,
    /// The number of pages that can still be taken.
    left: RefCell<usize>,
}

// SAFETY: pages and live slots are those of the memory in it. What is written in a window is in the page when the window
// closes, and its contents are the page's while it is open.
unsafe impl Memory for Windows {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        let mut left = self.left.borrow_mut();
        *left = left.checked_sub(1)?;
        self.memory.take()
    }

    fn give(&self, frame: Frame) {
        let mapped = self.mapped.borrow().iter().any(|&(_, page)| page == frame.pa());
        assert!(!mapped, "a page is given back that is mapped");
        *self.left.borrow_mut() += 1;
        self.memory.give(frame);
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        let above = self.mapped.borrow().last().copied();
        let is_below = above.is_none_or(|(above, _)| above.number() < level.number());
        assert!(is_below, "{level:?} within {above:?}");
        self.mapped.borrow_mut().push((level, frame.pa()));
        let mut window = self.memory.with_slots(frame, level, |slots| slots.to_vec());
        let result = work(&mut window);
        self.memory.with_slots(frame, level, |slots| slots.copy_from_slice(&window));
        assert_eq!(self.mapped.borrow_mut().pop(), Some((level, frame.pa())));
        result
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.memory.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.store(slot, new) }
    }
}

/// Leaves of several sizes, whole tables of pages, and holes.
fn regions(g: Geometry) -> [Region; 4] {
    let (base, page, block) = (g.base(Half::Upper), g.page_size(), g.level_size(Level::new(2)));
    let region = |at: u64, bytes: u64| Region::new(Va(base + at), Pa(at), bytes, Attributes::RAM);
    [
        Region { leaves: Leaves::Pages, ..region(block, 2 * block) },
        region(3 * block, block + 3 * page),
        Region { attributes: Attributes::KERNEL_DATA, ..region(4 * block + 3 * page, 20 * page) },
        region((1 << (g.va_bits() - 2).min(46)) + block - page, page + block),
    ]
}

#[test]
fn creation_maps_one_table_of_each_level_at_a_time() {
    for g in geometries() {
        let stats = Stats::of_runs(g, regions(g).iter().flat_map(|r| r.runs(g)));
        // The root that is live already, and that of the tree.
        let needed = stats.tables as usize + 1;
        for short in [0, 1, 2, needed / 2, needed - 2] {
            let memory = Windows {
                memory: HostMemory::new(g, needed),
                mapped: RefCell::default(),
                left: RefCell::new(needed),
            };
            let hardware = NoHardware::default();
            // SAFETY: one thread has all of it.
            let platform = unsafe { Combined::new(&memory, &hardware) };
            let tree = Tree::build(&platform, g, Half::Upper, std::iter::empty()).expect("one page");
            let space = SharedSpace::adopt(tree);
            *memory.left.borrow_mut() -= short;
            // SAFETY: no CPU uses these tables.
            let created = unsafe { space.on(&platform).create_regions(regions(g)) };
            if short == 0 {
                assert_eq!(created, Ok(stats), "{g:?}");
                assert_eq!(space.on(&platform).read(|reader| reader.count(space.range())), stats);
            } else {
                let refused = matches!(created, Err(CreateError::Build(BuildError::OutOfFrames { .. })));
                assert!(refused, "{g:?}: {created:?}");
                assert_eq!(space.on(&platform).read(|reader| reader.count(space.range())), Stats::ROOT);
            }
            assert_eq!(memory.memory.in_use() as u64, space.on(&platform).stats().tables, "{g:?}");
            // SAFETY: no walker uses these tables.
            unsafe { space.into_tree(&platform) }.discard(&platform);
            assert_eq!((memory.memory.in_use(), memory.mapped.borrow().len()), (0, 0));
        }
    }
}

#[test]
fn a_split_and_a_repaint_map_one_table_of_each_level_at_a_time() {
    for g in geometries() {
        let memory =
            Windows { memory: HostMemory::new(g, 64), mapped: RefCell::default(), left: RefCell::new(64) };
        let hardware = NoHardware::default();
        // SAFETY: one thread has all of it.
        let platform = unsafe { Combined::new(&memory, &hardware) };
        let tree = Tree::build_regions(&platform, g, Half::Upper, regions(g)).expect("pages for all");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        let (block, before) = (g.level_size(Level::new(2)), space.on(&platform).stats());
        let page = Va(g.base(Half::Upper) + 3 * block + block / 2);
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).protect(page, 1, Change::READ_ONLY) }.expect("a split");
        let split = space.on(&platform).stats();
        assert!(split.tables > before.tables, "{g:?}: {split:?}");
        let painted = space.on(&platform).repaint(space.range(), &[]).expect("a second tree");
        let live = space.on(&platform);
        assert_eq!(live.read(|reader| reader.count(space.range())), painted, "{g:?}");
        assert!(painted.tables > split.tables, "{g:?}: {painted:?}");
        assert_eq!((painted.bytes(g), memory.mapped.borrow().len()), (split.bytes(g), 0), "{g:?}");
        // SAFETY: no walker uses these tables.
        unsafe { space.into_tree(&platform) }.discard(&platform);
        assert_eq!(memory.memory.in_use(), 0);
    }
}
