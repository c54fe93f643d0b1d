//! All CPUs of the system as one: their primitives, counted, and what holds on each of them.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use linmap::arch::Tlbi;
use linmap::arm64::{Counting, Uses};
use linmap::cpu::CacheType;
use linmap::{Dsb, Geometry, Promise, Va};

use crate::cpu;

/// The CPUs. All that they do with live tables goes through here.
pub(crate) static HARDWARE: Kernel = Kernel {
    cpu: Counted::new(),
    promise: AtomicU8::new(0),
    // As if caches needed everything, by the smallest lines, until the boot CPU has said what they need.
    cache: AtomicU64::new(0),
};

/// The CPUs of this system.
pub(crate) struct Kernel {
    pub(crate) cpu: Counted,
    /// The bits below.
    promise: AtomicU8,
    /// A [`CacheType`], of the weakest of the CPUs that were let in.
    cache: AtomicU64,
}

/// The primitives of all CPUs. Each counts on a line of its own, so that no CPU waits for another one's count.
pub(crate) struct Counted([Line; cpu::MAX]);

#[repr(align(64))]
struct Line(Counting);

impl Counted {
    const fn new() -> Self {
        Self([const { Line(Counting::new()) }; cpu::MAX])
    }

    /// The counts of the CPU that runs this.
    #[inline]
    fn own(&self) -> &Counting {
        &self.0[cpu::this().index].0
    }

    /// Returns the counts of all CPUs so far.
    pub(crate) fn uses(&self) -> Uses {
        self.0.iter().map(|line| line.0.uses()).fold(Uses::default(), Uses::and)
    }

    pub(crate) fn note(&self, uses: Uses) {
        self.own().note(uses);
    }

    #[inline]
    pub(crate) fn dsb(&self, kind: Dsb) {
        self.own().dsb(kind);
    }

    #[inline]
    pub(crate) fn isb(&self) {
        self.own().isb();
    }

    #[inline]
    pub(crate) fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.own().tlbi(op, geometry);
    }

    pub(crate) fn sync_code(&self, cache: CacheType, va: Va, bytes: u64) {
        self.own().sync_code(cache, va, bytes);
    }
}

const NEVER_ABORTS: u8 = 1 << 0;
const RANGE_TLBI: u8 = 1 << 1;
const REPEAT_TLBI: u8 = 1 << 2;

impl Kernel {
    /// Synchronises code as CPUs with these caches need it, from now on.
    pub(crate) fn sync_code_for(&self, cache: CacheType) {
        self.cache.store(cache.bits(), Relaxed);
    }

    /// Returns what the caches of the CPUs need that were let in.
    pub(crate) fn cache(&self) -> CacheType {
        CacheType::of(self.cache.load(Relaxed))
    }

    /// Returns what holds on each CPU that uses the tables.
    #[inline]
    pub(crate) fn promised(&self) -> Promise {
        let promise = self.promise.load(Relaxed);
        Promise {
            never_aborts: promise & NEVER_ABORTS != 0,
            range_tlbi: promise & RANGE_TLBI != 0,
            repeat_tlbi: promise & REPEAT_TLBI != 0,
        }
    }

    /// Sets what holds on each CPU. The caller holds all locks on live tables.
    pub(crate) fn set_promised(&self, promise: Promise) {
        let bit = |bit, holds| if holds { bit } else { 0 };
        let Promise { never_aborts, range_tlbi, repeat_tlbi } = promise;
        let bits =
            bit(NEVER_ABORTS, never_aborts) | bit(RANGE_TLBI, range_tlbi) | bit(REPEAT_TLBI, repeat_tlbi);
        self.promise.store(bits, Relaxed);
    }
}

/// Interrupts of this CPU, masked until this is dropped.
pub(crate) struct Masked {
    daif: u64,
}

impl Masked {
    /// Masks all interrupts of the CPU that runs this.
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
        // SAFETY: this restores what was before.
        unsafe {
            asm!("msr daif, {}", in(reg) self.daif, options(nostack, preserves_flags));
        }
    }
}
