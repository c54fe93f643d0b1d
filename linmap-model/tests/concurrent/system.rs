//! CPUs that run at the same time, as far as `shuttle` makes them: before each access to a live table,
//! each instruction and the lock, another one may come first, or an interrupt.
//!
//! They are parked as in a kernel: those that wait for the lock answer, and those that have nothing left to do. A CPU
//! that waits for anything else meanwhile is a deadlock, which `shuttle` reports.

use std::cell::{Cell, RefCell};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use linmap::{
    CannotPark, Descriptor, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Slot, Tlbi, Va,
};
use linmap_model::{CpuId, Model, OnCpu};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread;

/// The kind of the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    /// It excludes others until it is dropped.
    Excludes,
    /// Nothing.
    Ignored,
    /// It is dropped once stores are visible, before the invalidations.
    LetsGoEarly,
    /// It excludes others, but a CPU that waits for it does not answer when parked.
    Deaf,
}

/// The state that the CPUs share.
pub(crate) struct System<'m> {
    model: &'m Model,
    lock: Lock,
    tables: Mutex<()>,
    /// All CPUs, as bits.
    all: u8,
    /// Those of them that do not use the tables now.
    away: AtomicU8,
    /// True while one CPU waits until all others are parked.
    parking: AtomicBool,
    waits: Mutex<()>,
    answered: Condvar,
}

/// An observer of the steps of CPUs.
pub(crate) trait Watch {
    /// It has just taken the lock.
    fn taken(&self, cpu: &Cpu<'_>);
    /// It is about to drop the lock.
    fn leaves(&self, cpu: &Cpu<'_>);
    /// It is interrupted, with the lock or without.
    fn interrupts(&self, cpu: &Cpu<'_>);
}

/// A CPU of the system.
pub(crate) struct Cpu<'s> {
    pub(crate) on: OnCpu<'s>,
    system: &'s System<'s>,
    watch: &'s dyn Watch,
    guard: RefCell<Option<MutexGuard<'s, ()>>>,
    /// It takes no interrupt.
    masked: Cell<bool>,
}

impl<'m> System<'m> {
    pub(crate) fn new(model: &'m Model, lock: Lock, cpus: usize) -> Self {
        Self {
            model,
            lock,
            tables: Mutex::new(()),
            all: (1 << cpus) - 1,
            away: AtomicU8::new(0),
            parking: AtomicBool::new(false),
            waits: Mutex::new(()),
            answered: Condvar::new(),
        }
    }

    pub(crate) fn cpu<'s>(&'s self, n: CpuId, watch: &'s dyn Watch) -> Cpu<'s> {
        let (guard, masked) = (RefCell::new(None), Cell::new(false));
        Cpu { on: self.model.cpu(n), system: self, watch, guard, masked }
    }
}

impl Cpu<'_> {
    pub(crate) fn number(&self) -> CpuId {
        self.on.number()
    }

    pub(crate) fn has_lock(&self) -> bool {
        self.guard.borrow().is_some()
    }

    /// From here on it may be parked, until it has the lock.
    pub(crate) fn leaves_tables(&self) {
        self.system.away.fetch_or(1 << self.number(), Relaxed);
        if self.system.parking.load(Relaxed) {
            // Who parks has looked before, and waits.
            drop(self.system.waits.lock());
            self.system.answered.notify_all();
        }
    }

    /// Others may come first, or an interrupt.
    pub(crate) fn point(&self) {
        // Nothing but a point where the scheduler may switch: time there is none.
        thread::sleep(Duration::ZERO);
        self.interrupt();
    }

    fn interrupt(&self) {
        if !self.masked.replace(true) {
            self.watch.interrupts(self);
            self.masked.set(false);
        }
    }
}

/// The lock, held.
pub(crate) struct Held<'c, 's>(&'c Cpu<'s>);

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        let cpu = self.0;
        if !cpu.masked.get() && cpu.has_lock() && !std::thread::panicking() {
            cpu.watch.leaves(cpu);
        }
        drop(cpu.guard.take());
    }
}

// SAFETY: the model's CPU does it all, and keeps its promises.
unsafe impl Memory for Cpu<'_> {
    fn page_size(&self) -> u64 {
        self.on.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.on.take()
    }

    fn give(&self, frame: Frame) {
        self.point();
        self.on.give(frame);
    }

    fn slots<'f>(&self, frame: &'f mut Frame) -> &'f mut [u64] {
        self.on.slots(frame)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        self.point();
        // SAFETY: the caller's promise.
        unsafe { self.on.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        self.point();
        // SAFETY: the caller's promise.
        unsafe { self.on.store(slot, new) }
    }
}

// SAFETY:
// - the model's CPU does the instructions, and keeps its promises;
// - the lock is a mutex, but where a test has it that it is broken: the tables are a model's, which suffers
//   nothing by it but its verdict;
// - the model's CPU parks the others, after all of them have answered.
unsafe impl<'s> Hardware for Cpu<'s> {
    type Held<'h>
        = Held<'h, 's>
    where
        Self: 'h;

    fn lock(&self, _: usize) -> Held<'_, 's> {
        self.interrupt();
        if self.system.lock != Lock::Deaf {
            self.leaves_tables();
        }
        if self.system.lock != Lock::Ignored {
            let guard = self.system.tables.lock().unwrap_or_else(PoisonError::into_inner);
            self.guard.replace(Some(guard));
        }
        self.system.away.fetch_and(!(1 << self.number()), Relaxed);
        self.watch.taken(self);
        Held(self)
    }

    fn promise(&self) -> Promise {
        self.on.promise()
    }

    fn park(&self, memory: &impl Memory, root: Pa, rewrites: &[EntryUpdate]) -> Result<(), CannotPark> {
        self.point();
        assert!(self.has_lock(), "who parks has the lock");
        let (system, this) = (self.system, 1 << self.number());
        let waits = system.waits.lock().unwrap_or_else(PoisonError::into_inner);
        system.parking.store(true, Relaxed);
        drop(system.answered.wait_while(waits, |()| system.away.load(Relaxed) | this != system.all));
        system.parking.store(false, Relaxed);
        self.masked.set(true);
        let parked = self.on.park(memory, root, rewrites);
        self.masked.set(false);
        parked
    }

    fn dsb(&self, kind: Dsb) {
        self.point();
        self.on.dsb(kind);
        if self.system.lock == Lock::LetsGoEarly {
            drop(self.guard.take());
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
