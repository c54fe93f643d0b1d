//! Off line: the tables that take the place of a leaf, with a change already in them.
//!
//! A table is filled with what the leaf said, in contiguous runs where there are such; then the part that
//! changes is changed. So its neighbours keep the largest leaves that remain possible.

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
                return tables + tables_for(g, level, of_first, span) + tables_for(g, level, of_last, span);
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
        let members = g.contiguous_entries(child);
        let slots = &mut self.memory.slots(&mut frame)[..1 << g.index_bits()];
        fill_with_step(slots, old.child(level, members > 1).0, g.level_size(child));
        self.counters.table();
        self.counters.leaves(child, members > 1, slots.len() as i64);
        self.change(&table, slots, members);
        Descriptor::table(frame.into_pa(), g)
    }

    /// Changes the part of a new table that lies within the span.
    fn change(&self, table: &Table, slots: &mut [u64], members: usize) {
        let g = self.geometry;
        let (first, last) = table.entries_of(self.span, g);
        if self.pages && members > 1 {
            let end = (last | (members - 1)) + 1;
            for start in (first & !(members - 1)..end).step_by(members) {
                self.clear(table, &mut slots[start..start + members]);
            }
        } else if members > 1 {
            let plain = self.dissolve(table, first, slots, members);
            if last >= plain {
                self.dissolve(table, last, slots, members);
            }
        }
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

    /// Dissolves the run that a slot is in, if the span has only part of it. The slot behind the run.
    fn dissolve(&self, table: &Table, index: usize, slots: &mut [u64], members: usize) -> usize {
        let first = index & !(members - 1);
        let (end, run) = (first + members, table.run_of(index, members));
        let whole = self.span.covers(run.first, run.last);
        if !whole {
            self.clear(table, &mut slots[first..end]);
        }
        end
    }

    /// Clears the contiguous bit of a run.
    fn clear(&self, table: &Table, run: &mut [u64]) {
        for slot in &mut *run {
            *slot = Descriptor(*slot).without_contiguous().0;
        }
        self.counters.leaves(table.level, true, -(run.len() as i64));
        self.counters.leaves(table.level, false, run.len() as i64);
    }
}
