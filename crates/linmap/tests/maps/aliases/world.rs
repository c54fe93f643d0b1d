//! A linear map, a vmalloc-like area, and hardware that records the requests.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow::Continue;

use linmap::arch::{Entry, Leaf, Level, Tlbi};
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::{
    Aliased, Attributes, CannotPark, Combined, Dsb, EntryUpdate, Geometry, Half, Hardware, Memory, Pa,
    Policy, Promise, Rodata, SharedSpace, Sharing, Stats, Tree, Va,
};

use crate::aliases::flat::{Flat, Mapped, Set};

/// A request to the hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Dsb(Dsb),
    Isb,
    Tlbi(Tlbi),
    Sync(Va, u64),
    Parked,
}

/// One CPU, which notes what it does. A hold has so many entries.
pub(crate) struct Notes<const HOLD: usize> {
    locked: Cell<bool>,
    pub(crate) promise: Cell<Promise>,
    pub(crate) steps: RefCell<Vec<Step>>,
    /// So often others park, and after that so often they refuse.
    pub(crate) parking: Cell<(usize, usize)>,
}

/// Its lock, until it is dropped.
pub(crate) struct Held<'h>(&'h Cell<bool>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

// SAFETY: no walker and no TLB sees the tables, no other thread has it, and its lock is taken once at a time.
unsafe impl<const HOLD: usize> Hardware for Notes<HOLD> {
    fn promise(&self) -> Promise {
        self.promise.get()
    }

    fn dsb(&self, kind: Dsb) {
        self.steps.borrow_mut().push(Step::Dsb(kind));
    }

    fn isb(&self) {
        self.steps.borrow_mut().push(Step::Isb);
    }

    fn tlbi(&self, op: Tlbi, _: Geometry) {
        self.steps.borrow_mut().push(Step::Tlbi(op));
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        assert!(!self.locked.get(), "caches are maintained without the lock");
        self.steps.borrow_mut().push(Step::Sync(va, bytes));
    }

    unsafe fn park(&self, memory: &impl Memory, _: Pa, rewrites: &[EntryUpdate]) -> Result<(), CannotPark> {
        let (parks, refuses) = self.parking.get();
        if parks == 0 && refuses != 0 {
            self.parking.set((0, refuses - 1));
            return Err(CannotPark);
        }
        self.parking.set((parks.saturating_sub(1), refuses));
        self.steps.borrow_mut().push(Step::Parked);
        // SAFETY: live tables of this memory, which only this thread has; the operation holds the lock.
        rewrites.iter().for_each(|r| unsafe { r.carry_out(memory) });
        Ok(())
    }
}

// SAFETY: there is one thread, and its lock is taken once at a time, also by readers.
unsafe impl<const HOLD: usize> Sharing for Notes<HOLD> {
    const HOLD: usize = HOLD;

    type Held<'h> = Held<'h>;

    fn lock(&self, _: usize) -> Held<'_> {
        assert!(!self.locked.replace(true), "the lock is taken twice");
        Held(&self.locked)
    }
}

/// Physical memory that is mapped in a row: where it starts, and how many pages.
pub(crate) type Piece = (u64, u64);

/// A map, and an area. Changes of few entries take one hold, others several.
pub(crate) struct WorldOf<const HOLD: usize> {
    pub(crate) g: Geometry,
    pub(crate) memory: HostMemory,
    pub(crate) hardware: Notes<HOLD>,
    pub(crate) space: SharedSpace,
    pub(crate) offset: u64,
    /// The first address of the area, and how many pages it has.
    pub(crate) area: u64,
    pub(crate) pages: u64,
}

/// In which nearly every change takes one hold, unless it cuts many leaves.
pub(crate) type World = WorldOf<{ 1 << 16 }>;

/// In which nearly every change takes several.
pub(crate) type Paced = WorldOf<5>;

/// Every leaf, and what it is made of.
pub(crate) type Leaves = (Vec<(Va, Level, Leaf)>, Stats, usize);

impl<const HOLD: usize> WorldOf<HOLD> {
    /// Nothing is mapped, and physical memory from `ram` on is to come first in the linear map.
    pub(crate) fn empty(g: Geometry, ram: u64) -> Self {
        let memory = HostMemory::new(g, 120);
        let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("one page");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        let (Va(first), Va(last)) = linear_range(g);
        let hardware = Notes {
            locked: Cell::new(false),
            promise: Cell::new(Promise { never_aborts: true, range_tlbi: true, repeat_tlbi: false }),
            steps: RefCell::default(),
            parking: Cell::new((usize::MAX, 0)),
        };
        Self { g, memory, hardware, space, offset: first.wrapping_sub(ram), area: last + 1, pages: 0 }
    }

    /// A linear map of three blocks and seven pages, in the largest leaves, and, after a hole that ends with the
    /// first page of a block, of 39 pages; and an area of these pieces.
    pub(crate) fn new(g: Geometry, pieces: &[Piece]) -> Self {
        let pages = pieces.iter().map(|p| p.1).sum();
        let world = Self { pages, ..Self::empty(g, 0) };
        let (page, block) = (g.page_size(), g.level_size(Level::new(2)));
        world.map(world.offset, 0, (3 * block / page) + 7, Attributes::RAM);
        let far = 4 * block + page;
        world.map(world.offset + far, far, 39, Attributes::RAM);
        world.area_of(pieces);
        world
    }

    pub(crate) fn area_of(&self, pieces: &[Piece]) {
        let mut va = self.area;
        for &(first, pages) in pieces {
            self.map(va, first * self.g.page_size(), pages, Attributes::KERNEL_DATA);
            va += pages * self.g.page_size();
        }
    }

    /// The pages of a block.
    pub(crate) fn block(&self) -> u64 {
        1 << self.g.index_bits()
    }

    pub(crate) fn platform(&self) -> Combined<'_, HostMemory, Notes<HOLD>> {
        // SAFETY: the hardware is this memory's alone.
        unsafe { Combined::new(&self.memory, &self.hardware) }
    }

    pub(crate) fn map(&self, va: u64, oa: u64, pages: u64, attributes: Attributes) {
        // SAFETY: no CPU uses these addresses.
        unsafe { self.space.on(&self.platform()).map(Va(va), pages, Pa(oa), attributes) }
            .expect("frames enough");
    }

    /// Changes pages of the area, counted from its first.
    pub(crate) fn set(&self, set: Set, first: u64, pages: u64) -> Result<(), ChangeError> {
        self.set_with(Rodata::Full, set, first, pages)
    }

    pub(crate) fn set_with(
        &self,
        rodata: Rodata,
        set: Set,
        first: u64,
        pages: u64,
    ) -> Result<(), ChangeError> {
        let platform = self.platform();
        let mut aliased = Aliased::new(self.space.on(&platform), self.offset, rodata);
        let va = Va(self.area + first * self.g.page_size());
        // SAFETY: no CPU uses these addresses.
        unsafe {
            match set {
                Set::Ro => aliased.set_memory_ro(va, pages),
                Set::Rw => aliased.set_memory_rw(va, pages),
                Set::X => aliased.set_memory_x(va, pages),
                Set::Nx => aliased.set_memory_nx(va, pages),
                Set::Rox => aliased.set_memory_rox(va, pages),
                Set::Valid(valid) => aliased.set_memory_valid(va, pages, valid),
            }
        }
    }

    /// The addresses of pages of the area.
    pub(crate) fn range(&self, first: u64, pages: u64) -> (u64, u64) {
        let (va, page) = (self.area + first * self.g.page_size(), self.g.page_size());
        (va, va + (pages * page - 1))
    }

    fn all(&self) -> (Va, Va) {
        (Va(self.g.base(Half::Upper)), Va(u64::MAX))
    }

    fn each_leaf(&self, mut each: impl FnMut(Va, Level, Leaf)) {
        let _ = self.space.on(&self.platform()).read(|reader| {
            reader.visit(self.all(), |&linmap::read::Visited { va, level, entry, .. }| {
                if let Entry::Leaf(leaf) = entry {
                    each(va, level, leaf);
                }
                Continue(())
            })
        });
    }

    /// Every leaf, and how many table pages are taken; the counts are those of the tables.
    pub(crate) fn leaves(&self) -> Leaves {
        let mut leaves = Vec::new();
        self.each_leaf(|va, level, leaf| leaves.push((va, level, leaf)));
        let counted = self.space.on(&self.platform()).read(|reader| reader.count(self.all()));
        assert_eq!(self.space.on(&self.platform()).stats(), counted, "{:?}", self.g);
        assert_eq!(self.memory.in_use() as u64, counted.tables, "{:?}", self.g);
        (leaves, counted, self.memory.in_use())
    }

    /// Returns the mapping of each page.
    pub(crate) fn flat(&self) -> Flat {
        let mut flat = Flat::default();
        self.each_leaf(|va, level, Leaf { oa, attributes, valid, .. }| {
            flat.push((va.0, va.0 + (self.g.level_size(level) - 1), Mapped { pa: oa.0, attributes, valid }));
        });
        flat
    }

    pub(crate) fn collapse(&self) {
        let pages = 1 << (self.g.va_bits() - self.g.page_shift());
        self.space.on(&self.platform()).collapse(self.all().0, pages).expect("all can collapse");
    }

    /// Returns the requests to the hardware since the last call.
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.hardware.steps.take()
    }
}

/// Areas of every kind, by name: pieces of physical memory.
pub(crate) fn shapes(g: Geometry) -> Vec<(&'static str, Vec<Piece>)> {
    let (block, run) = (1 << g.index_bits(), g.contiguous_entries(Level::PAGE) as u64);
    let unbacked = 6 * block + 1;
    vec![
        ("a page", vec![(5, 1)]),
        ("in a row", vec![(3, 40)]),
        ("scattered", (0..20).map(|n| (n * 37 % 101 * 2 + 1, 1)).collect()),
        ("reversed", (0..20).rev().map(|n| (n + 3, 1)).collect()),
        ("repeated", vec![(8, 3), (8, 3), (9, 2), (8, 3)]),
        ("runs", vec![(2 * run, 3 * run + 5)]),
        ("a block", vec![(block, block)]),
        ("blocks and pages", vec![(block, 2 * block + 5)]),
        ("across blocks", vec![(block - 3, 7)]),
        ("blocks reversed", vec![(2 * block, block), (block, block)]),
        ("in both parts", vec![(4, 3), (4 * block + 3, 9), (block + 1, 1)]),
        ("unbacked", vec![(unbacked, 9)]),
        ("backed in part", vec![(10, 2), (unbacked, 2), (11, 1), (unbacked + 9, 1), (300, 3)]),
    ]
}
