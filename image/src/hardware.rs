//! The CPUs as the library sees them: the locks on live tables, parking, and the primitives.
//!
//! The holder of a lock has interrupts masked, so that no handler waits for what it has interrupted. A CPU that waits
//! for one answers others that park it, as the holder may.

use linmap::arch::Tlbi;
use linmap::cpu::Features;
use linmap::{CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Va};

use crate::cpu::relax;
pub(crate) use crate::cpus::{HARDWARE, Kernel, Masked};
use crate::lock::{Lock, Taken};
use crate::{limbo, parking};

/// The number of locks.
const LOCKS: usize = 64;

/// A lock that shares its cache line, and the one that a CPU may fetch with it, with nothing else.
#[repr(align(128))]
struct Apart(Lock);

/// The locks on live tables, by number.
static TABLES: [Apart; LOCKS] = [const { Apart(Lock::new(parking::answer_if_asked)) }; LOCKS];

/// Relies on what the boot CPU has, from now on. No other CPU runs.
pub(crate) fn rely_on(features: &Features, never_aborts: bool) {
    promise_from_now_on(Promise {
        never_aborts,
        range_tlbi: features.has_range_tlbi(),
        repeat_tlbi: features.needs_repeated_tlbi(),
    });
    HARDWARE.sync_code_for(features.cache_type());
}

/// Promises this from the next operation on. It holds on each CPU that uses the tables and on one that is about to.
pub(crate) fn promise_from_now_on(promise: Promise) {
    with_promise(promise, || {});
}

/// Does the same, and makes another change between the same two operations.
pub(crate) fn with_promise(promise: Promise, change: impl FnOnce()) {
    let _held = lock_all();
    HARDWARE.set_promised(promise);
    change();
}

/// A lock, held; interrupts are masked.
pub(crate) struct Held {
    /// Released first.
    _tables: Taken<'static>,
    /// Restored then.
    _interrupts: Masked,
}

/// Takes a lock on live tables if it is free and no CPU waits for it.
#[inline]
pub(crate) fn try_lock(number: usize) -> Option<Held> {
    let _interrupts = Masked::new();
    Some(Held { _tables: TABLES[number % LOCKS].0.try_lock()?, _interrupts })
}

/// All locks, held.
pub(crate) struct AllHeld {
    /// Released first. Each then leaves interrupts masked, as it has found them.
    _tables: [Held; LOCKS],
    /// Restored then.
    _interrupts: Masked,
}

/// Takes all locks, in the order of their numbers: no operation on live tables is under way until they are dropped.
pub(crate) fn lock_all() -> AllHeld {
    let _interrupts = Masked::new();
    AllHeld { _tables: core::array::from_fn(|number| HARDWARE.lock(number)), _interrupts }
}

// SAFETY:
// - each primitive is the instruction, in assembly that no access to memory is moved across;
// - the promise is the boot CPU's at first; a part of it that another CPU does not keep is given up, under all locks,
//   before that CPU is let into the tables (`smp`), and operations read it under a lock;
// - code is synchronised for the weakest of the CPUs that were let in; each invalidates its instruction cache on the
//   way in (`secondary.s`), and all are in before any code is synchronised;
// - `park` is `parking`, which gives its reasons;
// - walkers find nothing to write where TCR_EL1.HA and HD are set (`translation`): the upper half expects hardware updates
//   from its first moment, and what is created has its access flags and is not writable-clean, which `report` checks.
unsafe impl Hardware for Kernel {
    #[inline]
    fn promise(&self) -> Promise {
        self.promised()
    }

    fn call(&self) -> Result<(), CannotPark> {
        parking::call()
    }

    unsafe fn park(&self, _: &impl Memory, root: Pa, rewrites: &[EntryUpdate]) -> Result<(), CannotPark> {
        // SAFETY: the caller's promise.
        unsafe { parking::park(root, rewrites) }
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        self.cpu.dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        self.cpu.isb();
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.cpu.sync_code(self.cache(), va, bytes);
    }

    #[inline]
    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.cpu.tlbi(op, geometry);
    }
}

// SAFETY: each lock is a spin lock that one context of all CPUs holds at a time, with interrupts masked. Taking it acquires what
// releasing it released. A page that was a table is given back by `limbo`, when each section that was open has ended.
unsafe impl Sharing for Kernel {
    const LOCKS: usize = LOCKS;
    const HOLD: usize = 1024;

    type Held<'h> = Held;

    #[inline]
    fn lock(&self, number: usize) -> Held {
        let _interrupts = Masked::new();
        Held { _tables: TABLES[number % LOCKS].0.lock(), _interrupts }
    }

    fn wait(&self) -> bool {
        parking::answer_if_asked();
        relax();
        true
    }

    #[inline]
    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        limbo::read(work)
    }

    #[inline]
    fn retire(&self, memory: &impl Memory, frame: Frame) {
        limbo::retire(memory, frame);
    }
}
