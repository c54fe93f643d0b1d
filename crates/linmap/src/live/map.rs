//! New mappings where nothing is mapped.
//!
//! Three steps. *Survey*: check that nothing is mapped there, and count the tables that are needed. *Reserve* them.
//! *Fill*: store leaves where they fit, build subtrees off line for all other entries, and publish each of them by one
//! store after a barrier. A long range is claimed, and its subtrees are built while no lock is held (`long_map.rs`).

use crate::build::{BuildError, FILLED, Tree, page_tables_for};
use crate::format::{
    Attributes, Descriptor, Geometry, Half, Leaf, Level, Pa, Span, TableAttributes, Va, in_place_bits,
};
use crate::live::attempt::Call;
use crate::live::error::ChangeError;
use crate::live::lock_set::GIGABYTE;
use crate::live::locked::{LeafVisitor, Locked};
use crate::live::stop::Stop;
use crate::live::tlb_batch::TlbBatch;
use crate::plan::{Leaves, Region, Stats};
use crate::platform::{Frame, Memory, Platform};
use crate::read::Table;

/// A new mapping of consecutive addresses to consecutive physical memory.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) half: Half,
    pub(crate) span: Span,
    /// The output address of the first address.
    pub(crate) oa: Pa,
    pub(crate) attributes: Attributes,
    pub(crate) leaves: Leaves,
}

/// Subtrees that are complete and wait for the barrier before they are published.
struct Links {
    waiting: [Option<(Table, usize, Descriptor)>; Self::ROOM],
    used: usize,
}

impl Links {
    const ROOM: usize = 8;

    const fn new() -> Self {
        Self { waiting: [None; Self::ROOM], used: 0 }
    }

    fn add<P: Platform>(&mut self, link: (Table, usize, Descriptor), locked: &Locked<'_, P>) {
        self.waiting[self.used] = Some(link);
        self.used += 1;
        if self.used == Self::ROOM {
            self.publish(locked);
        }
    }

    fn publish<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        if self.used == 0 {
            return;
        }
        let waiting = &self.waiting[..core::mem::take(&mut self.used)];
        let store =
            || waiting.iter().flatten().for_each(|(table, index, link)| locked.store(table, *index, *link));
        locked.publish_barrier();
        if waiting.iter().flatten().any(|(table, ..)| table.shift > GIGABYTE) {
            locked.publish_upper(store);
        } else {
            store();
        }
    }
}

impl Mapping {
    /// Maps everything, or nothing.
    ///
    /// # Errors
    ///
    /// An existing mapping; a descriptor that the library would not write; out of frames; a claim in the way. Returns
    /// false if it is too long for one hold; nothing has been done then.
    pub(crate) fn map<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<bool, ChangeError> {
        let done = call.attempts(self.span, |locked| {
            let survey = self.survey(locked, self.span, P::HOLD)?;
            if survey.entries > P::HOLD as u64 {
                return Err(Stop::TooLong);
            }
            locked.has_frames(survey.tables)?;
            locked.mark(self.span);
            self.fill(locked, self.span)?;
            TlbBatch::new().finish(locked);
            Ok(())
        })?;
        Ok(done.is_some())
    }

    /// Checks that nothing is mapped in a piece of the range, of at most so many entries.
    ///
    /// # Errors
    ///
    /// Something is, it has more entries, or it takes more locks.
    pub(crate) fn survey<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        piece: Span,
        most: usize,
    ) -> Result<Survey<'_>, Stop> {
        let table = locked.deepest(locked.root(), piece);
        let mut survey = Survey::new(self, most);
        visit(locked, &table, piece, &mut survey)?;
        Ok(survey)
    }

    /// Maps a piece of the range. It has been surveyed in the same hold.
    #[inline(never)]
    fn fill<P: Platform>(&self, locked: &Locked<'_, P>, piece: Span) -> Result<(), Stop> {
        let table = locked.deepest(locked.root(), piece);
        let mut fill = Fill::new(self);
        visit(locked, &table, piece, &mut fill)?;
        fill.publish(locked);
        Ok(())
    }

    pub(crate) fn part(&self, of: Span) -> Span {
        Span { first: of.first.max(self.span.first), last: of.last.min(self.span.last) }
    }

    pub(crate) fn oa(&self, va: u64) -> Pa {
        Pa(self.oa.0.wrapping_add(va.wrapping_sub(self.span.first)))
    }

    fn region(&self, part: Span) -> Region {
        let bytes = part.last - part.first + 1;
        let (attributes, leaves) = (self.attributes, self.leaves);
        Region { va: Va(part.first), oa: self.oa(part.first), bytes, attributes, leaves }
    }

    /// Returns the number of tables that map a part of the range below an entry of a table.
    pub(crate) fn tables_below(&self, g: Geometry, table: &Table, part: Span) -> u64 {
        let block = 1 << (g.page_shift() + g.index_bits());
        if self.leaves == Leaves::Pages || part.last - part.first < block - 1 {
            return page_tables_for(g, table.level, part, part);
        }
        let above = (table.level.number() - g.root().number() + 1) as u64;
        Stats::of_runs(g, self.region(part).runs(g)).tables - above
    }

    /// Builds the tables that map a part of the range below an entry of a table. Returns the topmost, and the counts.
    ///
    /// # Errors
    ///
    /// The reserve is too small.
    pub(crate) fn subtree<M: Memory>(
        &self,
        reserve: &M,
        g: Geometry,
        tables: TableAttributes,
        (table, index): (&Table, usize),
    ) -> Result<(Frame, Stats), BuildError> {
        let at = table.span_of(index);
        let region = self.region(self.part(at));
        Tree::subtree(reserve, g, (self.half, table.level.next(), at.first), tables, region)
    }

    /// Returns the attributes of the tables that the mapping takes.
    pub(crate) fn table_attributes<P: Platform>(&self, locked: &Locked<'_, P>) -> TableAttributes {
        locked.state.table_attributes().within(self.attributes)
    }

    /// Returns true if a hole becomes a leaf rather than a table.
    pub(crate) fn is_leaf<P: Platform>(&self, locked: &Locked<'_, P>, table: &Table, index: usize) -> bool {
        let at = table.span_of(index);
        let fits = self.span.covers(at.first, at.last)
            && (at.first ^ self.oa(at.first).0) & ((1 << table.shift) - 1) == 0;
        let large = table.level == Level::PAGE || self.leaves == Leaves::Largest;
        fits && large && locked.geometry.makes_leaf(table.level)
    }

    /// Returns the index after the last of the holes, from one that becomes a leaf on and up to `last`, that become leaves
    /// as well.
    #[inline]
    pub(crate) fn leaves_end<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
    ) -> usize {
        if last == index {
            return index + 1;
        }
        // Only the last can be partly outside the range.
        let last = if self.span.last < table.span_of(last).last { last - 1 } else { last };
        locked.slots(table).same_but(0, (index + 1, last), Descriptor::HOLE)
    }

    /// Returns true if the leaf that a hole becomes is in a contiguous run. The entries from one index to before another
    /// are known to be holes.
    fn is_in_run<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, end): (usize, usize),
    ) -> bool {
        let members = locked.geometry.run_to_make(table.level);
        let span = table.run_of(index, members);
        // Most mappings are shorter than a run.
        if members == 1 || !self.span.covers(span.first, span.last) {
            return false;
        }
        let first = index & !(members - 1);
        let aligned = (span.first ^ self.oa(span.first).0) & (span.last - span.first) == 0;
        // An entry that points to an empty table cannot be a member of the run.
        let free = |i| !locked.load(table, i).is_table(table.level);
        let mut others = (first..index).chain(end.min(first + members)..first + members);
        self.leaves == Leaves::Largest && aligned && (table.level == Level::PAGE || others.all(free))
    }
}

/// Visits a piece, which lies within one table. Most pieces are in one hole, and need no walk.
#[inline(always)]
fn visit<P: Platform, V: LeafVisitor<P>>(
    locked: &Locked<'_, P>,
    table: &Table,
    piece: Span,
    visitor: &mut V,
) -> Result<(), Stop> {
    let index = table.index_of(piece.first);
    if index == table.index_of(piece.last) {
        let old = locked.load(table, index);
        if !old.is_table(table.level) {
            return visitor.leaves(locked, table, (index, index), old).map(|_| ());
        }
    }
    locked.visit_leaves(table, piece, visitor)
}

/// Checks that nothing is mapped in a range, and counts what is needed to map it.
pub(crate) struct Survey<'m> {
    mapping: &'m Mapping,
    /// The number of tables.
    pub(crate) tables: u64,
    /// The number of entries that are written, those of new tables included.
    pub(crate) entries: u64,
    /// The number of entries that may still be read.
    left: usize,
    /// The last address of the entries that were read.
    pub(crate) done: u64,
    /// The address at which to go on, if there are more.
    pub(crate) next: Option<u64>,
}

impl<'m> Survey<'m> {
    pub(crate) const fn new(mapping: &'m Mapping, most: usize) -> Self {
        Self { mapping, tables: 0, entries: 0, left: most, done: 0, next: None }
    }
}

impl<P: Platform> LeafVisitor<P> for Survey<'_> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let (g, at) = (locked.geometry, table.span_of(index));
        let part = self.mapping.part(at);
        if self.left == 0 {
            self.next = Some(part.first);
            return Err(Stop::TooLong);
        }
        if old.is_valid() || old.is_leaf(g, table.level) {
            return Err(ChangeError::Occupied { va: Va(part.first) }.into());
        }
        let mut end = index + 1;
        if self.mapping.is_leaf(locked, table, index) {
            end = self.mapping.leaves_end(locked, table, (index, last.min(index + (self.left - 1))));
            self.entries += (end - index) as u64;
            locked.covers(Span { first: at.first, last: table.span_of(end - 1).last })?;
        } else {
            let tables = self.mapping.tables_below(g, table, part);
            self.tables += tables;
            self.entries += 1 + (tables << g.index_bits()) / FILLED as u64;
            locked.may_publish(at)?;
        }
        locked.sees_published()?;
        self.done = table.span_of(end - 1).last;
        self.left -= end - index;
        Ok(end)
    }
}

/// Stores the leaves of a mapping, and builds the tables.
pub(crate) struct Fill<'m> {
    pub(crate) mapping: &'m Mapping,
    links: Links,
    /// The entries that were examined last, by table and first index, and whether they become a contiguous run.
    run: Option<((Pa, usize), bool)>,
}

impl<'m> Fill<'m> {
    pub(crate) const fn new(mapping: &'m Mapping) -> Self {
        Self { mapping, links: Links::new(), run: None }
    }

    /// Publishes the subtrees that are complete.
    pub(crate) fn publish<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        self.links.publish(locked);
    }

    /// Stores leaves in the place of adjacent holes, from one index to before another.
    pub(crate) fn leaves_from<P: Platform>(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (mut index, end): (usize, usize),
    ) {
        let members = locked.geometry.run_to_make(table.level);
        while index < end {
            let next = end.min((index | (members.max(Self::CHUNK) - 1)) + 1);
            let contiguous = self.is_in_run(locked, table, (index, end), members);
            index = self.store_chunk(locked, table, (index, next), contiguous);
        }
    }

    /// Stores some of these leaves, all of them in one run or none. Returns the index after them.
    #[inline(always)]
    fn store_chunk<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, end): (usize, usize),
        contiguous: bool,
    ) -> usize {
        let (g, mapping) = (locked.geometry, self.mapping);
        let oa = mapping.oa(table.va(index));
        // An address grows like its descriptor as far as the format keeps its bits in place.
        let last = oa.0 + (((end - 1 - index) as u64) << table.shift);
        let end = if (oa.0 ^ last) >> in_place_bits(g.oa_format()) == 0 { end } else { index + 1 };
        let leaf = Leaf { oa, attributes: mapping.attributes, contiguous, valid: true };
        let first = Descriptor::leaf(leaf, g, table.level);
        locked.slots(table).store_series((index, end), (first, 1 << table.shift));
        locked.counters().leaves(table.level, contiguous, (end - index) as i64);
        end
    }

    /// The number of leaves that are stored together where there are no runs.
    const CHUNK: usize = 16;

    /// Returns true if a leaf is in a run, which is asked once for each run.
    #[inline(always)]
    fn is_in_run<P: Platform>(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        holes: (usize, usize),
        members: usize,
    ) -> bool {
        let run = (table.pa, holes.0 & !(members - 1));
        let contiguous = match self.run {
            Some((known, contiguous)) if known == run => contiguous,
            _ => self.mapping.is_in_run(locked, table, holes),
        };
        self.run = Some((run, contiguous));
        contiguous
    }
}

impl<P: Platform> LeafVisitor<P> for Fill<'_> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        _: Descriptor,
    ) -> Result<usize, Stop> {
        let (g, mapping) = (locked.geometry, self.mapping);
        if mapping.is_leaf(locked, table, index) {
            let end = mapping.leaves_end(locked, table, (index, last));
            self.leaves_from(locked, table, (index, end));
            return Ok(end);
        }
        let tables = mapping.table_attributes(locked);
        let (frame, stats) =
            mapping.subtree(locked.reserve, g, tables, (table, index)).map_err(ChangeError::from)?;
        locked.counters().include(&stats);
        self.links.add((*table, index, Descriptor::link(frame.into_pa(), g).with(tables)), locked);
        Ok(index + 1)
    }
}
