//! A CPU of the model as hardware with another number of locks. One call is under way at a time, so no lock is waited for: a
//! lock that is taken twice, or with a number that there is not, is a mistake.

use std::cell::{Cell, RefCell};

use linmap::arch::{Descriptor, Level, Tlbi};
use linmap::{
    CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Slot, Va,
};
use linmap_model::OnCpu;

/// The CPU, and the locks that it holds.
pub(crate) struct ManyLocks<'m, const LOCKS: usize> {
    on: OnCpu<'m>,
    held: Cell<u64>,
    /// The model's own lock, while any is held.
    all: RefCell<Option<<OnCpu<'m> as Sharing>::Held<'m>>>,
}

impl<'m, const LOCKS: usize> ManyLocks<'m, LOCKS> {
    pub(crate) const fn new(on: OnCpu<'m>) -> Self {
        Self { on, held: Cell::new(0), all: RefCell::new(None) }
    }
}

/// A lock of the CPU that is held, and its bit.
pub(crate) struct Held<'c, 'm, const LOCKS: usize>(&'c ManyLocks<'m, LOCKS>, u64);

impl<const LOCKS: usize> Drop for Held<'_, '_, LOCKS> {
    fn drop(&mut self) {
        let held = self.0.held.get() & !self.1;
        self.0.held.set(held);
        if held == 0 {
            drop(self.0.all.take());
        }
    }
}

// SAFETY: the model's CPU does it all, and keeps its promises.
unsafe impl<const LOCKS: usize> Memory for ManyLocks<'_, LOCKS> {
    fn page_size(&self) -> u64 {
        self.on.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.on.take()
    }

    fn give(&self, frame: Frame) {
        self.on.give(frame);
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.on.with_slots(frame, level, work)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.on.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        assert!(self.held.get() != 0, "who stores into a live table holds a lock");
        // SAFETY: the caller's promise.
        unsafe { self.on.store(slot, new) }
    }
}

// SAFETY: the model's CPU does it all, and keeps its promises.
unsafe impl<'m, const LOCKS: usize> Hardware for ManyLocks<'m, LOCKS> {
    fn promise(&self) -> Promise {
        self.on.promise()
    }

    unsafe fn park(&self, memory: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        // SAFETY: the caller's promise.
        unsafe { self.on.park(memory, root, updates) }
    }

    fn dsb(&self, kind: Dsb) {
        self.on.dsb(kind);
    }

    fn isb(&self) {
        self.on.isb();
    }

    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.on.tlbi(op, geometry);
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.on.sync_code(va, bytes);
    }
}

// SAFETY: the one lock of the model's CPU is held while any of these is. Readers and retired pages are its own.
unsafe impl<'m, const LOCKS: usize> Sharing for ManyLocks<'m, LOCKS> {
    const LOCKS: usize = LOCKS;

    type Held<'h>
        = Held<'h, 'm, LOCKS>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> Held<'_, 'm, LOCKS> {
        let (bit, held) = (1 << number, self.held.get());
        assert!(number < LOCKS && held & bit == 0, "lock {number} of {LOCKS}, with {held:#x} held");
        assert!(held < bit, "locks are taken in ascending order: {number} after {held:#x}");
        if held == 0 {
            *self.all.borrow_mut() = Some(self.on.lock(0));
        }
        self.held.set(held | bit);
        Held(self, bit)
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.on.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        self.on.retire(memory, frame);
    }
}
