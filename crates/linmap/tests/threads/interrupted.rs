//! A platform of one thread, on which another caller comes at each load of a call, unless that one holds a lock that it needs.

use std::cell::Cell;

use linmap::arch::{Descriptor, Level, Tlbi};
use linmap::host::SharedMemory;
use linmap::{
    CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Slot, Va,
};

/// The platform of both callers.
pub(crate) struct Interrupted<'m, const LOCKS: usize> {
    memory: &'m SharedMemory,
    /// The call of the other caller, and the locks that it may need.
    other: &'m dyn Fn(&Self),
    needs: u64,
    /// The locks that are held.
    held: Cell<u64>,
    under_way: Cell<bool>,
}

impl<'m, const LOCKS: usize> Interrupted<'m, LOCKS> {
    pub(crate) fn new(memory: &'m SharedMemory, other: &'m dyn Fn(&Self), needs: u64) -> Self {
        Self { memory, other, needs, held: Cell::new(0), under_way: Cell::new(false) }
    }
}

// SAFETY: it is the memory below, which keeps its promises.
unsafe impl<const LOCKS: usize> Memory for Interrupted<'_, LOCKS> {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.memory.take()
    }

    fn give(&self, frame: Frame) {
        self.memory.give(frame);
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.memory.with_slots(frame, level, work)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        let loaded = unsafe { self.memory.load(slot) };
        if self.held.get() & self.needs == 0 && !self.under_way.replace(true) {
            (self.other)(self);
            self.under_way.set(false);
        }
        loaded
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.store(slot, new) };
    }
}

/// A lock that is held: its bit.
pub(crate) struct Held<'h>(&'h Cell<u64>, u64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() & !self.1);
    }
}

// SAFETY: no walker and no TLB sees the tables, and there is one thread. There are no CPUs to park.
unsafe impl<const LOCKS: usize> Hardware for Interrupted<'_, LOCKS> {
    fn promise(&self) -> Promise {
        Promise { never_aborts: true, range_tlbi: true, repeat_tlbi: false }
    }

    fn dsb(&self, _: Dsb) {}
    fn isb(&self) {}
    fn tlbi(&self, _: Tlbi, _: Geometry) {}
    fn sync_code(&self, _: Va, _: u64) {}

    unsafe fn park(&self, _: &impl Memory, _: Pa, _: &[EntryUpdate]) -> Result<(), CannotPark> {
        Err(CannotPark)
    }
}

// SAFETY: there is one thread, and nobody takes a lock that is held. Calls that come at a load change pages and give no table
// back, so that what others read is never given back.
unsafe impl<const LOCKS: usize> Sharing for Interrupted<'_, LOCKS> {
    const LOCKS: usize = LOCKS;

    type Held<'h>
        = Held<'h>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> Held<'_> {
        let (bit, held) = (1 << number, self.held.get());
        assert!(held & bit == 0, "lock {number} is held: its caller would wait for ever");
        self.held.set(held | bit);
        Held(&self.held, bit)
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        memory.give(frame);
    }
}
