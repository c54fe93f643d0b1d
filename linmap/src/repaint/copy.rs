//! Brings a second tree, which no walker reaches, into line with the live one: the same translations, in pages.
//!
//! Tables are descended, leaves become pages unless they are in `keep`, and a hole clears the copy's entry. So copying
//! a span twice has the same result as copying it once, and a span in which the live tree has changed is copied again.
//! Page tables are copied as a whole.

use crate::build::{Counters, OutOfFrames, discard, fill_holes, fill_with_step};
use crate::format::{Descriptor, Geometry, Level, Span, TableLimits, Va};
use crate::live::Locked;
use crate::platform::{Frame, Platform};
use crate::read::Table;
use crate::repaint::error::RepaintError;

/// A piece of the copying.
pub(crate) struct Copy<'a, P> {
    pub(crate) locked: Locked<'a, P>,
    /// The ranges within which leaves keep their size.
    pub(crate) keep: &'a [(Va, Va)],
    /// The counts of the second tree.
    pub(crate) counters: &'a Counters,
    /// The number of descriptors that may still be read or written.
    pub(crate) left: usize,
}

/// The counterpart in the live tree of a table in the second tree.
struct Source {
    table: Table,
    /// A leaf that contains all of the table's range, as the descriptor that the table's first entry would have.
    leaf: Option<Descriptor>,
}

/// The address from which the rest of the span is still to be copied, or `None`.
type Rest = Option<u64>;

impl<P: Platform> Copy<'_, P> {
    /// Brings the entries of the second root, and everything below them, into line with those of the live root. It may
    /// stop before the end of the span, and returns the rest.
    ///
    /// # Errors
    ///
    /// Out of frames, or a descriptor that the library would not write. Everything that was copied stays.
    pub(crate) fn span(&mut self, root: Table, to: &mut [u64], span: Span) -> Result<Rest, RepaintError> {
        self.table(&Source { table: root, leaf: None }, to, span)
    }

    /// Copies a table above the last level.
    fn table(&mut self, from: &Source, to: &mut [u64], span: Span) -> Result<Rest, RepaintError> {
        let (g, table) = (self.locked.geometry, from.table);
        let (mut index, last) = table.entries_of(span, g);
        while index <= last {
            if self.left == 0 {
                return Ok(Some(table.va(index).max(span.first)));
            }
            self.left -= 1;
            let old = self.entry(from, index);
            if let Some(run) = self.kept(from, index, old) {
                self.left = self.left.saturating_sub(run.len() - 1);
                for member in run {
                    self.put(to, (member, table.level), self.locked.load(&table, member));
                    index = index.max(member);
                }
            } else if let Some(below) = self.source(from, index, old)? {
                if let Some(rest) = self.below(&below, (to, index), span)? {
                    return Ok(Some(rest));
                }
            } else {
                self.put(to, (index, table.level), Descriptor::HOLE);
            }
            index += 1;
        }
        Ok(None)
    }

    /// Returns the counterpart for the table below an entry, or `None` for a hole.
    fn source(&self, from: &Source, index: usize, old: Descriptor) -> Result<Option<Source>, RepaintError> {
        let (g, table) = (self.locked.geometry, &from.table);
        if old.is_table(table.level) && TableLimits::of(old).is_empty() {
            return Ok(Some(Source { table: self.locked.below(table, index, old), leaf: None }));
        }
        if old.is_leaf(g, table.level) {
            let first = Some(old.child(table.level, false));
            return Ok(Some(Source { table: table.offline(table.va(index), g), leaf: first }));
        }
        if old.is_valid() { Err(RepaintError::NotUnderstood { va: Va(table.va(index)) }) } else { Ok(None) }
    }

    fn entry(&self, from: &Source, index: usize) -> Descriptor {
        match from.leaf {
            None => self.locked.load(&from.table, index),
            Some(first) => Descriptor(first.0.wrapping_add((index as u64) << from.table.shift)),
        }
    }

    /// Returns the entries of a leaf that keeps its size, which are all members if it is in a run. Returns `None` for
    /// other entries.
    fn kept(&self, from: &Source, index: usize, old: Descriptor) -> Option<core::ops::Range<usize>> {
        let (g, table) = (self.locked.geometry, &from.table);
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
        let mut frame = self.open(from, (to, index))?;
        let slots = &mut self.locked.platform.slots(&mut frame)[..1 << self.locked.geometry.index_bits()];
        if from.table.level != Level::PAGE {
            return self.table(from, slots, span);
        }
        self.left = self.left.saturating_sub(slots.len());
        match from.leaf {
            Some(first) => {
                fill_with_step(slots, first.0, 1 << from.table.shift);
                self.counters.leaves(Level::PAGE, false, slots.len() as i64);
            }
            None => self.copy(&from.table, slots)?,
        }
        Ok(None)
    }

    /// Returns the table that an entry of the second tree points to, and makes one if there is none. A page table is
    /// about to be overwritten, so its contents are subtracted from the counts.
    fn open(&self, from: &Source, (to, index): (&mut [u64], usize)) -> Result<Frame, RepaintError> {
        let (memory, g, level) = (self.locked.platform, self.locked.geometry, from.table.level);
        let above = Level::new(level.number() - 1);
        let now = Descriptor(to[index]);
        if now.is_table(above) {
            // SAFETY: the second tree owns the table, whose only pointer is in this entry.
            let mut frame = unsafe { Frame::from_pa(now.next_table(g)) };
            if level == Level::PAGE {
                let before = Tally::of(memory.slots(&mut frame), g, Level::PAGE);
                self.counters.leaves(Level::PAGE, false, -(before.plain as i64));
                self.counters.leaves(Level::PAGE, true, -(before.runs as i64));
            }
            return Ok(frame);
        }
        let mut frame = memory.take().ok_or_else(|| OutOfFrames(self.counters.tables()))?;
        self.counters.table();
        let slots = &mut memory.slots(&mut frame)[..1 << g.index_bits()];
        if level != Level::PAGE && now.is_leaf(g, above) {
            // A leaf that kept its size until now. Its parts outside the span do not change.
            fill_with_step(slots, now.child(above, false).0, 1 << from.table.shift);
            self.counters.leaves(level, false, slots.len() as i64);
        } else if level != Level::PAGE {
            fill_holes(slots);
        }
        let table = frame.into_pa();
        self.put(to, (index, above), Descriptor::link(table, g));
        // SAFETY: the frame was given up for this entry only.
        Ok(unsafe { Frame::from_pa(table) })
    }

    /// Replaces an entry of the second tree.
    fn put(&self, to: &mut [u64], (index, level): (usize, Level), new: Descriptor) {
        let (memory, g) = (self.locked.platform, self.locked.geometry);
        let old = Descriptor(to[index]);
        if old.is_table(level) {
            discard(memory, g, self.counters, (old, level.down(1)));
        } else if old.is_leaf(g, level) {
            let leaves = old.is_contiguous() && !(new.is_leaf(g, level) && new.is_contiguous());
            if leaves {
                let members = g.contiguous_entries(level);
                let first = index & !(members - 1);
                to[first..first + members]
                    .iter_mut()
                    .for_each(|m| *m = Descriptor(*m).without_contiguous().0);
                self.counters.dissolved(level, members as i64);
            }
            self.counters.leaves(level, old.is_contiguous() && !leaves, -1);
        }
        to[index] = new.0;
        if new.is_leaf(g, level) {
            self.counters.leaves(level, new.is_contiguous(), 1);
        }
    }

    /// Copies a whole page table. Runs become single pages, except for those that keep their size.
    fn copy(&self, from: &Table, to: &mut [u64]) -> Result<(), RepaintError> {
        let members = self.locked.geometry.run_below(Level::PAGE);
        let last = from.span_of(to.len() - 1).last;
        let keeps = self.keep.iter().any(|keep| keep.0.0 <= last && from.base <= keep.1.0);
        let mut tally = Tally::default();
        for (n, eight) in to.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // A run has a multiple of eight members.
            let whole = keeps && self.keeps(from.run_of(8 * n, members));
            let of = |d: Descriptor| if whole { d } else { d.without_contiguous() };
            *eight = self.locked.load_eight(from, 8 * n).map(|entry| of(entry).0);
            tally.add(eight, self.locked.geometry);
        }
        self.counters.leaves(Level::PAGE, false, tally.plain as i64);
        self.counters.leaves(Level::PAGE, true, tally.runs as i64);
        if tally.strange { Err(RepaintError::NotUnderstood { va: Va(from.base) }) } else { Ok(()) }
    }
}

/// The entries of a table, by kind.
#[derive(Default)]
pub(crate) struct Tally {
    /// The number of leaves that are not in runs.
    pub(crate) plain: usize,
    /// The number of leaves in runs.
    pub(crate) runs: usize,
    /// True if a valid entry is reserved.
    strange: bool,
}

impl Tally {
    /// Counts all entries of a table at a level.
    pub(crate) fn of(slots: &[u64], g: Geometry, level: Level) -> Self {
        let mut tally = Self::default();
        for eight in slots.as_chunks().0 {
            match level {
                Level::PAGE => tally.add(eight, g),
                _ => tally.add_each(eight, g, level),
            }
        }
        tally
    }

    /// Counts eight entries. They are usually of the same kind.
    #[inline(always)]
    fn add(&mut self, eight: &[u64; 8], g: Geometry) {
        let all = Descriptor(eight.iter().fold(u64::MAX, |all, entry| all & entry));
        let any = Descriptor(eight.iter().fold(0, |any, entry| any | entry));
        if all.is_valid() && all.is_leaf(g, Level::PAGE) && !any.is_contiguous() {
            self.plain += eight.len();
        } else if any != Descriptor::HOLE {
            self.add_each(eight, g, Level::PAGE);
        }
    }

    #[cold]
    fn add_each(&mut self, eight: &[u64; 8], g: Geometry, level: Level) {
        for entry in eight.map(Descriptor) {
            match entry.is_leaf(g, level) {
                true if entry.is_contiguous() => self.runs += 1,
                true => self.plain += 1,
                false => self.strange |= entry.is_valid(),
            }
        }
    }
}
