//! The tables that replace a leaf, built off line, with a change already in them.
//!
//! A table is filled with the leaf's content, in contiguous runs where possible. Then the part that changes is changed.
//! So its neighbours keep the largest leaves that remain possible.

use core::ops::ControlFlow;

use crate::build::counters::Counters;
use crate::build::error::OutOfFrames;
use crate::build::fill;
use crate::build::give_back::give_back;
use crate::format::{Attributes, Descriptor, Geometry, LeafChange, Level, Span, TableAttributes};
use crate::platform::{Frame, Memory};
use crate::read::Table;

/// More entries than this are filled with the change in them. Fewer are changed afterwards: a fill in three parts takes 100
/// instructions more.
const LONG: usize = 64;

/// The split of a leaf, with a change of the part of it that lies within the span.
pub(crate) struct Replacement<'m, M> {
    /// The memory that provides tables.
    pub(crate) memory: &'m M,
    pub(crate) geometry: Geometry,
    /// The attributes of new tables, as far as they remove nothing from the leaf.
    pub(crate) tables: TableAttributes,
    pub(crate) change: LeafChange,
    pub(crate) span: Span,
    /// True if the part within the span becomes single pages.
    pub(crate) pages: bool,
    pub(crate) counters: Option<&'m Counters>,
}

/// Returns the number of tables that it takes to map, in pages, the part of a leaf at `level` that lies within `span`.
pub(crate) fn page_tables_for(g: Geometry, level: Level, leaf: Span, span: Span) -> u64 {
    let Span { first, last } = leaf.common(span);
    let entries = |n: i8| {
        let shift = g.level_shift(Level::new(n));
        (last >> shift) - (first >> shift) + 1
    };
    (level.number()..Level::PAGE.number()).map(entries).sum()
}

impl<M: Memory> Replacement<'_, M> {
    /// Counts, if anybody does.
    #[inline(always)]
    fn count(&self, count: impl FnOnce(&Counters)) {
        if let Some(counters) = self.counters {
            count(counters);
        }
    }

    /// Builds the tables that replace the leaf `old`, which is an entry of `above` and starts at `base`. Returns the
    /// descriptor of the topmost table.
    ///
    /// # Errors
    ///
    /// Out of frames. All that were taken are given back.
    #[inline(always)]
    pub(crate) fn leaf(&self, old: Descriptor, above: &Table, base: u64) -> Result<Descriptor, OutOfFrames> {
        let table = above.offline(base, self.geometry);
        let Some(link) = self.table(old, &table) else { return Err(OutOfFrames(0)) };
        if table.level == Level::PAGE || self.cut_below(link, &table) {
            return Ok(link);
        }
        Err(OutOfFrames(discard(self.memory, self.geometry, self.counters, (link, table.level))))
    }

    /// Builds one table that replaces the leaf `old`, with the change of its entries that are not cut. Returns its descriptor.
    #[inline(never)]
    fn table(&self, old: Descriptor, table: &Table) -> Option<Descriptor> {
        let above = table.level.down(-1);
        let mut frame = self.memory.take()?;
        self.memory.with_slots(&mut frame, table.level, |slots| {
            let part = Part::of(self.span, table, slots.len());
            if !self.fill(table, slots, old.child(above, false), &part) {
                self.change(table, slots, &part);
            }
        });
        self.count(|counters| counters.table());
        Some(Descriptor::link(frame.into_pa(), self.geometry).with(self.attributes(old, above)))
    }

    /// Returns the same for a leaf at `level` that changes later: new tables remove nothing from it then either.
    #[inline]
    #[must_use]
    pub(crate) fn before(mut self, change: LeafChange, old: Descriptor, level: Level) -> Self {
        let built = core::mem::replace(&mut self.change, change);
        self.tables = self.attributes(old, level);
        Self { change: built, ..self }
    }

    /// Returns the attributes of a table that replaces a leaf.
    #[inline(always)]
    fn attributes(&self, old: Descriptor, level: Level) -> TableAttributes {
        if self.tables.is_empty() {
            return self.tables;
        }
        let of = |leaf: Descriptor| self.tables.within(Attributes::from_bits_retain(leaf.0));
        match self.change.of(old, level) {
            Descriptor::HOLE => of(old),
            new => of(old) & of(new),
        }
    }

    /// Splits the unpublished tables that [`leaf`](Self::leaf) built at the ends of this span as well. Leaves change their size only: there
    /// is no change with the cut.
    ///
    /// # Errors
    ///
    /// Out of frames. A part of the tables may have been split.
    pub(crate) fn cut_again(&self, link: Descriptor, above: &Table, base: u64) -> Result<(), OutOfFrames> {
        if self.cut_below(link, &above.offline(base, self.geometry)) { Ok(()) } else { Err(OutOfFrames(0)) }
    }

    /// Splits what is in the table below a link where an end of the span is in it; where it becomes pages, all of the span in it. Returns
    /// false if tables are missing.
    #[inline(never)]
    fn cut_below(&self, link: Descriptor, table: &Table) -> bool {
        let (g, Span { first, last }) = (self.geometry, table.span_of_all(self.geometry).common(self.span));
        if self.pages {
            let (page, block) = (1 << g.page_shift(), g.page_shift() + g.index_bits());
            return (first >> block..=last >> block)
                .all(|block_of| self.cut(link, *table, (first.max(block_of << block), page)).is_some());
        }
        let begins =
            if self.span.first == first { self.cut(link, *table, (first, first)) } else { Some(first) };
        let ends =
            || self.span.last != last || self.cut(link, *table, (last, last.wrapping_add(1))).is_some();
        begins.is_some_and(|done| done >= last || ends())
    }

    /// Splits leaves and runs from a table down, as far as `at` is not at a boundary of those that contain `within`. Returns the last
    /// address up to which nothing is left to split, or `None` if tables are missing.
    #[inline(never)]
    fn cut(&self, mut link: Descriptor, mut table: Table, ends: (u64, u64)) -> Option<u64> {
        loop {
            // SAFETY: only this descriptor points to the table, and it was never visible to a walker.
            let mut frame = unsafe { Frame::from_pa(link.next_table(self.geometry)) };
            let step =
                self.memory.with_slots(&mut frame, table.level, |slots| self.cut_in(slots, &table, ends));
            match step? {
                ControlFlow::Break(last) => return Some(last),
                ControlFlow::Continue(below) => (link, table) = below,
            }
        }
    }

    /// Splits the leaf or dissolves the run of one table as [`cut`](Self::cut) does. Goes on with the table below, or ends with the last
    /// address. Returns `None` if tables are missing.
    #[inline(always)]
    fn cut_in(
        &self,
        slots: &mut [u64],
        table: &Table,
        (within, at): (u64, u64),
    ) -> Option<ControlFlow<u64, (Descriptor, Table)>> {
        let g = self.geometry;
        let (index, members) = (table.index_of(within), g.contiguous_entries(table.level));
        let run = &mut slots[index & !(members - 1)..][..members];
        if at & (((members as u64) << table.shift) - 1) != 0 && Descriptor(run[0]).is_contiguous() {
            let members = dissolve(run) as i64;
            self.count(|counters| counters.dissolved(table.level, members));
        }
        if at & ((1 << table.shift) - 1) == 0 {
            return Some(ControlFlow::Break(within));
        }
        let (entry, below) = (Descriptor(slots[index]), table.offline(table.va(index), g));
        if entry.is_table(table.level) {
            return Some(ControlFlow::Continue((entry, below)));
        }
        let link = self.table(entry, &below)?;
        slots[index] = link.0;
        self.count(|counters| counters.leaves(table.level, false, -1));
        if below.level == Level::PAGE {
            return Some(ControlFlow::Break(table.span_of(index).last));
        }
        Some(ControlFlow::Continue((link, below)))
    }

    /// Fills a new table with the leaf's content, starting with the entry `first`: in runs, except for runs that are
    /// partly in the span. Returns true if the part has the change already.
    #[inline(always)]
    fn fill(&self, table: &Table, slots: &mut [u64], first: Descriptor, part: &Part) -> bool {
        let members = self.geometry.run_to_make_of(table.level, table.shift);
        if members == 1 {
            self.count(|counters| counters.leaves(table.level, false, slots.len() as i64));
            return self.series(table, slots, first, part);
        }
        let filled = self.series(table, slots, first.with_contiguous(), part);
        // Dissolves the runs that contain the ends of the part, or all runs in between, too.
        let (begins, ends) = (part.first & !(members - 1), part.last & !(members - 1));
        let cut = (
            part.start & ((members << table.shift) - 1) != 0,
            part.end & ((members << table.shift) - 1) != 0,
        );
        let plain = if self.pages {
            dissolve(&mut slots[begins..ends + members])
        } else {
            let begin = cut.0 || (cut.1 && begins == ends);
            let mut plain = if begin { dissolve(&mut slots[begins..begins + members]) } else { 0 };
            if cut.1 && begins != ends {
                plain += dissolve(&mut slots[ends..ends + members]);
            }
            plain
        };
        self.count(|counters| counters.leaves(table.level, true, (slots.len() - plain) as i64));
        self.count(|counters| counters.leaves(table.level, false, plain as i64));
        filled
    }

    /// Fills a new table with entries in arithmetic progression. Returns true if those of a long part have the change.
    #[inline(always)]
    fn series(&self, table: &Table, slots: &mut [u64], first: Descriptor, part: &Part) -> bool {
        let step = 1 << table.shift;
        let mut new = Descriptor::HOLE;
        if part.last - part.first >= LONG && !self.splits(table, part) {
            new = self.change.of(first, table.level);
        }
        if new == Descriptor::HOLE {
            fill::series(slots, first.0, step);
            return false;
        }
        let at = |first: Descriptor, index: usize| first.0.wrapping_add(step * index as u64);
        let (before, rest) = slots.split_at_mut(part.first);
        let (within, after) = rest.split_at_mut(part.last + 1 - part.first);
        fill::series(before, first.0, step);
        fill::series(within, at(new, part.first), step);
        fill::series(after, at(first, part.last + 1), step);
        true
    }

    /// Returns true if some entries of a part become tables.
    #[inline(always)]
    fn splits(&self, table: &Table, part: &Part) -> bool {
        table.level != Level::PAGE && (self.pages || part.is_cut(table.shift))
    }

    /// Changes the part of a new table that lies within the span, as far as its entries become no tables.
    #[inline(always)]
    fn change(&self, table: &Table, slots: &mut [u64], part: &Part) {
        let (mut first, mut end) = (part.first, part.last + 1);
        if self.splits(table, part) {
            if self.pages {
                return;
            }
            first += usize::from(part.cuts(first, table.shift));
            end -= usize::from(first < end && part.cuts(end - 1, table.shift));
        }
        if first < end {
            self.edit_alike(table, &mut slots[first..end]);
        }
    }

    /// Changes entries that differ only in their addresses and contiguous bits.
    #[inline(always)]
    fn edit_alike(&self, table: &Table, slots: &mut [u64]) {
        if let [one] = slots {
            return self.edit_entry(table, one);
        }
        let old = Descriptor(slots[0]);
        match self.change.of(old, table.level) {
            Descriptor::HOLE => slots.iter_mut().for_each(|slot| self.edit_entry(table, slot)),
            new if new == old => {}
            new => fill::flip(slots, new.0 ^ old.0),
        }
    }

    #[inline(always)]
    fn edit_entry(&self, table: &Table, slot: &mut u64) {
        let old = Descriptor(*slot);
        let new = self.change.of(old, table.level);
        *slot = new.0;
        if new == Descriptor::HOLE {
            self.count(|counters| counters.leaves(table.level, old.is_contiguous(), -1));
        }
    }
}

/// The part of a table that lies within a span.
struct Part {
    /// The start and the end, in bytes from the table's first address.
    start: usize,
    end: usize,
    /// The first and the last entry.
    first: usize,
    last: usize,
}

impl Part {
    #[inline(always)]
    fn of(span: Span, table: &Table, entries: usize) -> Self {
        let start = span.first.saturating_sub(table.base) as usize;
        let end = ((span.last - table.base) as usize).min((entries << table.shift) - 1) + 1;
        Self { start, end, first: start >> table.shift, last: (end - 1) >> table.shift }
    }

    /// Returns true if it begins or ends within an entry.
    #[inline(always)]
    const fn is_cut(&self, shift: u32) -> bool {
        (self.start | self.end) & ((1 << shift) - 1) != 0
    }

    /// Returns true if it begins or ends within this entry.
    #[inline(always)]
    fn cuts(&self, index: usize, shift: u32) -> bool {
        let within = |at: usize| at >> shift == index && at & ((1 << shift) - 1) != 0;
        within(self.start) || within(self.end)
    }
}

/// Turns whole runs into plain entries. Returns the number of entries.
#[inline(never)]
fn dissolve(runs: &mut [u64]) -> usize {
    fill::flip(runs, Descriptor::HOLE.with_contiguous().0);
    runs.len()
}

/// Gives back tables at a level, and all below, that were counted and never published. Returns the number of tables.
#[cold]
pub(crate) fn discard<M: Memory>(
    memory: &M,
    g: Geometry,
    counters: Option<&Counters>,
    (link, level): (Descriptor, Level),
) -> u64 {
    // SAFETY: only this descriptor points to the table, and it was never visible to a walker.
    let table = unsafe { Frame::from_pa(link.next_table(g)) };
    let mut tables = 0;
    give_back(memory, g, level, table, &mut |slots, level| {
        for entry in slots.iter().map(|&bits| Descriptor(bits)).filter(|entry| entry.is_leaf(g, level)) {
            counters.inspect(|counters| counters.leaves(level, entry.is_contiguous(), -1));
        }
        counters.inspect(|counters| counters.no_table());
        tables += 1;
    });
    tables
}
