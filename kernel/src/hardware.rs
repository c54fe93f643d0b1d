//! The CPU as the library sees it: primitives that are counted, the lock, and what was promised.
//!
//! The lock masks interrupts on its CPU, so that a handler never waits for what it has interrupted.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use linmap::arm64::Cpu;
use linmap::{Dsb, Features, Geometry, Hardware, Promise, Tlbi};
use spin::mutex::{SpinMutex, SpinMutexGuard};

/// Everything that CPUs do with live tables goes through here.
pub(crate) static HARDWARE: Kernel = Kernel {
    cpu: Cpu::new(),
    never_aborts: AtomicBool::new(false),
    range_tlbi: AtomicBool::new(false),
    repeat_tlbi: AtomicBool::new(false),
};

/// The lock on live tables.
static TABLES: SpinMutex<()> = SpinMutex::new(());

/// The CPUs of this system.
pub(crate) struct Kernel {
    pub(crate) cpu: Cpu,
    never_aborts: AtomicBool,
    range_tlbi: AtomicBool,
    repeat_tlbi: AtomicBool,
}

impl Kernel {
    /// Relies on what the boot CPU has, from now on. No other CPU runs.
    pub(crate) fn rely_on(&self, features: &Features, never_aborts: bool) {
        self.never_aborts.store(never_aborts, Relaxed);
        self.range_tlbi.store(features.has_range_tlbi(), Relaxed);
        self.repeat_tlbi.store(features.needs_repeated_tlbi(), Relaxed);
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
        Promise {
            never_aborts: self.never_aborts.load(Relaxed),
            range_tlbi: self.range_tlbi.load(Relaxed),
            repeat_tlbi: self.repeat_tlbi.load(Relaxed),
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
