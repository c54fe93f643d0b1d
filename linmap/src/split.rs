//! Off line: the tables that take the place of a leaf, with a change already in them.
//!
//! A table is filled with what the leaf said, in contiguous runs where there are such; then the part that
//! changes is changed. So its neighbours keep the largest leaves that remain possible.

use core::ops::Range;

use crate::edit::Edit;
use crate::live::{Span, Table};
use crate::stats::Counters;
use crate::tree::fill_with_step;
use crate::{Descriptor, Geometry, Level, Memory};

/// How a leaf is split: what becomes of the part of it that lies within the span.
pub(crate) struct Split<'m, M> {
    /// Has as many frames as [`tables_for`] says.
    pub(crate) memory: &'m M,
    pub(crate) geometry: Geometry,
    pub(crate) edit: Edit,
    pub(crate) span: Span,
    /// Whether the part within the span ends up in single pages.
    pub(crate) pages: bool,
    pub(crate) counters: &'m Counters,
}

/// How many tables it takes to split a leaf at `level`, which starts at `base`, where `span` ends in it.
pub(crate) fn tables_for(g: Geometry, level: Level, base: u64, span: Span) -> u64 {
    // Where both ends lie in one entry, there is one table for each level down to where both are aligned.
    let (mut shift, mut tables) = (g.level_shift(level), 0);
    let (ends, apart) = (span.first | span.last.wrapping_add(1), span.first ^ span.last);
    if apart >> shift == 0 {
        loop {
            shift -= g.index_bits();
            tables += 1;
            if ends & ((1 << shift) - 1) == 0 {
                return tables;
            }
            if apart >> shift != 0 {
                break;
            }
        }
    }
    two_ends(g, level, base, span)
}

/// The same, where the ends lie in different entries.
fn two_ends(g: Geometry, level: Level, base: u64, span: Span) -> u64 {
    let (mut level, mut base, mut tables) = (level, base, 0);
    loop {
        level = level.next();
        tables += 1;
        let size = g.level_size(level);
        let last = base + (g.level_size(Level::new(level.number() - 1)) - 1);
        let first_cut = span.first > base && span.first & (size - 1) != 0;
        let last_cut = span.last < last && span.last.wrapping_add(1) & (size - 1) != 0;
        let (of_first, of_last) = (span.first & !(size - 1), span.last & !(size - 1));
        match (first_cut, last_cut) {
            (false, false) => return tables,
            (true, true) if of_first != of_last => {
                return tables + two_ends(g, level, of_first, span) + two_ends(g, level, of_last, span);
            }
            (true, _) => base = of_first,
            (false, true) => base = of_last,
        }
    }
}

/// How many tables it takes to have the part of a leaf at `level` that lies within `span` in pages.
pub(crate) fn page_tables_for(g: Geometry, level: Level, leaf: Span, span: Span) -> u64 {
    let (first, last) = (leaf.first.max(span.first), leaf.last.min(span.last));
    let entries = |n: i8| {
        let shift = g.level_shift(Level::new(n));
        (last >> shift) - (first >> shift) + 1
    };
    (level.number()..Level::PAGE.number()).map(entries).sum()
}

impl<M: Memory> Split<'_, M> {
    /// Builds the tables that take the place of the leaf `old` at `level`, which starts at `base`. The
    /// descriptor of the topmost.
    pub(crate) fn leaf(&self, old: Descriptor, level: Level, base: u64) -> Descriptor {
        let (g, child) = (self.geometry, level.next());
        let Some(mut frame) = self.memory.take() else {
            unreachable!("the survey counted the tables that this takes")
        };
        let table = Table::offline(frame.pa(), child, base, g);
        let slots = &mut self.memory.slots(&mut frame)[..1 << g.index_bits()];
        self.fill(&table, slots, old.child(level, false));
        self.counters.table();
        self.change(&table, slots);
        #[cfg(feature = "faults")]
        crate::fault::spoil(slots);
        Descriptor::table(frame.into_pa(), g)
    }

    /// Fills a new table with what the leaf said, whose first part is `first`: in runs, but for those that the
    /// span has only a part of.
    fn fill(&self, table: &Table, slots: &mut [u64], first: Descriptor) {
        let (step, members) = (1 << table.shift, self.geometry.contiguous_entries(table.level));
        if members == 1 {
            fill_with_step(slots, first.0, step);
            return self.counters.leaves(table.level, false, slots.len() as i64);
        }
        fill_with_step(slots, first.with_contiguous().0, step);
        let mut plain = 0;
        for entries in self.not_in_runs(table, members) {
            if !entries.is_empty() {
                plain += entries.len();
                let value = first.0.wrapping_add(step * entries.start as u64);
                fill_with_step(&mut slots[entries], value, step);
            }
        }
        self.counters.leaves(table.level, true, (slots.len() - plain) as i64);
        self.counters.leaves(table.level, false, plain as i64);
    }

    /// The entries, in whole runs, that can not be in a run: where the span begins and where it ends.
    fn not_in_runs(&self, table: &Table, members: usize) -> [Range<usize>; 2] {
        let (first, last) = table.entries_of(self.span, self.geometry);
        let (first, last) = (first & !(members - 1), last & !(members - 1));
        if self.pages {
            return [first..last + members, last + members..last + members];
        }
        let part = |start: usize| {
            let run = table.run_of(start, members);
            let whole = self.span.covers(run.first, run.last);
            start..if whole { start } else { start + members }
        };
        let begins = part(first);
        let ends = if last == first { begins.end..begins.end } else { part(last) };
        [begins, ends]
    }

    /// Changes the part of a new table that lies within the span.
    fn change(&self, table: &Table, slots: &mut [u64]) {
        let (first, last) = table.entries_of(self.span, self.geometry);
        for (index, slot) in (first..).zip(&mut slots[first..=last]) {
            let at = table.span_of(index);
            let old = Descriptor(*slot);
            let ends = !self.span.covers(at.first, at.last);
            if ends || (self.pages && table.level != Level::PAGE) {
                *slot = self.leaf(old, table.level, at.first).0;
                self.counters.leaves(table.level, false, -1);
                continue;
            }
            let new = self.edit.of(old);
            *slot = new.0;
            if new == Descriptor::HOLE {
                self.counters.leaves(table.level, old.is_contiguous(), -1);
            }
        }
    }
}
