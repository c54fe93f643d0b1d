//! The CPUs as the library sees them: the lock on live tables, parking, and the primitives.
//!
//! The holder of the lock has interrupts masked, so that no handler waits for what it has interrupted. A CPU that waits
//! for it answers others that park it, as the holder may.

use linmap::{CannotPark, Dsb, EntryUpdate, Features, Geometry, Hardware, Memory, Pa, Promise, Tlbi, Va};

pub(crate) use crate::cpus::{HARDWARE, Kernel, Masked};
use crate::lock::{Lock, Taken};
use crate::parking;

/// The lock on live tables.
static TABLES: Lock = Lock::new(parking::answer_if_asked);

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
    let _held = HARDWARE.lock(0);
    HARDWARE.set_promised(promise);
    change();
}

/// The lock, held; interrupts are masked.
pub(crate) struct Held {
    /// Released first.
    _tables: Taken<'static>,
    /// Restored then.
    _interrupts: Masked,
}

// SAFETY:
// - each primitive is the instruction, in assembly that no access to memory is moved across;
// - the lock is a spin lock that one context of all CPUs holds at a time, with interrupts masked; taking it
//   acquires what releasing it released;
// - the promise is the boot CPU's at first; a part of it that another CPU does not keep is given up, under the lock,
//   before that CPU is let into the tables (`smp`), and operations read it under the lock;
// - code is synchronised for the weakest of the CPUs that were let in; each invalidates its instruction cache on the
//   way in (`secondary.s`), and all are in before any code is synchronised;
// - `park` is `parking`, which gives its reasons;
// - TCR_EL1.HA and HD are 0 in all that `translation` makes, and all CPUs have the same.
unsafe impl Hardware for Kernel {
    type Held<'h> = Held;

    #[inline]
    fn lock(&self, _: usize) -> Held {
        let _interrupts = Masked::new();
        Held { _tables: TABLES.lock(), _interrupts }
    }

    #[inline]
    fn promise(&self) -> Promise {
        self.promised()
    }

    fn park(&self, _: &impl Memory, root: Pa, rewrites: &[EntryUpdate]) -> Result<(), CannotPark> {
        parking::park(root, rewrites)
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
