//! The cost of splits, by reason: the leaves that became tables, and the TLB entries that it takes since then.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::platform::Reason;

/// The cost of the splits for one reason since the map was made. Collapses take nothing from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SplitCost {
    /// Leaves that became tables.
    pub splits: u64,
    /// The number of TLB entries that cover the map, more than before, if each contiguous run takes one: those of the new
    /// tables, and those of runs that were dissolved.
    pub tlb_entries: u64,
}

/// The counts of each reason. Several callers add to them at once.
#[derive(Debug)]
pub(crate) struct SplitCosts([[AtomicU64; 2]; Reason::COUNT]);

impl SplitCosts {
    pub(crate) const fn none() -> Self {
        Self([const { [AtomicU64::new(0), AtomicU64::new(0)] }; Reason::COUNT])
    }

    /// Adds what a change of size has cost.
    pub(crate) fn add(&self, reason: Reason, cost: SplitCost) {
        let [splits, tlb_entries] = &self.0[usize::from(reason.number())];
        splits.fetch_add(cost.splits, Relaxed);
        tlb_entries.fetch_add(cost.tlb_entries, Relaxed);
    }

    pub(crate) fn of(&self, reason: Reason) -> SplitCost {
        let [splits, tlb_entries] = self.0[usize::from(reason.number())].each_ref().map(|n| n.load(Relaxed));
        SplitCost { splits, tlb_entries }
    }
}
