//! What splits cost, by reason: the leaves that became tables, and the TLB entries that it takes since then.
//!
//! Only changes with a reason are counted, after their stores. The new tables are read once for it, about three
//! instructions for each of their entries; a change without a reason pays nothing.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::live::address_space::AddressSpace;
use crate::live::locked::Locked;
use crate::live::resize::Resize;
use crate::platform::{Platform, Reason};
use crate::read::Table;

/// What the splits for one reason have cost since the map was made. Collapses take nothing from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SplitCost {
    /// Leaves that became tables.
    pub splits: u64,
    /// The number of TLB entries that cover the map, more than before, if each contiguous run takes one: those of the new
    /// tables, and those of runs that were dissolved.
    pub tlb_entries: u64,
}

/// The counts of each reason. Holders of different locks add to them.
#[derive(Debug)]
pub(crate) struct SplitCosts([[AtomicU64; 2]; Reason::COUNT]);

impl SplitCosts {
    pub(crate) const NONE: Self = Self([const { [AtomicU64::new(0), AtomicU64::new(0)] }; Reason::COUNT]);

    /// Adds a change of size that has been made.
    #[cold]
    pub(crate) fn add<P: Platform>(&self, reason: Reason, locked: &Locked<'_, P>, resize: &Resize) {
        let table = &resize.table;
        let mut more = resize.dissolves.map_or(0, |members| members as u64 - 1);
        let [splits, entries] = &self.0[usize::from(reason.number())];
        if let Some(link) = resize.link {
            more += tlb_entries(locked, &locked.below(table, resize.index, link)).saturating_sub(1);
            splits.fetch_add(1, Relaxed);
        }
        entries.fetch_add(more, Relaxed);
    }

    fn of(&self, reason: Reason) -> SplitCost {
        let [splits, tlb_entries] = self.0[usize::from(reason.number())].each_ref().map(|n| n.load(Relaxed));
        SplitCost { splits, tlb_entries }
    }
}

/// Returns the number of TLB entries that cover a table. Never deeper than there are levels.
fn tlb_entries<P: Platform>(locked: &Locked<'_, P>, table: &Table) -> u64 {
    let (g, level) = (locked.geometry, table.level);
    let (mut single, mut members) = (0, 0);
    for index in 0..g.entries(level) {
        let entry = locked.load(table, index);
        if entry.is_table(level) {
            single += tlb_entries(locked, &locked.below(table, index, entry));
        } else if entry.is_leaf(g, level) {
            *if entry.is_contiguous() { &mut members } else { &mut single } += 1;
        }
    }
    single + members / g.contiguous_entries(level) as u64
}

impl AddressSpace {
    /// Returns what splits for a reason have cost since the map was made. It takes no lock, and counts each split once its
    /// stores are made.
    ///
    /// A platform gives the reason by [`Hardware::reason`](crate::Hardware::reason), for example
    /// [`WithReason`](crate::WithReason). What a collapse would bring back is the difference of
    /// [`count`](Self::count) and [`count_collapsed`](Self::count_collapsed).
    pub fn split_cost(&self, reason: Reason) -> SplitCost {
        self.state().split_costs.of(reason)
    }
}
