//! The fewest by trying every cut of the tree: each entry is a leaf, one of a run, or a table.
//!
//! From the root down, all choices that are allowed are priced and the least is kept. An entry whose
//! addresses are all of one kind costs the same wherever it lies, so that terabytes need few visits.

use std::collections::HashMap;
use std::ops::Range;

use crate::fewest::map::{Content, Cost, Map};

/// The fewest descriptors, TLB entries and table pages, each on its own.
pub(crate) fn fewest(map: &Map) -> Cost {
    Search { map, known: HashMap::new() }.table(map.manual.root, 0)
}

struct Search<'a> {
    map: &'a Map,
    /// Prices of entries with one content, by level, number of entries and whether they may be large.
    known: HashMap<(i8, u64, bool), Cost>,
}

impl Search<'_> {
    /// The table at `level` whose first entry maps `start`.
    fn table(&mut self, level: i8, start: u64) -> Cost {
        let (span, members) = (self.map.manual.span(level), self.map.manual.run(level));
        let mut sum = Cost { tables: 1, ..Cost::default() };
        for group in 0..self.map.manual.entries(level).div_ceil(members) {
            sum = sum.plus(self.entries(level, start + group * members * span, members));
        }
        sum
    }

    /// Some entries of one table: one, or as many as could be a run.
    fn entries(&mut self, level: i8, start: u64, members: u64) -> Cost {
        let at = start..start + members * self.map.manual.span(level);
        match self.map.content(at.clone()) {
            Content::Nothing => Cost::default(),
            Content::Mixed => self.apart(level, at, members),
            Content::Only(kind) => {
                let large = self.map.may_be_large(kind);
                let key = (level, members, large);
                if let Some(&cost) = self.known.get(&key) {
                    return cost;
                }
                let cost = self.uniform(level, at, members, large);
                self.known.insert(key, cost);
                cost
            }
        }
    }

    /// Entries with one content: one leaf, or each on its own, whichever is less.
    fn uniform(&mut self, level: i8, at: Range<u64>, members: u64, large: bool) -> Cost {
        let is_page = level == 3 && members == 1;
        let leaf = self.map.manual.leaf(level, members).filter(|_| large || is_page);
        let together = Cost { descriptors: members, tlb_entries: 1, tables: 0 };
        match leaf.filter(|&bytes| self.map.is_aligned(at.start, bytes)) {
            Some(_) if is_page => together,
            Some(_) => together.least(self.apart(level, at, members)),
            None => self.apart(level, at, members),
        }
    }

    /// The entries of a run one by one, or the table below a single one.
    fn apart(&mut self, level: i8, at: Range<u64>, members: u64) -> Cost {
        if members == 1 {
            return self.table(level + 1, at.start);
        }
        let span = self.map.manual.span(level);
        let each = (0..members).map(|i| self.entries(level, at.start + i * span, 1));
        each.fold(Cost::default(), Cost::plus)
    }
}

impl Cost {
    fn plus(self, more: Self) -> Self {
        Self {
            descriptors: self.descriptors + more.descriptors,
            tlb_entries: self.tlb_entries + more.tlb_entries,
            tables: self.tables + more.tables,
        }
    }

    fn least(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors.min(other.descriptors),
            tlb_entries: self.tlb_entries.min(other.tlb_entries),
            tables: self.tables.min(other.tables),
        }
    }
}
