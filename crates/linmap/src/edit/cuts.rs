//! The one cutter: splits leaves at the ends of spans, all of them or none, so that a change affects whole leaves only.
//!
//! The replacement tables are built off line, one after the other, and noted. Nothing is stored in a live table before
//! the last one is complete. A leaf that is split at two places is noted once, and its replacement is split again. So
//! when table pages run out, the replacements are given back, and no live table has been touched. Finally all stores
//! are made together, or in one parking.

use crate::batch::TlbBatch;
use crate::edit::editor::Editor;
use crate::edit::guard::Guard;
use crate::edit::resize::Resize;
use crate::edit::stop::Stop;
use crate::format::{Descriptor, Geometry, LeafChange, Level, Span};
use crate::plan::Policy;
use crate::read::Table;

/// The pending stores, of at most so many leaves and runs. Each needs at most two: one to dissolve its run, one to replace it.
pub(crate) struct Cuts<'a, G: Guard, const MOST: usize> {
    editor: &'a Editor<'a, G>,
    /// The change that is in the tables that replace a leaf, or none: then translations stay as they are.
    built: LeafChange,
    /// Changes that may follow: new tables remove nothing from a leaf with any of them either.
    later: &'a [LeafChange],
    cuts: [Option<Resize>; MOST],
    used: usize,
}

impl<G: Guard> Cuts<'_, G, 2> {
    /// Cuts the leaves and runs that contain the ends of one span, for a change of it. Others may follow `later`. `in_use` is the first
    /// of them that is in use. With a batch, the change is in the tables that replace them, and what TLBs may hold goes into the batch.
    /// Otherwise translations stay as they are.
    ///
    /// # Errors
    ///
    /// The policy or the CPUs do not permit it, or it takes more than the guard covers, or table pages. Nothing has changed.
    pub(crate) fn at_ends(
        editor: &Editor<'_, G>,
        (change, later, span): (LeafChange, &[LeafChange], Span),
        in_use: Option<u64>,
        batch: Option<&mut TlbBatch>,
    ) -> Result<(), Stop> {
        let policy = editor.policy;
        editor.may_resize(policy, in_use)?;
        editor.guard.settle(editor, span);
        let built = if batch.is_some() { change } else { LeafChange::NONE };
        let mut cuts = Cuts::<G, 2>::new(editor, built, later);
        if let Err(stop) = cuts.add(change, span) {
            cuts.discard_all();
            return Err(stop);
        }
        let in_use = in_use.is_some();
        cuts.carry_out((policy, in_use))?;
        if in_use
            && policy != Policy::Park
            && let Some(batch) = batch
        {
            for Resize { table, index, .. } in cuts.all().filter(|cut| cut.link.is_some()) {
                // One TLB entry held the leaf, so any of its addresses invalidates it (D8.17, RLGSCG).
                let Span { first, last } = table.span_of(index).common(span);
                batch.add(first, last, table.shift);
            }
        }
        Ok(())
    }
}

impl<'a, G: Guard, const MOST: usize> Cuts<'a, G, MOST> {
    /// Returns none, of leaves whose tables are built with this change, and which may change so later.
    pub(crate) const fn new(editor: &'a Editor<'a, G>, built: LeafChange, later: &'a [LeafChange]) -> Self {
        Self { editor, built, later, cuts: [None; MOST], used: 0 }
    }

    /// Splits the leaves that contain the ends of a span, if the change affects them. All of the span must be mapped.
    ///
    /// # Errors
    ///
    /// It takes more table pages or locks, or these are too many for one hold.
    pub(crate) fn add(&mut self, change: LeafChange, span: Span) -> Result<(), Stop> {
        let last = self.add_end(change, span, span.first)?;
        if last < span.last {
            self.add_end(change, span, span.last)?;
        }
        Ok(())
    }

    /// Splits the leaf that contains one end of the span, if necessary. Returns the last address of that leaf.
    fn add_end(&mut self, change: LeafChange, span: Span, va: u64) -> Result<u64, Stop> {
        let editor = self.editor;
        let end = End::of(editor, change, va);
        let End { table, index, entry: old, at, stays } = end;
        let members = editor.run(&table, old);
        let run = members.map_or(at, |members| table.run_of(index, members));
        if stays || span.covers(run.first, run.last) {
            return Ok(at.last);
        }
        editor.tables().owns(run)?;
        editor.covers(run)?;
        let known = self.known(&table, index, run);
        let dissolves = members.filter(|_| !known.dissolved);
        if span.covers(at.first, at.last) {
            if dissolves.is_some() {
                self.push(Resize { table, index, dissolves, link: None })?;
            }
            return Ok(at.last);
        }
        // All cuts of a leaf get the same tables, whichever of the changes they are for.
        let mut replacement = editor.replacement(self.built, span).before(change, old, table.level);
        for later in self.later {
            replacement = replacement.before(*later, old, table.level);
        }
        if let Some(link) = known.link {
            // Only one span changes with its cut.
            debug_assert_eq!(self.built.set | self.built.clear, 0);
            replacement.cut_again(link, &table, at.first)?;
            return Ok(at.last);
        }
        // Nothing is built that would be given back because the other end takes more.
        let is_first = va == span.first && at.last < span.last;
        let others = if is_first { self.frames_at(change, span, span.last) } else { 0 };
        editor.has_frames(end.frames(editor.geometry, span) + others)?;
        let link = Some(replacement.leaf(old, &table, at.first)?);
        self.push(Resize { table, index, dissolves, link })?;
        Ok(at.last)
    }

    /// Returns the notes about an entry and its run.
    fn known(&self, table: &Table, index: usize, run: Span) -> Known {
        let mut known = Known { link: None, dissolved: false };
        for cut in self.all().filter(|cut| cut.table.pa == table.pa) {
            known.link = known.link.or(cut.link.filter(|_| cut.index == index));
            let va = table.va(cut.index);
            known.dissolved |= cut.dissolves.is_some() && run.covers(va, va);
        }
        known
    }

    /// Returns the number of table pages that it takes to split the leaf at an end of the span: none if it is noted already.
    fn frames_at(&self, change: LeafChange, span: Span, va: u64) -> u64 {
        let end = End::of(self.editor, change, va);
        let is_noted = self.known(&end.table, end.index, end.at).link.is_some();
        if is_noted { 0 } else { end.frames(self.editor.geometry, span) }
    }

    fn push(&mut self, cut: Resize) -> Result<(), Stop> {
        let Some(place) = self.cuts.get_mut(self.used) else {
            cut.discard(self.editor);
            return Err(Stop::TooLong);
        };
        *place = Some(cut);
        self.used += 1;
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = Resize> + Clone {
        self.cuts[..self.used].iter().flatten().copied()
    }

    /// Gives back all replacements, since a cut could not be added.
    #[cold]
    #[inline(never)]
    pub(crate) fn discard_all(&self) {
        self.all().for_each(|cut| cut.discard(self.editor));
    }

    /// Makes all stores.
    ///
    /// # Errors
    ///
    /// CPUs do not park. Nothing is stored, and all replacements are given back.
    pub(crate) fn carry_out(&self, how: (Policy, bool)) -> Result<(), Stop> {
        Resize::all::<G, MOST>(self.editor, how, self.all(), true)
    }
}

/// The notes about an entry and its run.
struct Known {
    /// The tables that replace it.
    link: Option<Descriptor>,
    /// True if its run is dissolved.
    dissolved: bool,
}

/// The leaf, or the hole, that contains an end of a span.
struct End {
    table: Table,
    index: usize,
    entry: Descriptor,
    /// Its addresses.
    at: Span,
    /// True if the change leaves it as it is.
    stays: bool,
}

impl End {
    #[inline(always)]
    fn of<G: Guard>(editor: &Editor<'_, G>, change: LeafChange, va: u64) -> Self {
        let (table, index) = editor.entry_of(va);
        let entry = editor.load(&table, index);
        let stays = change.of(entry, table.level) == entry || !editor.tables().is_leaf(entry, table.level);
        Self { table, index, entry, at: table.span_of(index), stays }
    }

    /// Returns the number of table pages that it takes to split it at the ends of the span.
    fn frames(&self, g: Geometry, span: Span) -> u64 {
        if self.stays { 0 } else { tables_for_ends(g, self.table.level, self.at, span) }
    }
}

/// Returns the number of table pages that it takes to split the leaves at the ends of a span, if none has another end.
pub(crate) fn frames_at_ends<G: Guard>(editor: &Editor<'_, G>, change: LeafChange, span: Span) -> u64 {
    let first = End::of(editor, change, span.first);
    let frames = |end: End| end.frames(editor.geometry, span);
    let others = if first.at.last < span.last { frames(End::of(editor, change, span.last)) } else { 0 };
    frames(first) + others
}

/// Returns the number of tables that replace a leaf at `level` if a part of it is in `span`: one for each entry that
/// contains an end of the span, at each level.
pub(crate) fn tables_for_ends(g: Geometry, level: Level, leaf: Span, span: Span) -> u64 {
    let Span { first, last } = leaf.common(span);
    // After the highest address comes 0.
    let (mut tables, after) = (0, last.wrapping_add(1));
    let mut shift = g.level_shift(level);
    while shift > g.page_shift() {
        let within = (1u64 << shift) - 1;
        let begins = first & within != 0 || first >> shift == last >> shift && after & within != 0;
        let ends = after & within != 0 && first >> shift != last >> shift;
        tables += u64::from(begins) + u64::from(ends);
        shift -= g.index_bits();
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{Counters, Replacement};
    use crate::format::TableAttributes;
    use crate::platform::host::HostMemory;
    use crate::tests::geometries;
    use test_support::prelude::*;

    proptest! {
        /// The tables that are counted are those that are built.
        #[test]
        fn as_many_tables_as_are_built(seed: u64, pages: u64) {
            for g in geometries() {
                let memory = HostMemory::new(g, 16);
                let level = g.first_leaf_level();
                if level == Level::PAGE { continue }
                let shift = g.level_shift(level);
                let all = 1u64 << (shift - g.page_shift());
                let base = g.base(crate::format::Half::Upper);
                let first = seed % all;
                let count = pages % (all - first) + 1;
                if count == all { continue }
                let page = g.page_shift();
                let span = Span { first: base + (first << page), last: base + ((first + count) << page) - 1 };
                let leaf = Span { first: base, last: base + ((1 << shift) - 1) };
                let counters = Counters::new();
                let leaf_of = crate::format::Leaf {
                    oa: crate::format::Pa(0),
                    attributes: crate::format::Attributes::RAM,
                    contiguous: false,
                    valid: true,
                };
                let old = crate::format::Descriptor::leaf(leaf_of, g, level);
                let change = LeafChange { set: 1 << 54, ..LeafChange::NONE };
                let above = Table { pa: crate::format::Pa(0), words: core::ptr::null_mut(), level, shift, base };
                let built = Replacement { memory: &memory, geometry: g, tables: TableAttributes::empty(), change, span, pages: false, counters: Some(&counters) };
                prop_assert!(built.leaf(old, &above, base).is_ok());
                prop_assert_eq!(memory.in_use() as u64, tables_for_ends(g, level, leaf, span), "{:?} {} {}", g, first, count);
            }
        }
    }
}
