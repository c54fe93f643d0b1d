//! Splits leaves at several addresses: all of them or none.
//!
//! The replacement tables are built off line, one after the other, and noted. Nothing is stored in a live table before
//! the last one is complete. A leaf that is split at two places is noted once, and its replacement is split again. So
//! when table pages run out, the replacements are given back, and no live table has been touched. Finally all stores
//! are made together, or in one parking.

use crate::build::discard;
use crate::edit::{Editor, Guard, Needs, Resize, Stop, parks, tables_for_ends};
use crate::format::{Descriptor, LeafChange, Span};
use crate::plan::Policy;
use crate::platform::EntryUpdate;
use crate::read::Table;

/// The number of leaves that are split in one hold, and so in one parking. Each needs at most two stores: one to
/// dissolve its run, one to replace it.
const MOST: usize = EntryUpdate::MOST / 2;

/// The pending stores.
pub(crate) struct Cuts<'a, G: Guard> {
    editor: &'a Editor<'a, G>,
    /// The changes that follow.
    changes: [LeafChange; 2],
    cuts: [Option<Resize>; MOST],
    used: usize,
}

impl<'a, G: Guard> Cuts<'a, G> {
    /// Returns none, of leaves that these changes are made to later.
    pub(crate) const fn new(editor: &'a Editor<'a, G>, changes: [LeafChange; 2]) -> Self {
        Self { editor, changes, cuts: [None; MOST], used: 0 }
    }

    /// Returns the number of table pages that it takes to split the leaves at the ends of a span, if none has another end.
    pub(crate) fn frames(editor: &Editor<'_, G>, change: LeafChange, span: Span) -> u64 {
        let of = |va| {
            let (table, index) = editor.entry_of(va);
            let (old, leaf) = (editor.load(&table, index), table.span_of(index));
            let stays = change.of(old, table.level) == old;
            let tables = if stays { 0 } else { tables_for_ends(editor.geometry, table.level, leaf, span) };
            (tables, leaf.last)
        };
        let (first, last) = of(span.first);
        first + if last < span.last { of(span.last).0 } else { 0 }
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
        let (table, index) = editor.entry_of(va);
        let (old, at) = (editor.load(&table, index), table.span_of(index));
        let members = editor.run(&table, old);
        let run = members.map_or(at, |members| table.run_of(index, members));
        if change.of(old, table.level) == old || span.covers(run.first, run.last) {
            return Ok(at.last);
        }
        editor.tables().owns(run)?;
        editor.covers(run)?;
        // All cuts of a leaf get the same tables, whichever of the changes they are for.
        let [one, other] = self.changes;
        let replacement = editor.replacement(LeafChange::NONE, span);
        let replacement = replacement.before(one, old, table.level).before(other, old, table.level);
        let known = self.known(&table, index, run);
        let dissolves = members.filter(|_| !known.dissolved);
        if span.covers(at.first, at.last) {
            if dissolves.is_some() {
                self.push(Resize { table, index, dissolves, link: None })?;
            }
        } else if let Some(link) = known.link {
            replacement.cut_again(link, &table, at.first)?;
        } else {
            let link = Some(replacement.leaf(old, &table, at.first)?);
            self.push(Resize { table, index, dissolves, link })?;
        }
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

    fn push(&mut self, cut: Resize) -> Result<(), Stop> {
        let Some(place) = self.cuts.get_mut(self.used) else {
            self.discard(&cut);
            return Err(Stop::TooLong);
        };
        *place = Some(cut);
        self.used += 1;
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = Resize> + Clone {
        self.cuts[..self.used].iter().flatten().copied()
    }

    /// Gives back the replacement of an entry, if there is one.
    fn discard(&self, cut: &Resize) {
        let editor = self.editor;
        if let Some(link) = cut.link {
            let below = (link, cut.table.level.down(1));
            discard(editor.reserve, editor.geometry, editor.guard.counters(), below);
        }
    }

    /// Gives back all replacements, since a cut could not be added. Returns the reason, with the number of pages that all of them
    /// take.
    #[cold]
    pub(crate) fn undone(&self, error: Stop) -> Stop {
        self.all().for_each(|cut| self.discard(&cut));
        match error {
            Stop::Needs(Needs::Frames(_)) => {
                // All are in the reserve again. Cuts that share a leaf share tables, so the sum is not known.
                let had = self.editor.reserve.count();
                Needs::MoreFrames { least: had + 1, wish: 2 * had + 2 }.into()
            }
            other => other,
        }
    }

    /// Makes all stores. Translations stay as they are, so nothing is invalidated.
    ///
    /// # Errors
    ///
    /// CPUs do not park. Nothing is stored, and all replacements are given back.
    pub(crate) fn carry_out(&self, (policy, in_use): (Policy, bool)) -> Result<(), Stop> {
        if parks(policy, in_use) {
            return self.carry_out_parked();
        }
        Resize::all_in_place(self.editor, self.all(), true);
        Ok(())
    }

    #[cold]
    fn carry_out_parked(&self) -> Result<(), Stop> {
        let mut all = self.all();
        let Some(first) = all.next() else { return Ok(()) };
        let mut cuts = [first; MOST];
        cuts[1..].iter_mut().zip(all).for_each(|(place, cut)| *place = cut);
        Resize::all::<G, { EntryUpdate::MOST }>(self.editor, (Policy::Park, true), &cuts[..self.used], true)
    }
}

/// The notes about an entry and its run.
struct Known {
    /// The tables that replace it.
    link: Option<Descriptor>,
    /// True if its run is dissolved.
    dissolved: bool,
}
