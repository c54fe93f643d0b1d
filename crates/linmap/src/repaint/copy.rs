//! Brings a second tree, which no walker reaches, into line with the live one: the same translations, in pages.
//!
//! Tables are descended, leaves become pages unless they are in `keep`, and a hole clears the copy's entry. So copying
//! a span twice has the same result as copying it once, and a span in which the live tree has changed is copied again.
//! A new page table is filled as a whole.
//!
//! The live tree is only read, so a lock of some addresses that a descriptor translates suffices to rely on it. What the
//! holder of one gigabyte's lock finds above it, a large leaf or hole, is so for all of the leaf's or hole's addresses.

use core::mem::take;
use core::ops::Range;

use crate::build::{Counters, FILLED, OutOfFrames, discard, fill};
use crate::edit::{Editor, Guard};
use crate::format::{Attributes, Descriptor, Geometry, Level, Span, Va};
use crate::platform::{Frame, Memory};
use crate::read::{Table, Tally};
use crate::repaint::error::RepaintError;

/// The copying of one hold.
pub(crate) struct Copy<'a, G: Guard> {
    editor: &'a Editor<'a, G>,
    /// The ranges within which leaves keep their size.
    keep: &'a [(Va, Va)],
    /// The counts of the second tree.
    counters: &'a Counters,
    /// Where tables of the second tree wait that it has no more.
    detached: &'a mut Detached,
    /// The number of descriptors that may still be read or written.
    left: usize,
    /// True if something has been copied, so that the hold may end.
    begun: bool,
    /// True if it stopped because the reserve was empty.
    pub(crate) starved: bool,
    /// The last address of what was copied last.
    reached: u64,
}

/// The counterpart in the live tree of a table in the second tree.
struct Source {
    table: Table,
    /// A leaf that contains all of the table's range, as the descriptor that the table's first entry would have.
    leaf: Option<Descriptor>,
    /// A descriptor with the attributes of the table's own.
    link: Descriptor,
}

/// The address from which the rest of the span is still to be copied, or `None`.
type Rest = Option<u64>;

impl<'a, G: Guard> Copy<'a, G> {
    pub(crate) fn new(
        editor: &'a Editor<'a, G>,
        keep: &'a [(Va, Va)],
        counters: &'a Counters,
        detached: &'a mut Detached,
    ) -> Self {
        // A 64th more, for the entries on the way: then the pages of a hold are as many tables as have that many entries.
        let left = G::HOLD.saturating_add(G::HOLD / 64);
        let (begun, starved, reached) = (false, false, 0);
        Self { editor, keep, counters, detached, left, begun, starved, reached }
    }

    /// Brings the entries of the second root, and everything below them, into line with those of the live root. Returns
    /// the last address up to which that is done, or `None` if nothing is. It may be before the end of the span, since a
    /// hold ends, or after it, where an entry that translates the end goes on.
    ///
    /// # Errors
    ///
    /// A descriptor that the library would not write. Everything that was copied stays.
    pub(crate) fn span(&mut self, to: &mut [u64], span: Span) -> Result<Option<u64>, RepaintError> {
        self.reached = span.last;
        if self.begun && self.left == 0 {
            return Ok(None);
        }
        // The way down from the root, which costs as much as some entries even where nothing is mapped.
        self.left = self.left.saturating_sub(G::HOLD / 128 + 1);
        let root = self.editor.root();
        match self.table(&Source { table: root, leaf: None, link: Descriptor::HOLE }, to, span)? {
            None => Ok(Some(self.reached)),
            Some(rest) => Ok((rest > span.first).then(|| rest - 1)),
        }
    }

    /// Copies a table above the last level.
    fn table(&mut self, from: &Source, to: &mut [u64], span: Span) -> Result<Rest, RepaintError> {
        let table = from.table;
        let (mut index, last) = table.entries_of(span, self.editor.geometry);
        while index <= last {
            if self.begun && (self.left == 0 || self.detached.is_full()) {
                return Ok(Some(table.va(index).max(span.first)));
            }
            let next = self.new_pages(from, to, (index, last));
            if next != index {
                index = next;
                continue;
            }
            self.left = self.left.saturating_sub(1);
            let old = self.entry(from, index);
            if let Some(run) = self.kept(from, index, old) {
                self.left = self.left.saturating_sub(run.len() - 1);
                self.reaches(table.span_of(run.end - 1));
                for member in run {
                    self.put(to, (member, table.level), self.editor.load(&table, member));
                    index = index.max(member);
                }
            } else if let Some(below) = self.source(from, index, old)? {
                if let Some(rest) = self.below(&below, (to, index), span)? {
                    return Ok(Some(rest));
                }
            } else {
                self.reaches(table.span_of(index));
                self.put(to, (index, table.level), Descriptor::HOLE);
            }
            index += 1;
        }
        self.holes_from(from, to, index);
        Ok(None)
    }

    /// Fills new page tables for the entries from one on that a leaf above them maps, and that the second tree has not yet: as many
    /// as the hold permits and there are table pages for. Returns the entry after them.
    ///
    /// Inlined, it would take registers from the copying of live tables, which then costs 7% more.
    #[inline(never)]
    fn new_pages(&mut self, from: &Source, to: &mut [u64], (first, last): (usize, usize)) -> usize {
        let (g, table, memory) = (self.editor.geometry, &from.table, self.editor.reserve);
        let Some(leaf) = from.leaf.filter(|_| table.level.down(1) == Level::PAGE) else { return first };
        let (pages, page_shift) = (1 << g.index_bits(), g.page_shift());
        let cost = pages / FILLED + 1;
        let page = leaf.child(table.level, false);
        let link = self.link(leaf);
        let mut index = first;
        while index <= last && to[index] == Descriptor::HOLE.0 && (self.left >= cost || !self.begun) {
            let Some(mut frame) = memory.take() else { break };
            let first_page = page.0.wrapping_add((index as u64) << table.shift);
            memory.with_slots(&mut frame, Level::PAGE, |slots| {
                fill::series(&mut slots[..pages], first_page, 1 << page_shift);
            });
            to[index] = Descriptor::link(frame.into_pa(), g).with_attributes_of(link).0;
            self.left = self.left.saturating_sub(cost);
            self.begun = true;
            self.counters.table();
            index += 1;
        }
        if index != first {
            self.counters.leaves(Level::PAGE, false, ((index - first) * pages) as i64);
            self.reaches(table.span_of(index - 1));
        }
        index
    }

    /// Passes over the entries from one on that are holes in both trees, as far as a hold permits.
    ///
    /// Some of them may be in gigabytes with other locks. What others map there after this has looked is marked.
    fn holes_from(&mut self, from: &Source, to: &[u64], first: usize) {
        // Tables below the entry before may go on after the span.
        if from.leaf.is_some() || first == 0 || self.reached < from.table.span_of(first - 1).last {
            return;
        }
        let most = to.len().min(first.saturating_add(4 * self.left));
        let is_hole = |index: &usize| {
            Descriptor(to[*index]) == Descriptor::HOLE
                && self.editor.load(&from.table, *index) == Descriptor::HOLE
        };
        let passed = (first..most).take_while(is_hole).count();
        if passed != 0 {
            self.left = self.left.saturating_sub(passed.div_ceil(4));
            self.reaches(from.table.span_of(first + passed - 1));
        }
    }

    /// Notes that everything up to the end of a span has been copied.
    fn reaches(&mut self, span: Span) {
        self.begun = true;
        self.reached = self.reached.max(span.last);
    }

    /// Returns the counterpart for the table below an entry, or `None` for a hole.
    fn source(&self, from: &Source, index: usize, old: Descriptor) -> Result<Option<Source>, RepaintError> {
        let (g, table) = (self.editor.geometry, &from.table);
        if old.is_table(table.level) {
            return Ok(Some(Source { table: self.editor.below(table, index, old), leaf: None, link: old }));
        }
        if old.is_leaf(g, table.level) {
            let first = Some(old.child(table.level, false));
            let link = self.link(old);
            return Ok(Some(Source { table: table.offline(table.va(index), g), leaf: first, link }));
        }
        if old.is_valid() { Err(RepaintError::NotUnderstood { va: Va(table.va(index)) }) } else { Ok(None) }
    }

    /// Returns a descriptor with the attributes of a table that replaces a leaf.
    fn link(&self, leaf: Descriptor) -> Descriptor {
        let attributes = Attributes::from_bits_retain(leaf.0);
        Descriptor::HOLE.with(self.editor.tables().table_attributes().within(attributes))
    }

    fn entry(&self, from: &Source, index: usize) -> Descriptor {
        match from.leaf {
            None => self.editor.load(&from.table, index),
            Some(first) => Descriptor(first.0.wrapping_add((index as u64) << from.table.shift)),
        }
    }

    /// Returns the entries of a leaf that keeps its size, which are all members if it is in a run. Returns `None` for
    /// other entries.
    fn kept(&self, from: &Source, index: usize, old: Descriptor) -> Option<core::ops::Range<usize>> {
        let (g, table) = (self.editor.geometry, &from.table);
        if self.keep.is_empty() || from.leaf.is_some() || !old.is_leaf(g, table.level) {
            return None;
        }
        let members = if old.is_contiguous() { g.contiguous_entries(table.level) } else { 1 };
        let first = index & !(members - 1);
        self.keeps(table.run_of(index, members)).then_some(first..first + members)
    }

    fn keeps(&self, leaf: Span) -> bool {
        self.keep.iter().any(|keep| keep.0.0 <= leaf.first && leaf.last <= keep.1.0)
    }

    /// Copies the range of one entry of the second tree, which then points to a table.
    fn below(
        &mut self,
        from: &Source,
        (to, index): (&mut [u64], usize),
        span: Span,
    ) -> Result<Rest, RepaintError> {
        let (g, level) = (self.editor.geometry, from.table.level);
        let new = !Descriptor(to[index]).is_table(Level::new(level.number() - 1));
        let part = match level {
            _ if new => 0..1 << g.index_bits(),
            Level::PAGE => part(&from.table, span, g),
            _ => 0..0,
        };
        // What pages replace is counted first.
        let cost = if new { part.len() } else { 2 * part.len() };
        self.starved = new && self.editor.reserve.count() == 0;
        if self.starved || self.begun && self.left < cost {
            return Ok(Some(from.table.base.max(span.first)));
        }
        self.left = self.left.saturating_sub(cost);
        self.begun |= cost != 0;
        let mut frame = self.open(from, (to, index))?;
        self.editor.platform.with_slots(&mut frame, level, |slots| {
            let slots = &mut slots[..1 << g.index_bits()];
            if level != Level::PAGE {
                return self.table(from, slots, span);
            }
            self.reaches(from.table.span_of(part.end - 1));
            self.pages(from, slots, part, new).map(|()| None)
        })
    }

    /// Returns the table that an entry of the second tree points to, and makes one if there is none.
    #[inline(never)]
    fn open(&self, from: &Source, (to, index): (&mut [u64], usize)) -> Result<Frame, RepaintError> {
        let (memory, g, level) = (self.editor.reserve, self.editor.geometry, from.table.level);
        let above = Level::new(level.number() - 1);
        let now = Descriptor(to[index]);
        if now.is_table(above) {
            to[index] = now.with_attributes_of(from.link).0;
            // SAFETY: the second tree owns the table, whose only pointer is in this entry.
            return Ok(unsafe { Frame::from_pa(now.next_table(g)) });
        }
        let mut frame = memory.take().ok_or_else(|| OutOfFrames(self.counters.tables()))?;
        self.counters.table();
        if level != Level::PAGE {
            memory.with_slots(&mut frame, level, |slots| {
                let slots = &mut slots[..1 << g.index_bits()];
                if !now.is_leaf(g, above) {
                    return fill::holes(slots);
                }
                // A leaf that kept its size until now. Its parts outside the span do not change.
                fill::series(slots, now.child(above, false).0, 1 << from.table.shift);
                self.counters.leaves(level, false, slots.len() as i64);
            });
        }
        let (pa, link) = (frame.pa(), Descriptor::link(frame.into_pa(), g).with_attributes_of(from.link));
        if now.is_leaf(g, above) {
            self.dissolve(to, (index, above), now);
            self.counters.leaves(above, false, -1);
        }
        to[index] = link.0;
        // SAFETY: the frame was given up for this entry only.
        Ok(unsafe { Frame::from_pa(pa) })
    }

    /// Replaces an entry of the second tree by a leaf or a hole.
    fn put(&mut self, to: &mut [u64], (index, level): (usize, Level), new: Descriptor) {
        let g = self.editor.geometry;
        let old = Descriptor(to[index]);
        if old.is_table(level) {
            self.detached.add(old, level.down(1));
        } else if old.is_leaf(g, level) {
            let stays = new.is_leaf(g, level) && new.is_contiguous();
            if !stays {
                self.dissolve(to, (index, level), old);
            }
            self.counters.leaves(level, stays && old.is_contiguous(), -1);
        }
        to[index] = new.0;
        if new.is_leaf(g, level) {
            self.counters.leaves(level, new.is_contiguous(), 1);
        }
    }

    /// Dissolves the run that a leaf of the second tree is in, if it is in one.
    fn dissolve(&self, to: &mut [u64], (index, level): (usize, Level), old: Descriptor) {
        if old.is_contiguous() {
            let members = self.editor.geometry.contiguous_entries(level);
            let first = index & !(members - 1);
            let run = &mut to[first..first + members];
            run.iter_mut().for_each(|member| *member = Descriptor(*member).without_contiguous().0);
            self.counters.dissolved(level, members as i64);
        }
    }

    /// Fills a part of a page table.
    #[inline(never)]
    fn pages(
        &self,
        from: &Source,
        slots: &mut [u64],
        part: Range<usize>,
        new: bool,
    ) -> Result<(), RepaintError> {
        let (g, first) = (self.editor.geometry, part.start);
        let to = &mut slots[part];
        if !new {
            let before = Tally::of(to, g);
            self.counters.leaves(Level::PAGE, false, -(before.plain as i64));
            self.counters.leaves(Level::PAGE, true, -(before.runs as i64));
        }
        match from.leaf {
            Some(leaf) => {
                let shift = from.table.shift;
                fill::series(to, leaf.0.wrapping_add((first as u64) << shift), 1 << shift);
                self.counters.leaves(Level::PAGE, false, to.len() as i64);
                Ok(())
            }
            None => self.copy(&from.table, first, to),
        }
    }

    /// Copies entries of a page table from the one at `first` on. Runs become single pages, except for those that keep
    /// their size.
    fn copy(&self, from: &Table, first: usize, to: &mut [u64]) -> Result<(), RepaintError> {
        let members = self.editor.geometry.contiguous_entries(Level::PAGE);
        let last = from.span_of(first + to.len() - 1).last;
        let keeps = self.keep.iter().any(|keep| keep.0.0 <= last && from.va(first) <= keep.1.0);
        let mut tally = Tally::default();
        for (index, eight) in (first..).step_by(8).zip(to.as_chunks_mut::<8>().0) {
            // A run has a multiple of eight members.
            let whole = keeps && self.keeps(from.run_of(index, members));
            let of = |d: Descriptor| if whole { d } else { d.without_contiguous() };
            *eight = self.editor.slots(from).load_eight(index).map(|entry| of(entry).0);
            tally.add(eight, self.editor.geometry);
        }
        self.counters.leaves(Level::PAGE, false, tally.plain as i64);
        self.counters.leaves(Level::PAGE, true, tally.runs as i64);
        if tally.strange { Err(RepaintError::NotUnderstood { va: Va(from.base) }) } else { Ok(()) }
    }
}

/// Tables of the second tree that a leaf or a hole has replaced, and their levels. They are given back after the hold.
pub(crate) struct Detached {
    tables: [Descriptor; Self::ROOM],
    levels: [Level; Self::ROOM],
    used: usize,
}

impl Detached {
    /// The most entries of a run above the last level.
    const RUN: usize = 32;
    /// A hold ends when more are used than leave room for a run.
    const ROOM: usize = Self::RUN + 24;

    pub(crate) const fn new() -> Self {
        Self { tables: [Descriptor::HOLE; Self::ROOM], levels: [Level::PAGE; Self::ROOM], used: 0 }
    }

    /// Returns true if the entries of a run may not have room any more.
    pub(crate) const fn is_full(&self) -> bool {
        self.used > Self::ROOM - Self::RUN
    }

    /// Adds a table at `level`, with all tables below it. No entry points to it any more.
    pub(crate) fn add(&mut self, table: Descriptor, level: Level) {
        (self.tables[self.used], self.levels[self.used]) = (table, level);
        self.used += 1;
    }

    /// Gives all of them back, and subtracts them from the counts. No lock is held.
    pub(crate) fn give_back<M: Memory>(&mut self, memory: &M, g: Geometry, counters: &Counters) {
        for (table, level) in self.tables[..take(&mut self.used)].iter().zip(self.levels) {
            discard(memory, g, Some(counters), (*table, level));
        }
    }
}

/// Returns the entries of a page table that contain a span, in whole runs.
fn part(table: &Table, span: Span, g: Geometry) -> Range<usize> {
    // A run has a multiple of eight members.
    let members = g.contiguous_entries(Level::PAGE);
    let (first, last) = table.entries_of(span, g);
    first & !(members - 1)..(last | (members - 1)) + 1
}
