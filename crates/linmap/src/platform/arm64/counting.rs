//! A CPU that counts the primitives it uses, for measurements.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Cpu, Uses};
use crate::format::{Geometry, Tlbi, Va};
use crate::platform::cache::CacheType;
use crate::platform::hardware::Dsb;

/// A CPU, with one count of each primitive.
///
/// Each CPU has a value of its own. A count is a load and a store, so two CPUs that use the same value lose counts, and so may an
/// interrupt that comes in between. The memory is to be accessed with the same attributes throughout: nothing is counted before the MMU
/// and the caches are on. Use [`Cpu`] until then.
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

    /// Adds primitives that were used elsewhere: by assembly, or by [`Cpu`].
    #[inline]
    pub fn note(&self, uses: Uses) {
        let Uses { tlbi, dsb, isb } = self.uses().and(uses);
        self.tlbi.store(tlbi, Relaxed);
        self.dsb.store(dsb, Relaxed);
        self.isb.store(isb, Relaxed);
    }

    /// Executes and counts a data synchronisation barrier.
    #[inline]
    pub fn dsb(&self, kind: Dsb) {
        count(&self.dsb);
        Cpu.dsb(kind);
    }

    /// Executes and counts a context synchronisation event.
    #[inline]
    pub fn isb(&self) {
        count(&self.isb);
        Cpu.isb();
    }

    /// Issues and counts a TLB invalidation.
    #[inline]
    pub fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        count(&self.tlbi);
        Cpu.tlbi(op, geometry);
    }

    /// Makes code visible to instruction fetch, as [`Cpu::sync_code`] does, and counts the primitives.
    pub fn sync_code(&self, cache: CacheType, va: Va, bytes: u64) {
        self.note(Cpu.sync_code(cache, va, bytes));
    }
}

#[inline]
fn count(uses: &AtomicU64) {
    uses.store(uses.load(Relaxed) + 1, Relaxed);
}
