//! Splits leaves at any number of addresses: all of them or none.
//!
//! The replacement tables are built off line, one after the other, and recorded in a list. Nothing is stored in a live
//! table before the last one is complete. A leaf that is split at two places is in the list once, and its replacement
//! is split again. So when table pages run out, the replacements are given back, and no live table has been touched.
//! Finally all stores are made together, or in parkings with up to [`EntryUpdate::MOST`] stores each.

use crate::alias::records::{Record, Records};
use crate::build::{OutOfFrames, discard};
use crate::format::{Descriptor, LeafChange, Level, Pa, Span};
use crate::live::{Locked, Reserve, Resize, Stop, parks};
use crate::plan::Policy;
use crate::platform::{EntryUpdate, Platform};
use crate::read::Table;

/// The number of leaves that are split in one parking. Each needs at most two stores: one to dissolve its run, one to
/// replace it.
const AT_ONCE: usize = EntryUpdate::MOST / 2;

/// The pending stores.
pub(crate) struct Cuts<'a, P: Platform> {
    locked: &'a Locked<'a, P>,
    list: Records<'a, Reserve<'a, P>>,
}

impl<'a, P: Platform> Cuts<'a, P> {
    /// Returns an empty list.
    pub(crate) const fn new(locked: &'a Locked<'a, P>) -> Self {
        Self { locked, list: Records::new(locked.reserve) }
    }

    /// Splits the leaves that contain the ends of a span, if the change affects them. All of the span must be mapped.
    ///
    /// # Errors
    ///
    /// It takes more table pages or locks.
    pub(crate) fn add(&mut self, change: LeafChange, span: Span) -> Result<(), Stop> {
        let last = self.add_end(change, span, span.first)?;
        if last < span.last {
            self.add_end(change, span, span.last)?;
        }
        Ok(())
    }

    /// Splits the leaf that contains one end of the span, if necessary. Returns the last address of that leaf.
    fn add_end(&mut self, change: LeafChange, span: Span, va: u64) -> Result<u64, Stop> {
        let locked = self.locked;
        let (table, index) = locked.entry_of(va);
        let (old, at) = (locked.load(&table, index), table.span_of(index));
        let run = locked.run(&table, old).map_or(at, |members| table.run_of(index, members));
        if change.of(old, table.level) == old || span.covers(run.first, run.last) {
            return Ok(at.last);
        }
        locked.state.owns(run)?;
        locked.covers(run)?;
        let replacement = locked.replacement(LeafChange::NONE, span);
        let known = self.known(&table, index, run);
        if span.covers(at.first, at.last) {
            if !known.dissolved {
                self.push(&table, index, true, None)?;
            }
        } else if let Some(link) = known.link {
            replacement.cut_again(link, &table, at.first)?;
        } else {
            let link = replacement.leaf(old, &table, at.first)?;
            self.push(&table, index, old.is_contiguous() && !known.dissolved, Some(link))?;
        }
        Ok(at.last)
    }

    /// Returns the list's records of an entry and of its run.
    fn known(&self, table: &Table, index: usize, run: Span) -> Known {
        let mut known = Known { link: None, dissolved: false };
        let found = self.list.find(key(table, index)).map(|record| self.cut(record));
        for (cut, dissolves) in found.filter(|(cut, _)| cut.table.pa == table.pa) {
            known.link = known.link.or(cut.link.filter(|_| cut.index == index));
            known.dissolved |= dissolves && run.covers(table.va(cut.index), table.va(cut.index));
        }
        known
    }

    fn push(
        &mut self,
        table: &Table,
        index: usize,
        dissolves: bool,
        link: Option<Descriptor>,
    ) -> Result<(), OutOfFrames> {
        // A table is aligned to more than these flags need, and translates an aligned range with more bytes than it has
        // entries.
        let table_and_flags = table.pa.0 | (table.level.ordinal() as u64) << 1 | u64::from(dissolves);
        let record = [table_and_flags, table.base | index as u64, link.map_or(0, |link| link.0)];
        self.list.push(key(table, index), record).ok_or_else(|| {
            let tables = link.map_or(0, |link| self.discard(table.level, link));
            OutOfFrames(tables)
        })
    }

    /// Returns the records of the list, each with a flag: true if it dissolves a run.
    fn cuts(&self) -> impl Iterator<Item = (Resize, bool)> + Clone {
        self.list.iter().map(|record| self.cut(record))
    }

    fn cut(&self, [table, base_and_index, link]: Record) -> (Resize, bool) {
        let g = self.locked.geometry;
        let level = Level::new((table >> 1 & 7) as i8 - 1);
        let (pa, dissolves) = (Pa(table & !0xf), table & 1 != 0);
        let shift = g.level_shift(level);
        let index = base_and_index as usize & ((1 << shift) - 1);
        let table = self.locked.table(pa, level, shift, base_and_index - index as u64);
        let run = dissolves.then(|| g.contiguous_entries(level));
        let link = (link != 0).then_some(Descriptor(link));
        (Resize { table, index, dissolves: run, link }, dissolves)
    }

    /// Gives back the replacement of an entry of a table at a level. Returns the number of tables.
    fn discard(&self, level: Level, link: Descriptor) -> u64 {
        let locked = self.locked;
        discard(locked.reserve, locked.geometry, locked.counters(), (link, level.down(1)))
    }

    /// Gives back all replacements.
    #[cold]
    pub(crate) fn undo(self) {
        for (cut, _) in self.cuts() {
            cut.link.map(|link| self.discard(cut.table.level, link));
        }
    }

    /// Makes all stores. Translations stay as they are, so nothing is invalidated.
    ///
    /// # Errors
    ///
    /// CPUs do not park. Nothing is stored, except for the stores of previous parkings.
    pub(crate) fn carry_out(self, (policy, in_use): (Policy, bool)) -> Result<(), Stop> {
        if parks(policy, in_use) {
            return self.carry_out_parked();
        }
        Resize::all_in_place(self.locked, self.cuts().map(|(cut, _)| cut), true);
        Ok(())
    }

    #[cold]
    fn carry_out_parked(self) -> Result<(), Stop> {
        let mut cuts = self.cuts().map(|(cut, _)| cut);
        while let Some(first) = cuts.next() {
            let mut some = [first; AT_ONCE];
            let mut used = 1;
            while let Some(cut) = some.get_mut(used).and_then(|place| Some((place, cuts.next()?))) {
                *cut.0 = cut.1;
                used += 1;
            }
            if let Err(error) = Resize::all(self.locked, (Policy::Park, true), &some[..used], true) {
                // The replacements of these have been given back.
                for Resize { table, link, .. } in cuts {
                    link.map(|link| self.discard(table.level, link));
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Returns the key of an entry in the list, which is the same for all entries that may be in one run. No run has more
/// than 128 members.
const fn key(table: &Table, index: usize) -> u64 {
    table.pa.0 | index as u64 >> 7
}

/// The list's records of an entry.
struct Known {
    /// The tables that replace it.
    link: Option<Descriptor>,
    /// True if its run is dissolved.
    dissolved: bool,
}
