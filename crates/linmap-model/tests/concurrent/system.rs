//! CPUs that run at the same time, as far as `shuttle` makes them: before each access to a live table, each
//! instruction and each lock another one may come first, or an interrupt.
//!
//! They are parked as in a kernel: those answer that hold no lock, wherever they are, and those that have nothing left
//! to do. Patience has no time here: who parks gives up where waiting cannot help, because another CPU parks as well, or
//! waits for a lock while it holds one. Any other CPU that does not answer is a deadlock, which `shuttle` reports.

use std::cell::{Cell, RefCell};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use linmap::arch::{Descriptor, Level, Tlbi};
use linmap::{
    CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Slot, Va,
};
use linmap_model::{CpuId, Model, OnCpu};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread;

/// The most locks that there are.
const MOST: usize = 64;

/// The number of entries that a hold has at most.
pub(crate) const HOLD: usize = 32;

/// A platform that does everything right, or one thing wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Everything is right.
    Right,
    /// Locks exclude nobody.
    NoLock,
    /// Locks are dropped once stores are visible, before the invalidations.
    LetsGoEarly,
    /// A CPU that waits for a lock does not answer when parked.
    Deaf,
    /// The last CPU takes two of the locks in the other order.
    Turned,
    /// Tables are given back at once, also under readers.
    NoGrace,
    /// CPUs that hold a lock are taken off the map as others are.
    ParksHolders,
}

/// The state that the CPUs share.
pub(crate) struct System<'m> {
    model: &'m Model,
    kind: Kind,
    /// True if callers wait for long operations of others, and are not told that these are busy.
    waits_for_claims: bool,
    /// True if CPUs do not answer when they are called.
    silent: bool,
    tables: Vec<Mutex<()>>,
    /// All CPUs, as bits.
    all: u8,
    /// Those of them that do not use the tables now.
    away: AtomicU8,
    /// Those of them that wait for a lock and hold another.
    stuck: AtomicU8,
    /// True while one CPU waits until all others are parked, and while they are.
    parking: AtomicBool,
    /// The number of calls that have returned, and of those under way.
    returned: AtomicUsize,
    under_way: AtomicUsize,
    waits: Mutex<()>,
    changed: Condvar,
}

/// An observer of the steps of CPUs.
pub(crate) trait Watch<const LOCKS: usize> {
    /// It has just taken a lock.
    fn taken(&self, cpu: &Cpu<'_, LOCKS>);
    /// It is about to store these descriptors into live tables.
    fn stores(&self, cpu: &Cpu<'_, LOCKS>, new: &[(Slot, Descriptor)]);
    /// It is interrupted, with a lock or without.
    fn interrupts(&self, cpu: &Cpu<'_, LOCKS>);
}

/// A CPU of the system.
pub(crate) struct Cpu<'s, const LOCKS: usize> {
    pub(crate) on: OnCpu<'s>,
    system: &'s System<'s>,
    watch: &'s (dyn Watch<LOCKS> + Sync),
    guards: RefCell<Vec<(usize, MutexGuard<'s, ()>)>>,
    /// The number of locks that it holds, whether or not they exclude anybody.
    held: Cell<usize>,
    /// It takes no interrupt.
    masked: Cell<bool>,
    /// The calls that had returned when it took a lock last.
    returned: Cell<usize>,
}

impl<'m> System<'m> {
    pub(crate) fn new(
        model: &'m Model,
        kind: Kind,
        cpus: usize,
        waits_for_claims: bool,
        silent: bool,
    ) -> Self {
        Self {
            model,
            kind,
            waits_for_claims,
            silent,
            tables: (0..MOST).map(|_| Mutex::new(())).collect(),
            all: (1 << cpus) - 1,
            away: AtomicU8::new(0),
            stuck: AtomicU8::new(0),
            parking: AtomicBool::new(false),
            returned: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            waits: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn cpu<'s, const LOCKS: usize>(
        &'s self,
        n: CpuId,
        watch: &'s (dyn Watch<LOCKS> + Sync),
    ) -> Cpu<'s, LOCKS> {
        Cpu {
            on: self.model.cpu(n),
            system: self,
            watch,
            guards: RefCell::default(),
            held: Cell::new(0),
            masked: Cell::new(false),
            returned: Cell::new(0),
        }
    }

    /// Returns the CPU that only looks on.
    pub(crate) fn looks_on(&self) -> OnCpu<'m> {
        self.model.cpu(self.all.count_ones() as CpuId)
    }

    /// Returns an entry of a table as that CPU sees it.
    pub(crate) fn read(&self, slot: Slot) -> Descriptor {
        // SAFETY: the library names entries of its tables, and the model refuses others.
        unsafe { self.looks_on().load(slot) }
    }

    fn waits(&self) -> MutexGuard<'_, ()> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait for a change of the state, after it.
    fn tell(&self) {
        drop(self.waits());
        self.changed.notify_all();
    }

    /// Waits while something holds of the state.
    fn while_so(&self, mut so: impl FnMut() -> bool) {
        drop(self.changed.wait_while(self.waits(), |()| so()));
    }
}

impl<const LOCKS: usize> Cpu<'_, LOCKS> {
    pub(crate) fn number(&self) -> CpuId {
        self.on.number()
    }

    const fn bit(&self) -> u8 {
        1 << self.on.number()
    }

    pub(crate) fn has_lock(&self) -> bool {
        self.held.get() > 0
    }

    pub(crate) fn call_begins(&self) {
        self.system.under_way.fetch_add(1, Relaxed);
    }

    pub(crate) fn call_returns(&self) {
        self.system.under_way.fetch_sub(1, Relaxed);
        self.system.returned.fetch_add(1, Relaxed);
        self.system.tell();
    }

    /// From here on it may be parked.
    pub(crate) fn leaves_tables(&self) {
        self.system.away.fetch_or(self.bit(), Relaxed);
        if self.system.parking.load(Relaxed) {
            self.system.tell();
        }
    }

    /// It goes on, unless it is parked.
    fn comes_back(&self) {
        let system = self.system;
        // To drop the guard lets others come first: another one could park by then.
        let guard = system.parking.load(Relaxed).then(|| {
            let parking = |(): &mut ()| system.parking.load(Relaxed);
            system.changed.wait_while(system.waits(), parking)
        });
        system.away.fetch_and(!self.bit(), Relaxed);
        drop(guard);
    }

    /// Others may come first, or an interrupt.
    pub(crate) fn point(&self) {
        // Nothing but a point where the scheduler may switch: time there is none.
        thread::sleep(Duration::ZERO);
        if self.system.parking.load(Relaxed) && !self.has_lock() && !self.masked.get() {
            self.leaves_tables();
            self.comes_back();
        }
        self.interrupt();
    }

    fn interrupt(&self) {
        if !self.masked.replace(true) {
            self.watch.interrupts(self);
            self.masked.set(false);
        }
    }

    /// Waits until all others are parked, and returns false if that cannot come.
    fn all_are_parked(&self) -> bool {
        let system = self.system;
        if system.parking.swap(true, Relaxed) {
            return false;
        }
        let there =
            || system.kind == Kind::ParksHolders || system.away.load(Relaxed) | self.bit() == system.all;
        system.while_so(|| !there() && system.stuck.load(Relaxed) == 0);
        if !there() {
            self.unparks();
            return false;
        }
        true
    }

    /// Returns what is stored while the others are parked.
    fn updates(&self, rewrites: &[EntryUpdate]) -> Vec<(Slot, Descriptor)> {
        let each = |update: &EntryUpdate, index| {
            let (slot, from) = (Slot { index, ..update.slot() }, Slot { table: update.from(), index });
            (slot, update.of(self.system.read(from)))
        };
        let indices = |update: &EntryUpdate| update.slot().index..update.slot().index + update.count();
        rewrites.iter().flat_map(|update| indices(update).map(move |index| each(update, index))).collect()
    }

    fn unparks(&self) {
        self.system.parking.store(false, Relaxed);
        self.system.tell();
    }

    /// The lock that this CPU takes for a number.
    fn mutex(&self, number: usize) -> usize {
        let last = 1 << (self.number() + 1) > self.system.all;
        match number {
            1 | 2 if self.system.kind == Kind::Turned && last => 3 - number,
            _ => number,
        }
    }
}

/// A lock, held.
pub(crate) struct Held<'c, 's, const LOCKS: usize>(&'c Cpu<'s, LOCKS>, usize);

impl<const LOCKS: usize> Drop for Held<'_, '_, LOCKS> {
    fn drop(&mut self) {
        let cpu = self.0;
        cpu.held.set(cpu.held.get() - 1);
        let guard = {
            let guards = &mut *cpu.guards.borrow_mut();
            guards.iter().position(|g| g.0 == self.1).map(|at| guards.swap_remove(at))
        };
        drop(guard);
    }
}

// SAFETY: the model's CPU does it all, and keeps its promises.
unsafe impl<const LOCKS: usize> Memory for Cpu<'_, LOCKS> {
    fn page_size(&self) -> u64 {
        self.on.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.point();
        self.on.take()
    }

    fn give(&self, frame: Frame) {
        self.point();
        self.on.give(frame);
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.on.with_slots(frame, level, work)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        self.point();
        // SAFETY: the caller's promise.
        unsafe { self.on.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        self.point();
        self.watch.stores(self, &[(slot, new)]);
        // SAFETY: the caller's promise.
        unsafe { self.on.store(slot, new) }
    }
}

// SAFETY:
// - the model's CPU does the instructions, and keeps its promises;
// - the model's CPU parks the others, after all of them have answered.
unsafe impl<'s, const LOCKS: usize> Hardware for Cpu<'s, LOCKS> {
    fn promise(&self) -> Promise {
        self.on.promise()
    }

    fn call(&self) -> Result<(), CannotPark> {
        assert!(!self.has_lock(), "who calls the others holds no lock");
        self.point();
        if self.system.silent { Err(CannotPark) } else { Ok(()) }
    }

    unsafe fn park(
        &self,
        memory: &impl Memory,
        root: Pa,
        rewrites: &[EntryUpdate],
    ) -> Result<(), CannotPark> {
        self.point();
        assert!(self.has_lock(), "who parks has a lock");
        if self.system.silent || !self.all_are_parked() {
            return Err(CannotPark);
        }
        self.watch.stores(self, &self.updates(rewrites));
        self.masked.set(true);
        // SAFETY: the caller's promise.
        let parked = unsafe { self.on.park(memory, root, rewrites) };
        self.masked.set(false);
        self.unparks();
        parked
    }

    fn dsb(&self, kind: Dsb) {
        self.point();
        self.on.dsb(kind);
        if self.system.kind == Kind::LetsGoEarly {
            self.guards.borrow_mut().clear();
        }
    }

    fn isb(&self) {
        self.point();
        self.on.isb();
    }

    fn sync_code(&self, _: Va, _: u64) {}

    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.point();
        self.on.tlbi(op, geometry);
    }
}

// SAFETY: locks are mutexes, unless a test breaks them on purpose: the tables are a model's, which suffers nothing by it but its
// verdict. Readers and retired pages are the model's, in the same way.
unsafe impl<'s, const LOCKS: usize> Sharing for Cpu<'s, LOCKS> {
    const LOCKS: usize = LOCKS;
    const HOLD: usize = HOLD;

    type Held<'h>
        = Held<'h, 's, LOCKS>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> Held<'_, 's, LOCKS> {
        self.interrupt();
        assert!(!self.masked.get(), "a fault handler waits for a lock");
        let (system, others) = (self.system, self.has_lock());
        match others {
            true => {
                system.stuck.fetch_or(self.bit(), Relaxed);
                system.tell();
            }
            false if system.kind != Kind::Deaf => self.leaves_tables(),
            false => {}
        }
        if system.kind != Kind::NoLock {
            let number = self.mutex(number);
            let guard = system.tables[number].lock().unwrap_or_else(PoisonError::into_inner);
            self.guards.borrow_mut().push((number, guard));
        }
        match others {
            true => _ = system.stuck.fetch_and(!self.bit(), Relaxed),
            false => self.comes_back(),
        }
        self.held.set(self.held.get() + 1);
        self.returned.set(system.returned.load(Relaxed));
        self.watch.taken(self);
        Held(self, self.mutex(number))
    }

    fn wait(&self) -> bool {
        assert!(!self.has_lock(), "who waits for another caller holds no lock");
        let system = self.system;
        self.point();
        if !system.waits_for_claims {
            return false;
        }
        self.leaves_tables();
        let seen = self.returned.get();
        system.while_so(|| system.returned.load(Relaxed) == seen && system.under_way.load(Relaxed) > 1);
        self.comes_back();
        true
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.point();
        self.on.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        match self.system.kind {
            Kind::NoGrace => memory.give(frame),
            _ => self.on.retire(memory, frame),
        }
    }
}
