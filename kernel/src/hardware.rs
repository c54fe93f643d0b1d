//! The CPU as the library sees it: primitives that are counted, the lock, and what was promised.
//!
//! The lock masks interrupts on its CPU, so that a handler never waits for what it has interrupted.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use linmap::arm64::Cpu;
use linmap::{Dsb, Features, Geometry, Hardware, Promise, Tlbi};
use spin::mutex::{SpinMutex, SpinMutexGuard};

/// Everything that CPUs do with live tables goes through here.
pub(crate) static HARDWARE: Kernel = Kernel { cpu: Cpu::new(), promise: AtomicU8::new(0) };

/// The lock on live tables.
static TABLES: SpinMutex<()> = SpinMutex::new(());

/// The CPUs of this system.
pub(crate) struct Kernel {
    pub(crate) cpu: Cpu,
    /// The bits below.
    promise: AtomicU8,
}

const NEVER_ABORTS: u8 = 1 << 0;
const RANGE_TLBI: u8 = 1 << 1;
const REPEAT_TLBI: u8 = 1 << 2;

impl Kernel {
    /// Relies on what the boot CPU has, from now on. No other CPU runs.
    pub(crate) fn rely_on(&self, features: &Features, never_aborts: bool) {
        let bit = |bit, holds| if holds { bit } else { 0 };
        let promise = bit(NEVER_ABORTS, never_aborts)
            | bit(RANGE_TLBI, features.has_range_tlbi())
            | bit(REPEAT_TLBI, features.needs_repeated_tlbi());
        self.promise.store(promise, Relaxed);
    }
}

/// The lock, held; interrupts are masked.
pub(crate) struct Held {
    /// Released first.
    _tables: SpinMutexGuard<'static, ()>,
    /// Restored then.
    _interrupts: Masked,
}

/// Interrupts are masked until this is dropped.
struct Masked {
    daif: u64,
}

impl Masked {
    #[inline]
    fn new() -> Self {
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
// - the lock is a spin lock that one context has at a time, and masks interrupts;
// - the promise is that of the boot CPU, which is the only one that runs.
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

    #[inline]
    fn dsb(&self, kind: Dsb) {
        self.cpu.dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        self.cpu.isb();
    }

    #[inline]
    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.cpu.tlbi(op, geometry);
    }
}
