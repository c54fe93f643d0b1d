//! Memory and hardware of one CPU that count.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use linmap::arch::{Descriptor, Level, Tlbi};
use linmap::host::HostMemory;
use linmap::{
    CannotPark, Combined, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Slot, Va,
};

/// The work that was done.
#[derive(Clone, Copy, Default)]
pub(super) struct Done {
    loads: u64,
    stores: u64,
    locks: u64,
    barriers: u64,
    tlbis: u64,
    parked: u64,
    taken: u64,
    given: u64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loads, stores, locks, barriers, tlbis, parked, taken, given } = self;
        write!(f, "{loads} loads, {stores} stores, {locks} locks, {barriers} barriers, {tlbis} TLBIs, ")?;
        write!(f, "{parked} parked, {taken} pages taken, {given} given")
    }
}

/// Memory and hardware. A hold has so many entries.
pub(super) struct Counting<const HOLD: usize> {
    pub(super) memory: Rc<HostMemory>,
    done: Cell<Done>,
    /// The number of locks that are held.
    held: Cell<u32>,
    /// The number of holds, and what happens before each.
    holds: Cell<u64>,
    meanwhile: RefCell<Box<dyn Fn(u64)>>,
}

pub(super) type Platform<'a, const HOLD: usize> = Combined<'a, Counting<HOLD>, Counting<HOLD>>;

impl<const HOLD: usize> Counting<HOLD> {
    pub(super) fn new(memory: HostMemory) -> Self {
        let meanwhile: RefCell<Box<dyn Fn(u64)>> = RefCell::new(Box::new(|_| ()));
        Self {
            memory: Rc::new(memory),
            done: Cell::default(),
            held: Cell::new(0),
            holds: Cell::new(0),
            meanwhile,
        }
    }

    pub(super) fn platform(&self) -> Platform<'_, HOLD> {
        // SAFETY: the hardware is this memory's alone.
        unsafe { Combined::new(self, self) }
    }

    pub(super) fn before_each_hold(&self, meanwhile: impl Fn(u64) + 'static) {
        *self.meanwhile.borrow_mut() = Box::new(meanwhile);
    }

    /// From here on it is counted.
    pub(super) fn start(&self) {
        self.done.set(Done::default());
    }

    pub(super) fn done(&self) -> Done {
        self.done.get()
    }

    fn count(&self, of: impl FnOnce(&mut Done) -> &mut u64) {
        let mut done = self.done.get();
        *of(&mut done) += 1;
        self.done.set(done);
    }
}

// SAFETY: all is done by the memory in it.
unsafe impl<const HOLD: usize> Memory for Counting<HOLD> {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.count(|done| &mut done.taken);
        self.memory.take()
    }

    fn give(&self, frame: Frame) {
        self.count(|done| &mut done.given);
        self.memory.give(frame);
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.memory.with_slots(frame, level, work)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        self.count(|done| &mut done.loads);
        // SAFETY: the caller's promise.
        unsafe { self.memory.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        self.count(|done| &mut done.stores);
        // SAFETY: the caller's promise.
        unsafe { self.memory.store(slot, new) }
    }
}

/// A lock, until it is dropped.
pub(super) struct Held<'h>(&'h Cell<u32>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.update(|held| held - 1);
    }
}

// SAFETY: no walker and no TLB sees the tables, and no other thread has them. There is no CPU to park.
unsafe impl<const HOLD: usize> Hardware for Counting<HOLD> {
    fn promise(&self) -> Promise {
        Promise { never_aborts: true, range_tlbi: true, repeat_tlbi: false }
    }

    fn dsb(&self, _: Dsb) {
        self.count(|done| &mut done.barriers);
    }

    fn isb(&self) {
        self.count(|done| &mut done.barriers);
    }

    fn tlbi(&self, _: Tlbi, _: Geometry) {
        self.count(|done| &mut done.tlbis);
    }

    fn sync_code(&self, _: Va, _: u64) {}

    unsafe fn park(&self, memory: &impl Memory, _: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        self.count(|done| &mut done.parked);
        // SAFETY: live tables of this memory, which only this thread has.
        updates.iter().for_each(|update| unsafe { update.carry_out(memory) });
        Ok(())
    }
}

// SAFETY: there is one thread, and what happens meanwhile ends before the lock is held. Readers hold all locks.
unsafe impl<const HOLD: usize> Sharing for Counting<HOLD> {
    const LOCKS: usize = 64;
    const HOLD: usize = HOLD;

    type Held<'h> = Held<'h>;

    fn lock(&self, _: usize) -> Held<'_> {
        if self.held.get() == 0 {
            self.holds.update(|holds| holds + 1);
            (self.meanwhile.borrow())(self.holds.get());
        }
        self.held.update(|held| held + 1);
        self.count(|done| &mut done.locks);
        Held(&self.held)
    }
}
