//! Fills what a survey found to be holes: leaves are stored, and the other entries get tables.
//!
//! A hold stores leaves and notes some entries that get tables. What is below these is built off line: in the hold where all of a
//! mapping is one hold, or else with nothing held. Then a hold publishes all of them, after one barrier.
//!
//! An entry that also translates addresses outside the mapping may get a table from another caller between two holds. Then the mapping goes
//! on in that one, and what was built is given back.

use crate::build::{BuildError, Counters, discard};
use crate::edit::cover::GIGABYTE;
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::guard::Guard;
use crate::edit::mapping::{Mapping, visit};
use crate::edit::stop::{Needs, Stop};
use crate::edit::tables::Tables;
use crate::format::{Descriptor, Geometry, Leaf, Level, Pa, Span, in_place_bits};
use crate::platform::Memory;
use crate::read::{Entries, Table};

/// The number of entries that get tables together.
const ROOM: usize = 16;

/// The number of leaves that are stored together where there are no runs.
const CHUNK: usize = 16;

/// A part of a mapping under way.
pub(crate) struct Fill<'m> {
    mapping: &'m Mapping,
    /// The number of leaves that may still be stored, or `None` if all of the mapping is one hold.
    left: Option<usize>,
    /// True if some have been stored.
    pub(crate) has_stored: bool,
    /// The entries that get tables, unless it takes none.
    links: Option<&'m mut Links>,
    /// The entries that were examined last, by table and first index, and whether they become a contiguous run.
    run: Option<((Pa, usize), bool)>,
    /// The last address of the entries that were filled or noted.
    done: Option<u64>,
    /// The address at which to go on, if this part ended before its window.
    next: Option<u64>,
}

/// Entries of a table that get tables.
pub(crate) struct Links {
    table: Option<Table>,
    /// The indexes of the entries.
    indexes: [u16; ROOM],
    /// The tables, once they are built.
    built: [Descriptor; ROOM],
    used: usize,
}

impl Links {
    #[inline(always)]
    pub(crate) const fn none() -> Self {
        Self { table: None, indexes: [0; ROOM], built: [Descriptor::HOLE; ROOM], used: 0 }
    }

    /// Returns true if there are none.
    pub(crate) const fn are_none(&self) -> bool {
        self.used == 0
    }

    /// Returns true if another entry of a table has a place, or one that others may give a table.
    fn has_room(&self, table: &Table, is_shared: bool) -> bool {
        let goes_on = |noted: &Table| noted.pa == table.pa && self.used < ROOM && !is_shared;
        self.table.as_ref().is_none_or(goes_on)
    }

    fn add(&mut self, table: &Table, index: usize) {
        self.table = Some(*table);
        self.indexes[self.used] = index as u16;
        self.used += 1;
    }

    /// Returns the entries, with their tables.
    fn all(&self) -> impl Iterator<Item = (usize, Descriptor)> {
        self.indexes[..self.used].iter().map(|index| usize::from(*index)).zip(self.built.iter().copied())
    }

    /// Builds the tables, and counts them. No hold is needed.
    ///
    /// # Errors
    ///
    /// The reserve is too small. Those that are built can be published.
    pub(crate) fn build<M: Memory>(
        &mut self,
        mapping: &Mapping,
        (tables, counters): (&Tables, Option<&Counters>),
        reserve: &M,
    ) -> Result<(), BuildError> {
        let (g, tables) = (tables.geometry(), tables.table_attributes().within(mapping.attributes));
        let (noted, Some(table)) = (core::mem::take(&mut self.used), &self.table) else { return Ok(()) };
        for (index, link) in self.indexes[..noted].iter().zip(&mut self.built) {
            let (frame, stats) = mapping.subtree(reserve, g, tables, (table, usize::from(*index)))?;
            *link = Descriptor::link(frame.into_pa(), g).with(tables);
            counters.inspect(|counters| counters.include(&stats));
            self.used += 1;
        }
        Ok(())
    }

    /// Checks that the holder may publish what is built. Returns the address at which to go on instead, if the entry has another caller's
    /// table by now.
    ///
    /// # Errors
    ///
    /// It takes more than the guard covers.
    pub(crate) fn lost<G: Guard>(
        &self,
        mapping: &Mapping,
        editor: &Editor<'_, G>,
    ) -> Result<Option<u64>, Needs> {
        let Some(table) = &self.table else { return Ok(None) };
        for (index, _) in self.all() {
            editor.may_link(table.span_of(index))?;
            editor.has(editor.guard.for_mark(mapping.span.common(table.span_of(index))))?;
            if editor.load(table, index).is_table(table.level) {
                // It is the only one.
                return Ok(Some(mapping.span.common(table.span_of(index)).first));
            }
        }
        Ok(None)
    }

    /// Publishes what is built.
    pub(crate) fn publish<G: Guard>(&self, mapping: &Mapping, editor: &Editor<'_, G>) {
        let Some(table) = &self.table else { return };
        let store = || {
            for (index, link) in self.all() {
                editor.guard.mark(mapping.span.common(table.span_of(index)));
                editor.store(table, index, link);
            }
        };
        editor.publish_barrier();
        if table.shift > GIGABYTE {
            editor.guard.publish_upper(|| {
                store();
                editor.publish_barrier();
            });
        } else {
            store();
        }
    }

    /// Gives back what was built and is not published.
    pub(crate) fn discard<M: Memory>(&self, (g, counters): (Geometry, Option<&Counters>), reserve: &M) {
        let Some(table) = &self.table else { return };
        self.all().for_each(|(_, link)| _ = discard(reserve, g, counters, (link, table.level.next())));
    }
}

impl<'m> Fill<'m> {
    /// Returns a part that may store so many leaves, or, of a mapping in one hold, all of them.
    #[inline(always)]
    pub(crate) const fn new(mapping: &'m Mapping, left: Option<usize>, links: Option<&'m mut Links>) -> Self {
        Self { mapping, left, has_stored: false, links, run: None, done: None, next: None }
    }

    /// Stores leaves from the start of a window on, and notes the entries that get tables. Returns the address at which another part
    /// goes on, if there is more.
    ///
    /// # Errors
    ///
    /// The first entry takes more than the guard covers.
    pub(crate) fn leaves_from<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        window: Span,
    ) -> Result<Option<u64>, Needs> {
        let table = editor.table_of(window);
        if self.left.is_none() && self.links.is_none() && table.level == Level::PAGE {
            // Nothing but holes, as the survey says.
            self.holes(editor, &table, table.entries_of(window, editor.geometry));
            return Ok(None);
        }
        match visit(editor, &table, window, self) {
            Err(Stop::Needs(needs)) => Err(needs),
            _ => {
                // The last entry may end after the window.
                let last = self.done.unwrap_or(window.last).max(window.last);
                Ok(self.next.or(self.mapping.after(last)))
            }
        }
    }

    /// Checks that the holder may store to an entry.
    ///
    /// # Errors
    ///
    /// It takes more than the guard covers. The survey of a mapping in one hold has asked.
    #[inline(always)]
    fn may_store<G: Guard>(&self, editor: &Editor<'_, G>, is_leaf: bool, at: Span) -> Result<(), Needs> {
        match (self.left, is_leaf) {
            (None, _) => return Ok(()),
            (_, true) => editor.covers(at)?,
            (_, false) => editor.may_link(at)?,
        }
        editor.guard.sees_published()
    }

    /// Stores leaves in the place of adjacent holes, from one index on. Returns the index after them.
    fn holes<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        (index, last): (usize, usize),
    ) -> usize {
        let most = self.left.map_or(last, |left| last.min(index.saturating_add(left - 1)));
        let mut end = self.mapping.leaves_end(editor, table, (index, most));
        let until = |end: usize| Span { first: table.va(index), last: table.span_of(end - 1).last };
        if self.left.is_some() && editor.covers(until(end)).is_err() {
            end = index + 1;
        }
        editor.guard.mark(until(end));
        self.done = Some(until(end).last);
        (self.left, self.has_stored) = (self.left.map(|left| left - (end - index)), true);
        let (mut at, members) = (index, editor.geometry.run_to_make(table.level));
        while at < end {
            let next = end.min((at | (members.max(CHUNK) - 1)) + 1);
            let contiguous = self.is_in_run(editor, table, (at, end), members);
            at = self.store_chunk(editor, table, (at, next), contiguous);
        }
        end
    }

    /// Stores some of these leaves, all of them in one run or none. Returns the index after them.
    #[inline(always)]
    fn store_chunk<G: Guard>(
        &self,
        editor: &Editor<'_, G>,
        table: &Table,
        (index, end): (usize, usize),
        contiguous: bool,
    ) -> usize {
        let (g, mapping) = (editor.geometry, self.mapping);
        let oa = mapping.oa(table.va(index));
        // An address grows like its descriptor as far as the format keeps its bits in place.
        let last = oa.0 + (((end - 1 - index) as u64) << table.shift);
        let end = if (oa.0 ^ last) >> in_place_bits(g.oa_format()) == 0 { end } else { index + 1 };
        let leaf = Leaf { oa, attributes: mapping.attributes, contiguous, valid: true };
        let first = Descriptor::leaf(leaf, g, table.level);
        editor.slots(table).store_series((index, end), (first, 1 << table.shift));
        editor.count(|counters| counters.leaves(table.level, contiguous, (end - index) as i64));
        end
    }

    /// Returns true if a leaf is in a run, which is asked once for each run.
    #[inline(always)]
    fn is_in_run<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        holes: (usize, usize),
        members: usize,
    ) -> bool {
        let run = (table.pa, holes.0 & !(members - 1));
        let contiguous = match self.run {
            Some((known, contiguous)) if known == run => contiguous,
            _ => self.mapping.is_in_run(editor, table, holes),
        };
        self.run = Some((run, contiguous));
        contiguous
    }
}

impl<G: Guard> LiveVisitor<G> for Fill<'_> {
    type Stop = Stop;

    #[inline(never)]
    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        let Entries { table, index, last, .. } = at;
        let at = table.span_of(index);
        let is_leaf = self.mapping.is_leaf(editor, table, index);
        // Nobody else makes a table of an entry that the mapping, which is claimed or one hold, has to itself.
        let is_shared = self.left.is_some() && !self.mapping.span.covers(at.first, at.last);
        let has_room = self.links.as_ref().is_some_and(|links| links.has_room(table, is_shared));
        match self.may_store(editor, is_leaf, at) {
            Err(needs) if self.done.is_none() => return Err(needs.into()),
            Ok(()) if self.left != Some(0) && (is_leaf || has_room) => {}
            _ => {
                self.next = Some(self.mapping.span.common(at).first);
                return Err(Stop::TooLong);
            }
        }
        if is_leaf {
            return Ok(self.holes(editor, table, (index, last)));
        }
        if let Some(links) = &mut self.links {
            links.add(table, index);
        }
        self.done = Some(at.last);
        if is_shared {
            self.next = self.mapping.after(at.last);
            return Err(Stop::TooLong);
        }
        Ok(index + 1)
    }
}
