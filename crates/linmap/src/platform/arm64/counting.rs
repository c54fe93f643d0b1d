//! A CPU that counts the primitives it uses, for measurements.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Cpu, Uses};
use crate::format::{Geometry, Tlbi, Va};
use crate::platform::cache::CacheType;
use crate::platform::hardware::Dsb;

/// All CPUs that use this value, with one count of each primitive for all of them.
///
/// A count is an atomic addition, which is made of exclusives on CPUs without atomic instructions. On memory that is
/// not cacheable these may fault or never succeed (Arm ARM B2.12.2), so nothing may be counted before the MMU and the
/// data cache are on. Use [`Cpu`] until then.
#[derive(Debug, Default)]
pub struct Counting {
    tlbi: AtomicU64,
    dsb: AtomicU64,
    isb: AtomicU64,
}

impl Counting {
    /// Returns a value with all counts zero.
    pub const fn new() -> Self {
        Self { tlbi: AtomicU64::new(0), dsb: AtomicU64::new(0), isb: AtomicU64::new(0) }
    }

    /// Returns the counts so far.
    pub fn uses(&self) -> Uses {
        let Self { tlbi, dsb, isb } = self;
        Uses { tlbi: tlbi.load(Relaxed), dsb: dsb.load(Relaxed), isb: isb.load(Relaxed) }
    }

    /// Adds primitives that were used elsewhere: by assembly, or by CPUs that do not count.
    pub fn note(&self, uses: Uses) {
        self.tlbi.fetch_add(uses.tlbi, Relaxed);
        self.dsb.fetch_add(uses.dsb, Relaxed);
        self.isb.fetch_add(uses.isb, Relaxed);
    }

    /// Executes and counts a data synchronisation barrier.
    #[inline]
    pub fn dsb(&self, kind: Dsb) {
        self.dsb.fetch_add(1, Relaxed);
        Cpu.dsb(kind);
    }

    /// Executes and counts a context synchronisation event.
    #[inline]
    pub fn isb(&self) {
        self.isb.fetch_add(1, Relaxed);
        Cpu.isb();
    }

    /// Issues and counts a TLB invalidation.
    #[inline]
    pub fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.tlbi.fetch_add(1, Relaxed);
        Cpu.tlbi(op, geometry);
    }

    /// Makes code visible to instruction fetch, as [`Cpu::sync_code`] does, and counts the primitives.
    pub fn sync_code(&self, cache: CacheType, va: Va, bytes: u64) {
        self.note(Cpu.sync_code(cache, va, bytes));
    }
}
