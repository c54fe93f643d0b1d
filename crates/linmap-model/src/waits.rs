//! The steps for which an invalidation waits after the DSB that completes it.

use crate::CpuId;

/// A step for which an invalidation waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// A second invalidation by the same CPU, and a DSB (CVE-2025-10263 and older errata).
    Repeat(CpuId),
    /// A context synchronisation event on the CPU that issued it, whose own accesses may use the entry
    /// until then (D8.17.8 RBLDZX). For break-before-make it is gone (D8.17.1 RDDMVT).
    Isb(CpuId),
}

/// The steps for which the invalidations of one entry wait, if several CPUs have issued some. The first step drops the
/// entry: a complete invalidation does not depend on those that other CPUs have begun meanwhile (D8.17.8).
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

    /// Returns true if the TLB holds the entry no more, and only accesses under way on its CPU may use it.
    pub(crate) const fn is_gone_but_for_isb(self) -> bool {
        self.isbs != 0
    }
}

/// A completed invalidation: the CPU that issued it, and those that it is for.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) issuer: CpuId,
    /// The CPUs whose TLBs drop the entries.
    pub(crate) cpus: u8,
    /// Those of them that need a second invalidation.
    pub(crate) lingering: u8,
    pub(crate) now: usize,
}

impl Completion {
    /// Returns true if an entry on some CPUs waits for exactly this already.
    pub(crate) fn waits_already(&self, cpus: u8, waits: Waits) -> bool {
        let late = self.late(cpus);
        let known = late.iter().all(|(holders, wait)| *holders == 0 || waits.has(*wait));
        known && late[0].0 | late[1].0 == cpus
    }

    /// Returns those of some CPUs that drop an entry later than with the DSB, and the steps for which they wait.
    pub(crate) fn late(&self, cpus: u8) -> [(u8, Wait); 2] {
        let own = 1 << self.issuer;
        let repeat = (cpus & self.lingering & !own, Wait::Repeat(self.issuer));
        [repeat, (cpus & own, Wait::Isb(self.issuer))]
    }
}
