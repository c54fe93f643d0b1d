//! A CPU that counts what it does, for windows and benchmarks.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Cpu, Uses};
use crate::format::{Geometry, Tlbi, Va};
use crate::platform::cache::CacheType;
use crate::platform::hardware::Dsb;

/// The CPUs that use it, with one count of every primitive for all of them.
///
/// Counts are atomic additions: exclusives, where the CPU has no others. On memory that is not cacheable these may
/// fault, or never succeed (Arm ARM B2.12.2), so nothing is counted before the MMU and the data cache are on: that is
/// what [`Cpu`] alone is for.
#[derive(Debug, Default)]
pub struct Counting {
    tlbi: AtomicU64,
    dsb: AtomicU64,
    isb: AtomicU64,
}

impl Counting {
    /// CPUs of which nothing has been used yet.
    pub const fn new() -> Self {
        Self { tlbi: AtomicU64::new(0), dsb: AtomicU64::new(0), isb: AtomicU64::new(0) }
    }

    /// What has been used so far.
    pub fn uses(&self) -> Uses {
        let Self { tlbi, dsb, isb } = self;
        Uses { tlbi: tlbi.load(Relaxed), dsb: dsb.load(Relaxed), isb: isb.load(Relaxed) }
    }

    /// Counts primitives that were used otherwise: by assembly, or by other CPUs that do not count themselves.
    pub fn note(&self, uses: Uses) {
        self.tlbi.fetch_add(uses.tlbi, Relaxed);
        self.dsb.fetch_add(uses.dsb, Relaxed);
        self.isb.fetch_add(uses.isb, Relaxed);
    }

    /// A data synchronisation barrier.
    #[inline]
    pub fn dsb(&self, kind: Dsb) {
        self.dsb.fetch_add(1, Relaxed);
        Cpu.dsb(kind);
    }

    /// A context synchronisation event.
    #[inline]
    pub fn isb(&self) {
        self.isb.fetch_add(1, Relaxed);
        Cpu.isb();
    }

    /// A TLB invalidation.
    #[inline]
    pub fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.tlbi.fetch_add(1, Relaxed);
        Cpu.tlbi(op, geometry);
    }

    /// Makes code visible to instruction fetch, as [`Cpu::sync_code`] does.
    pub fn sync_code(&self, cache: CacheType, va: Va, bytes: u64) {
        self.note(Cpu.sync_code(cache, va, bytes));
    }
}
