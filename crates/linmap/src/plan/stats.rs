//! Exact counts of the leaves and tables of a map.

use crate::format::{Entry, Geometry, LeafSize, Level};
use crate::plan::region::Run;

/// The number of leaves by size, and of table pages.
///
/// `tables` counts the table pages that hold an entry of the map, including the root. Counts saturate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// The number of leaf descriptors by level, from 0 on: single leaves first, then members of contiguous runs.
    pub(crate) descriptors: [[u64; 2]; Level::WITH_LEAVES],
    /// The number of table pages.
    pub tables: u64,
}

impl Stats {
    /// No leaves and no tables.
    pub const EMPTY: Self = Self { descriptors: [[0; 2]; Level::WITH_LEAVES], tables: 0 };

    /// An empty root table.
    pub const ROOT: Self = Self { tables: 1, ..Self::EMPTY };

    /// Adds leaf descriptors of one kind. Level -1 has none.
    #[inline]
    pub const fn add_leaves(&mut self, level: Level, contiguous: bool, descriptors: u64) {
        if level.number() >= 0 {
            let leaves = &mut self.descriptors[level.leaf_ordinal()][contiguous as usize];
            *leaves = leaves.saturating_add(descriptors);
        }
    }

    /// Adds an entry that a walk visits: a leaf, or the table that it points to.
    pub const fn add_entry(&mut self, level: Level, entry: Entry) {
        match entry {
            Entry::Leaf(leaf) => self.add_leaves(level, leaf.contiguous, 1),
            Entry::Table(_) => self.tables = self.tables.saturating_add(1),
            Entry::Hole | Entry::Reserved => {}
        }
    }

    /// Adds leaf descriptors that exist in memory, so that the sum cannot overflow.
    #[inline(always)]
    pub(crate) const fn count_leaves(&mut self, level: Level, contiguous: bool, descriptors: u64) {
        self.descriptors[level.leaf_ordinal()][contiguous as usize] += descriptors;
    }

    /// Adds an entry that exists in memory, so that the counts cannot overflow.
    #[inline(always)]
    pub(crate) const fn count_entry(&mut self, level: Level, entry: Entry) {
        match entry {
            Entry::Leaf(leaf) => self.count_leaves(level, leaf.contiguous, 1),
            Entry::Table(_) => self.tables += 1,
            Entry::Hole | Entry::Reserved => {}
        }
    }

    /// Returns these counts, copied one by one. A kernel that is compiled without vector registers calls `memcpy` for an array
    /// of this size, which takes five times as long.
    #[inline(always)]
    pub(crate) const fn of_counts(leaves: &[[u64; 2]; Level::WITH_LEAVES], tables: u64) -> Self {
        let [a, b, c, d] = leaves;
        Self { descriptors: [[a[0], a[1]], [b[0], b[1]], [c[0], c[1]], [d[0], d[1]]], tables }
    }

    /// Adds the counts of other tables, which exist in memory.
    pub(crate) fn include(&mut self, other: &Self) {
        for (to, from) in self.descriptors.iter_mut().flatten().zip(other.descriptors.iter().flatten()) {
            *to = to.saturating_add(*from);
        }
        self.tables = self.tables.saturating_add(other.tables);
    }

    /// Returns the number of leaf descriptors of one size. A run of sixteen 4K pages counts as 16.
    pub const fn descriptors(&self, size: LeafSize) -> u64 {
        if size.level.number() < 0 {
            0
        } else {
            self.descriptors[size.level.leaf_ordinal()][size.contiguous as usize]
        }
    }

    /// Returns the number of bytes that the leaves map.
    pub fn bytes(&self, geometry: Geometry) -> u64 {
        let of = |size: &LeafSize| self.descriptors(*size).saturating_mul(1 << size.entry_shift);
        geometry.leaf_sizes().iter().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the number of bytes that the tables occupy.
    pub const fn table_bytes(&self, geometry: Geometry) -> u64 {
        self.tables.saturating_mul(geometry.page_size())
    }

    /// Returns the number of TLB entries that cover the map if each contiguous run takes one.
    pub fn tlb_entries(&self, geometry: Geometry) -> u64 {
        let of = |size: &LeafSize| self.descriptors(*size) / size.descriptors();
        geometry.leaf_sizes().iter().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the counts of a tree of these runs, without building it.
    ///
    /// `runs` must be in ascending address order within one half. Terabytes cost nothing, since this is arithmetic
    /// only. For a run that extends beyond the half, all leaves are counted, and the tables within the half.
    pub fn of_runs(geometry: Geometry, runs: impl Iterator<Item = Run>) -> Self {
        let mut stats = Self::ROOT;
        // The last table that was counted at each level, numbered by address.
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
