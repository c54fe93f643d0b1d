//! Exact counts of what a map is made of.

use crate::format::{Entry, Geometry, LeafSize, Level};
use crate::plan::region::Run;

/// Leaves by size and table pages.
///
/// `tables` are the table pages that hold an entry of the map, the root included. What is more than a number can say
/// is the largest there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Leaf descriptors by level ordinal; plain ones first, then members of contiguous runs.
    pub(crate) descriptors: [[u64; 2]; Level::COUNT],
    /// Table pages.
    pub tables: u64,
}

impl Stats {
    /// Counts that come to nothing.
    pub const EMPTY: Self = Self { descriptors: [[0; 2]; Level::COUNT], tables: 0 };

    /// A root table with nothing in it.
    pub const ROOT: Self = Self { tables: 1, ..Self::EMPTY };

    /// Adds leaf descriptors of one kind.
    #[inline]
    pub const fn add_leaves(&mut self, level: Level, contiguous: bool, descriptors: u64) {
        let leaves = &mut self.descriptors[level.ordinal()][contiguous as usize];
        *leaves = leaves.saturating_add(descriptors);
    }

    /// Adds what a walk came across: a leaf, or the table that an entry points to.
    pub const fn add_entry(&mut self, level: Level, entry: Entry) {
        match entry {
            Entry::Leaf(leaf) => self.add_leaves(level, leaf.contiguous, 1),
            Entry::Table(_) => self.tables = self.tables.saturating_add(1),
            Entry::Hole | Entry::Reserved => {}
        }
    }

    /// The same as [`add_leaves`](Self::add_leaves) for leaves that are there, and so never come to as many.
    #[inline(always)]
    pub(crate) const fn count_leaves(&mut self, level: Level, contiguous: bool, descriptors: u64) {
        self.descriptors[level.ordinal()][contiguous as usize] += descriptors;
    }

    /// The same as [`add_entry`](Self::add_entry), likewise.
    #[inline(always)]
    pub(crate) const fn count_entry(&mut self, level: Level, entry: Entry) {
        match entry {
            Entry::Leaf(leaf) => self.count_leaves(level, leaf.contiguous, 1),
            Entry::Table(_) => self.tables += 1,
            Entry::Hole | Entry::Reserved => {}
        }
    }

    /// The leaf descriptors of one size: 16 for a 4K granule's run of sixteen pages.
    pub const fn descriptors(&self, size: LeafSize) -> u64 {
        self.descriptors[size.level.ordinal()][size.contiguous as usize]
    }

    /// The bytes that the leaves map.
    pub fn bytes(&self, geometry: Geometry) -> u64 {
        let of = |size: &LeafSize| self.descriptors(*size).saturating_mul(1 << size.entry_shift);
        geometry.leaf_sizes().iter().map(of).fold(0, u64::saturating_add)
    }

    /// The bytes that the tables take.
    pub const fn table_bytes(&self, geometry: Geometry) -> u64 {
        self.tables.saturating_mul(geometry.page_size())
    }

    /// The TLB entries that cover the map, where the TLB uses contiguous runs: one for each.
    pub fn tlb_entries(&self, geometry: Geometry) -> u64 {
        let of = |size: &LeafSize| self.descriptors(*size) / size.descriptors();
        geometry.leaf_sizes().iter().map(of).fold(0, u64::saturating_add)
    }

    /// What a tree of these runs will count, without building it.
    ///
    /// `runs` go up in address order within one half; this is pure arithmetic, so terabytes cost nothing. Of a run that
    /// goes on beyond the half all leaves are counted, and tables as far as the half goes.
    pub fn of_runs(geometry: Geometry, runs: impl Iterator<Item = Run>) -> Self {
        let mut stats = Self::ROOT;
        // By level ordinal: the last table counted, numbered by address.
        let mut last = [None; Level::COUNT];
        for run in runs.filter(|r| r.descriptors != 0) {
            stats.add_leaves(run.level, run.contiguous, run.descriptors);
            if run.level <= geometry.root() {
                continue;
            }
            let shift = geometry.level_shift(run.level);
            let most = (1u64 << geometry.va_bits()) - 1;
            let offset = run.va.0 & most;
            let further = (run.descriptors - 1).min((most - offset) >> shift);
            let end = offset + (further << shift);
            let mut parent = geometry.root();
            while parent < run.level {
                let shift = geometry.level_shift(parent);
                let (first_table, last_table) = (offset >> shift, end >> shift);
                let last = &mut last[parent.ordinal()];
                let tables = last_table - first_table + u64::from(*last != Some(first_table));
                stats.tables = stats.tables.saturating_add(tables);
                *last = Some(last_table);
                parent = parent.next();
            }
        }
        stats
    }
}
