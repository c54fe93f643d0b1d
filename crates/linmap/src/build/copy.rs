//! A copy of live tables, built off line entry by entry. It does not matter whether leaves are adjacent in memory: those of
//! one table that differ only in their addresses are judged, counted and stored by eights.

use crate::build::fill;
use crate::format::{Descriptor, Geometry, Level, Span, Va};
use crate::plan::Stats;
use crate::platform::{Frame, Memory, Slot};
use crate::read::{Live, ReadTables, Table};

/// Counts the tables of a copy: one, and those below it that lead to addresses of a span. Tables of pages are not read.
pub(super) fn count_tables<M: Memory>(
    tables: &Live<'_, M>,
    from: &Table,
    (span, g): (Span, Geometry),
) -> u64 {
    if from.level == Level::PAGE {
        return 1;
    }
    let (first, last) = from.entries_of(span, g);
    let below = |index| {
        let entry = tables.entry(Slot { table: from.pa, index }, from.level).unwrap_or_else(|e| match e {});
        if !entry.is_table(from.level) {
            return 0;
        }
        count_tables(tables, &from.below(index, entry.next_table(g), g), (span, g))
    };
    1 + (first..=last).map(below).sum::<u64>()
}

/// A copy under way.
pub(super) struct Copy<'m, M> {
    pub(super) memory: &'m M,
    pub(super) tables: Live<'m, M>,
    pub(super) geometry: Geometry,
    /// The addresses whose entries are copied.
    pub(super) span: Span,
    pub(super) stats: Stats,
    /// The first address that is both writable and executable.
    pub(super) write_execute: Option<Va>,
    /// There was no page for a table. No entry is copied any more.
    pub(super) is_out_of_frames: bool,
}

impl<M: Memory> Copy<'_, M> {
    /// Copies a table, and all tables below it. If there are too few pages, the copy has holes.
    pub(super) fn table(&mut self, from: &Table) -> Option<Frame> {
        let Some(mut to) = self.memory.take() else {
            self.is_out_of_frames = true;
            return None;
        };
        self.stats.tables += 1;
        let (memory, entries) = (self.memory, self.geometry.entries(from.level));
        memory.with_slots(&mut to, from.level, |slots| self.entries(from, &mut slots[..entries]));
        Some(to)
    }

    /// Returns the first and the last index of the entries to copy: those of the span, and the whole runs that these are in.
    pub(super) fn copied(&self, from: &Table) -> (usize, usize) {
        let (first, last) = from.entries_of(self.span, self.geometry);
        let others_of_run = |index| {
            let entry = self.load(from, index);
            let in_run = entry.is_leaf(self.geometry, from.level) && entry.is_contiguous();
            if in_run { self.geometry.contiguous_entries(from.level) - 1 } else { 0 }
        };
        (first & !others_of_run(first), last | others_of_run(last))
    }

    /// Writes every slot of a copy.
    fn entries(&mut self, from: &Table, slots: &mut [u64]) {
        let (first, last) = self.copied(from);
        let first_leaf = self.geometry.first_leaf_level();
        fill::holes(&mut slots[..first]);
        let mut index = first;
        while index <= last && !self.is_out_of_frames {
            let entry = self.load(from, index);
            if entry.is_table(from.level) {
                slots[index] = self.below(from, index, entry).0;
                index += 1;
            } else if entry.is_leaf_from(first_leaf, from.level) {
                index = self.leaves(from, slots, (index, last), entry);
            } else {
                let next = self.alike(from, slots, (index, last), (Descriptor::HOLE, u64::MAX));
                // Of an invalid entry nothing is kept.
                slots[index] = Descriptor::HOLE.0;
                index = next.max(index + 1);
            }
        }
        fill::holes(&mut slots[index..]);
    }

    /// Copies a leaf and those after it, up to `last`, that differ from it only in their addresses. Returns the index after
    /// the last one.
    fn leaves(
        &mut self,
        from: &Table,
        slots: &mut [u64],
        (index, last): (usize, usize),
        entry: Descriptor,
    ) -> usize {
        if entry.is_write_execute() {
            self.write_execute.get_or_insert(Va(from.va(index)));
        }
        let mut next = self.alike(from, slots, (index, last), (entry, !Descriptor::ADDRESS));
        if next == index {
            slots[index] = entry.0;
            next += 1;
        }
        self.stats.count_leaves(from.level, entry.is_contiguous(), (next - index) as u64);
        next
    }

    /// Copies eights of entries from an index on, up to `last`, that differ from `entry` in no bit of the mask. Returns the
    /// index after the last one. Each is loaded once: what has been compared is stored.
    #[inline(always)]
    fn alike(
        &self,
        from: &Table,
        slots: &mut [u64],
        (index, last): (usize, usize),
        (entry, mask): (Descriptor, u64),
    ) -> usize {
        let mut next = index;
        for to in slots[index..=last].as_chunks_mut::<8>().0 {
            let eight = self.tables.slots(from.pa).load_eight(next);
            if eight.iter().fold(0, |all, other| all | other.0 ^ entry.0) & mask != 0 {
                break;
            }
            *to = eight.map(|entry| entry.0);
            next += 8;
        }
        next
    }

    /// Copies the table that an entry points to. Returns the descriptor of the copy.
    #[inline(never)]
    fn below(&mut self, from: &Table, index: usize, entry: Descriptor) -> Descriptor {
        let below = Table::below(from, index, entry.next_table(self.geometry), self.geometry);
        match self.table(&below) {
            Some(copy) => Descriptor::link(copy.into_pa(), self.geometry).with_attributes_of(entry),
            None => Descriptor::HOLE,
        }
    }

    fn load(&self, table: &Table, index: usize) -> Descriptor {
        self.tables.entry(Slot { table: table.pa, index }, table.level).unwrap_or_else(|e| match e {})
    }
}
