//! The counts of a live map, of the operations on it, and of what splits have cost by reason.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::format::Level;
use crate::plan::Stats;
use crate::platform::Reason;

/// The number of operations on a live map, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Leaves that became tables.
    pub splits: u64,
    /// Tables that became leaves, or were freed because they were empty.
    pub collapses: u64,
    /// TLB invalidations issued.
    pub invalidations: u64,
    /// The number of times that the other CPUs were parked.
    pub parkings: u64,
}

/// Counts of tables and of operations. One caller at a time writes them, so plain loads and stores suffice.
#[derive(Debug)]
pub(crate) struct Counters {
    leaves: [[AtomicI64; 2]; Level::WITH_LEAVES],
    tables: AtomicI64,
    splits: AtomicU64,
    collapses: AtomicU64,
    invalidations: AtomicU64,
}

#[inline]
fn grow(to: &AtomicI64, n: i64) {
    to.store(to.load(Relaxed) + n, Relaxed);
}

#[inline]
fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Relaxed) + n, Relaxed);
}

impl Counters {
    /// Returns counts of nothing.
    pub(crate) const fn new() -> Self {
        Self {
            leaves: [const { [AtomicI64::new(0), AtomicI64::new(0)] }; Level::WITH_LEAVES],
            tables: AtomicI64::new(0),
            splits: AtomicU64::new(0),
            collapses: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
        }
    }

    /// Adds the counts of a tree. Inlined, because otherwise a graft copies the tree's counts four times, which takes
    /// 260 instructions.
    #[inline(always)]
    pub(crate) fn include(&self, stats: &Stats) {
        for (to, from) in self.leaves.iter().zip(&stats.descriptors) {
            grow(&to[0], from[0] as i64);
            grow(&to[1], from[1] as i64);
        }
        grow(&self.tables, stats.tables as i64);
    }

    /// Subtracts the counts of some tables.
    pub(crate) fn exclude(&self, stats: &Stats) {
        for (to, from) in self.leaves.iter().zip(&stats.descriptors) {
            grow(&to[0], -(from[0] as i64));
            grow(&to[1], -(from[1] as i64));
        }
        grow(&self.tables, -(stats.tables as i64));
    }

    /// Adds or subtracts leaf descriptors of one kind.
    #[inline]
    pub(crate) fn leaves(&self, level: Level, contiguous: bool, descriptors: i64) {
        grow(&self.leaves[level.leaf_ordinal()][usize::from(contiguous)], descriptors);
    }

    /// Adds one table.
    #[inline]
    pub(crate) fn table(&self) {
        grow(&self.tables, 1);
    }

    /// Returns the number of tables.
    pub(crate) fn tables(&self) -> u64 {
        self.tables.load(Relaxed) as u64
    }

    /// Subtracts one table.
    pub(crate) fn no_table(&self) {
        grow(&self.tables, -1);
    }

    /// Counts a contiguous run as single leaves from now on.
    #[inline]
    pub(crate) fn dissolved(&self, level: Level, members: i64) {
        let [plain, contiguous] = &self.leaves[level.leaf_ordinal()];
        grow(plain, members);
        grow(contiguous, -members);
    }

    pub(crate) fn split(&self, n: u64) {
        add(&self.splits, n);
    }

    pub(crate) fn collapsed(&self, n: u64) {
        add(&self.collapses, n);
    }

    #[inline]
    pub(crate) fn invalidated(&self, n: u64) {
        add(&self.invalidations, n);
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::EMPTY;
        self.add_to(&mut stats);
        stats
    }

    /// Adds the counts to others. The sum may be negative in between, so it wraps.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        for (to, from) in stats.descriptors.iter_mut().flatten().zip(self.leaves.iter().flatten()) {
            *to = to.wrapping_add(from.load(Relaxed) as u64);
        }
        stats.tables = stats.tables.wrapping_add(self.tables());
    }

    /// Adds the numbers of operations to others.
    pub(crate) fn add_changes_to(&self, changes: &mut Changes) {
        changes.splits += self.splits.load(Relaxed);
        changes.collapses += self.collapses.load(Relaxed);
        changes.invalidations += self.invalidations.load(Relaxed);
    }
}

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
