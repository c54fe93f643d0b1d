//! Leaves that have to begin and end at other places, however many: all or none.
//!
//! The tables that take their place are built off line, one after the other, and kept in a list; nothing is stored in a
//! live table until the last is built. A leaf that is cut twice is in the list once: what was built for it is cut
//! again. So where table pages run out, what was built is given back, and no live table has been touched. All is stored
//! in one go then, or in one parking for up to [`EntryUpdate::MOST`] stores.

use crate::alias::records::{Record, Records};
use crate::build::{OutOfFrames, discard};
use crate::format::{Descriptor, LeafChange, Level, Pa, Span};
use crate::live::{ChangeError, Locked, Resize, parks};
use crate::platform::{EntryUpdate, Platform};
use crate::read::Table;

/// How many leaves are cut in one parking: each takes two stores at the most, as its run is dissolved and it is replaced.
const AT_ONCE: usize = EntryUpdate::MOST / 2;

/// What is to be stored.
pub(crate) struct Cuts<'a, P: Platform> {
    locked: &'a Locked<'a, P>,
    list: Records<'a, P>,
}

impl<'a, P: Platform> Cuts<'a, P> {
    /// Nothing yet.
    pub(crate) const fn new(locked: &'a Locked<'a, P>) -> Self {
        Self { locked, list: Records::new(locked.platform) }
    }

    /// Has leaves begin and end where a span does, if an edit changes them. All of the span is mapped.
    ///
    /// # Errors
    ///
    /// Out of frames.
    pub(crate) fn add(&mut self, change: LeafChange, span: Span) -> Result<(), OutOfFrames> {
        let last = self.add_end(change, span, span.first)?;
        if last < span.last {
            self.add_end(change, span, span.last)?;
        }
        Ok(())
    }

    /// The last address of the leaf that has been cut for one end, or that has not to be.
    fn add_end(&mut self, change: LeafChange, span: Span, va: u64) -> Result<u64, OutOfFrames> {
        let locked = self.locked;
        let (table, index) = locked.entry_of(va);
        let (old, at) = (locked.load(&table, index), table.span_of(index));
        let run = locked.run(&table, old).map_or(at, |members| table.run_of(index, members));
        if change.of(old, table.level) == old || span.covers(run.first, run.last) {
            return Ok(at.last);
        }
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

    /// What is in the list of an entry and of the run that it is in.
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
        // A table is aligned to more than this, and what it translates to more than it has entries.
        let table_and_flags = table.pa.0 | (table.level.ordinal() as u64) << 1 | u64::from(dissolves);
        let record = [table_and_flags, table.base | index as u64, link.map_or(0, |link| link.0)];
        self.list.push(key(table, index), record).ok_or_else(|| {
            let tables = link.map_or(0, |link| self.discard(table.level, link));
            OutOfFrames(tables)
        })
    }

    /// The list, and which of its entries dissolve a run.
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

    /// Gives back what was built for an entry of a table at a level. How many tables.
    fn discard(&self, level: Level, link: Descriptor) -> u64 {
        let locked = self.locked;
        discard(locked.platform, locked.geometry, locked.counters(), (link, level.down(1)))
    }

    /// Gives back what was built. How many pages had been taken, the list's own included.
    #[cold]
    pub(crate) fn undo(self) -> u64 {
        let tables = self.cuts().filter_map(|(cut, _)| Some(self.discard(cut.table.level, cut.link?)));
        tables.sum::<u64>() + self.list.pages()
    }

    /// Stores all of it. What it translates stays as it is, so nothing is invalidated.
    ///
    /// # Errors
    ///
    /// CPUs do not park: nothing is stored, but for what was stored in parkings before.
    pub(crate) fn carry_out(self, in_use: bool) -> Result<(), ChangeError> {
        if parks(self.locked, in_use) {
            return self.carry_out_parked();
        }
        Resize::all_in_place(self.locked, self.cuts().map(|(cut, _)| cut), true);
        Ok(())
    }

    #[cold]
    fn carry_out_parked(self) -> Result<(), ChangeError> {
        let mut cuts = self.cuts().map(|(cut, _)| cut);
        while let Some(first) = cuts.next() {
            let mut some = [first; AT_ONCE];
            let mut used = 1;
            while let Some(cut) = some.get_mut(used).and_then(|place| Some((place, cuts.next()?))) {
                *cut.0 = cut.1;
                used += 1;
            }
            if let Err(error) = Resize::all(self.locked, true, &some[..used], true) {
                // What was built for these has been given back.
                for Resize { table, link, .. } in cuts {
                    link.map(|link| self.discard(table.level, link));
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// What the list finds an entry by: the same for all that may be in one run. No run has more than 128 members.
const fn key(table: &Table, index: usize) -> u64 {
    table.pa.0 | index as u64 >> 7
}

/// What is in the list of an entry.
struct Known {
    /// The tables that take its place.
    link: Option<Descriptor>,
    /// Whether its run is dissolved.
    dissolved: bool,
}
