//! The CPU as the library sees it: primitives that are counted, the lock, and what was promised.
//!
//! The lock masks interrupts on its CPU, so that a handler never waits for what it has interrupted. A CPU that
//! waits for it asks in between whether another one parks it.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use linmap::arm64::Counting;
use linmap::{
    CacheType, CanNotPark, Dsb, Features, Geometry, Hardware, Memory, Pa, Promise, Rewrite, Tlbi, Va,
};

use crate::lock::{Lock, Taken};
use crate::parking;

/// Everything that CPUs do with live tables goes through here.
pub(crate) static HARDWARE: Kernel = Kernel {
    cpu: Counting::new(),
    promise: AtomicU8::new(0),
    // As if caches needed everything, by the smallest lines, until somebody says what they are.
    cache: AtomicU64::new(0),
};

/// The lock on live tables.
static TABLES: Lock = Lock::new();

/// The CPUs of this system.
pub(crate) struct Kernel {
    pub(crate) cpu: Counting,
    /// The bits below.
    promise: AtomicU8,
    /// A [`CacheType`], of the weakest of the CPUs that were let in.
    cache: AtomicU64,
}

const NEVER_ABORTS: u8 = 1 << 0;
const RANGE_TLBI: u8 = 1 << 1;
const REPEAT_TLBI: u8 = 1 << 2;

impl Kernel {
    /// Relies on what the boot CPU has, from now on. No other CPU runs.
    pub(crate) fn rely_on(&self, features: &Features, never_aborts: bool) {
        self.promise_from_now_on(Promise {
            never_aborts,
            range_tlbi: features.has_range_tlbi(),
            repeat_tlbi: features.needs_repeated_tlbi(),
        });
        self.sync_code_for(features.cache_type());
    }

    /// Makes code visible, from now on, as CPUs with these caches need it.
    pub(crate) fn sync_code_for(&self, cache: CacheType) {
        self.cache.store(cache.bits(), Relaxed);
    }

    /// What the caches of the CPUs need that were let in.
    pub(crate) fn cache(&self) -> CacheType {
        CacheType::of(self.cache.load(Relaxed))
    }

    /// Promises this from the next operation on: what holds on each CPU that uses the tables, and on one that
    /// is about to.
    pub(crate) fn promise_from_now_on(&self, promise: Promise) {
        self.with_promise(promise, || {});
    }

    /// The same; what else changes between two operations changes with it.
    pub(crate) fn with_promise(&self, promise: Promise, change: impl FnOnce()) {
        let bit = |bit, holds| if holds { bit } else { 0 };
        let Promise { never_aborts, range_tlbi, repeat_tlbi } = promise;
        let bits =
            bit(NEVER_ABORTS, never_aborts) | bit(RANGE_TLBI, range_tlbi) | bit(REPEAT_TLBI, repeat_tlbi);
        let _held = self.lock();
        self.promise.store(bits, Relaxed);
        change();
    }
}

/// The lock, held; interrupts are masked.
pub(crate) struct Held {
    /// Released first.
    _tables: Taken<'static>,
    /// Restored then.
    _interrupts: Masked,
}

/// Interrupts are masked until this is dropped.
pub(crate) struct Masked {
    daif: u64,
}

impl Masked {
    #[inline]
    pub(crate) fn new() -> Self {
        let daif: u64;
        // SAFETY: masking interrupts makes nothing happen that would not have happened otherwise.
        unsafe {
            asm!("mrs {}, daif", "msr daifset, #0xf", out(reg) daif, options(nostack, preserves_flags));
        }
        Self { daif }
    }
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: back to what it was.
        unsafe {
            asm!("msr daif, {}", in(reg) self.daif, options(nostack, preserves_flags));
        }
    }
}

// SAFETY:
// - each primitive is the instruction, in assembly that no access to memory is moved across;
// - the lock is a spin lock that one context of all CPUs has at a time, and masks interrupts; taking it
//   acquires what giving it back released;
// - the promise is the boot CPU's at first; what of it another CPU does not keep is given up, under the lock,
//   before that CPU is let into the tables (`smp`), and operations read it under the lock;
// - code is synchronised for the weakest of the CPUs that were let in; each drops its instruction cache on the way
//   (`secondary.s`), and all are here before any code is synchronised;
// - `park` is `parking`, whose account is there;
// - TCR_EL1.HA and HD are 0 in all that `boot` makes, and all CPUs have the same.
unsafe impl Hardware for Kernel {
    type Held<'h> = Held;

    #[inline]
    fn lock(&self) -> Held {
        let _interrupts = Masked::new();
        Held { _tables: TABLES.lock(), _interrupts }
    }

    #[inline]
    fn try_lock(&self) -> Option<Held> {
        let _interrupts = Masked::new();
        Some(Held { _tables: TABLES.try_lock()?, _interrupts })
    }

    #[inline]
    fn promise(&self) -> Promise {
        let promise = self.promise.load(Relaxed);
        Promise {
            never_aborts: promise & NEVER_ABORTS != 0,
            range_tlbi: promise & RANGE_TLBI != 0,
            repeat_tlbi: promise & REPEAT_TLBI != 0,
        }
    }

    fn park(&self, _: &impl Memory, root: Pa, rewrites: &[Rewrite]) -> Result<(), CanNotPark> {
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
