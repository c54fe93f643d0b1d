//! What an invalidation waits for after the DSB that completes it.

use crate::CpuId;

/// One thing that an invalidation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// One more by the same CPU, and a DSB (CVE-2025-10263 and older errata).
    Repeat(CpuId),
    /// A context synchronisation event on the CPU that issued it, whose own accesses may use the entry
    /// until then (D8.17.8 RBLDZX). For break-before-make it is gone (D8.17.1 RDDMVT).
    Isb(CpuId),
}

/// What the invalidations of one entry wait for, if several CPUs have issued some. The first that comes takes
/// the entry away: an invalidation that is complete is so whatever another CPU has begun meanwhile (D8.17.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waits {
    /// CPUs, as bits.
    repeats: u8,
    isbs: u8,
}

impl Waits {
    pub(crate) const NONE: Self = Self { repeats: 0, isbs: 0 };

    pub(crate) const fn and(self, wait: Wait) -> Self {
        match wait {
            Wait::Repeat(cpu) => Self { repeats: self.repeats | 1 << cpu, ..self },
            Wait::Isb(cpu) => Self { isbs: self.isbs | 1 << cpu, ..self },
        }
    }

    pub(crate) fn has(self, wait: Wait) -> bool {
        self.and(wait) == self
    }

    /// The TLB itself holds the entry no more; only what is under way on its CPU may use it.
    pub(crate) const fn is_gone_but_for_isb(self) -> bool {
        self.isbs != 0
    }
}

/// Who completes an invalidation, on whom.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) issuer: CpuId,
    /// The CPUs whose TLBs it empties.
    pub(crate) cpus: u8,
    /// Those of them on which it takes another one.
    pub(crate) lingering: u8,
    pub(crate) now: usize,
}

impl Completion {
    /// Whether an entry on some CPUs waits for just this already.
    pub(crate) fn waits_already(&self, cpus: u8, waits: Waits) -> bool {
        let late = self.late(cpus);
        let known = late.iter().all(|(holders, wait)| *holders == 0 || waits.has(*wait));
        known && late[0].0 | late[1].0 == cpus
    }

    /// Which of some CPUs lose an entry later than with the DSB, and what it waits for.
    pub(crate) fn late(&self, cpus: u8) -> [(u8, Wait); 2] {
        let own = 1 << self.issuer;
        let repeat = (cpus & self.lingering & !own, Wait::Repeat(self.issuer));
        [repeat, (cpus & own, Wait::Isb(self.issuer))]
    }
}
