//! The content of a new mapping: which entries become leaves, in runs or not, and the tables below the others. And its survey.

use crate::build::{BuildError, FILLED, Tree, page_tables_for};
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::stop::Stop;
use crate::format::{Attributes, Descriptor, Geometry, Half, Level, Pa, Span, TableAttributes, Va};
use crate::plan::{Leaves, Region, Stats};
use crate::platform::{Frame, Memory};
use crate::read::{Entries, Table, visit_span};

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

impl Mapping {
    /// Returns the address after another, if it is in the range.
    pub(crate) fn after(&self, last: u64) -> Option<u64> {
        last.checked_add(1).filter(|next| *next <= self.span.last)
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
        let region = self.region(self.span.common(at));
        Tree::subtree(reserve, g, (self.half, table.level.next(), at.first), tables, region)
    }

    /// Returns true if a hole becomes a leaf rather than a table.
    #[inline(always)]
    pub(crate) fn is_leaf<G: Guard>(&self, editor: &Editor<'_, G>, table: &Table, index: usize) -> bool {
        let at = table.span_of(index);
        let fits = self.span.covers(at.first, at.last)
            && (at.first ^ self.oa(at.first).0) & ((1 << table.shift) - 1) == 0;
        let large = table.level == Level::PAGE || self.leaves == Leaves::Largest;
        fits && large && editor.geometry.makes_leaf(table.level)
    }

    /// Returns the index after the last of the holes, from one that becomes a leaf on and up to `last`, that become leaves
    /// as well.
    #[inline]
    pub(crate) fn leaves_end<G: Guard>(
        &self,
        editor: &Editor<'_, G>,
        table: &Table,
        (index, last): (usize, usize),
    ) -> usize {
        if last == index {
            return index + 1;
        }
        // Only the last can be partly outside the range.
        let last = if self.span.last < table.span_of(last).last { last - 1 } else { last };
        editor.slots(table).same_but(0, (index + 1, last), Descriptor::HOLE)
    }

    /// Returns true if the leaf that a hole becomes is in a contiguous run. The entries from one index to before another
    /// are known to be holes.
    pub(crate) fn is_in_run<G: Guard>(
        &self,
        editor: &Editor<'_, G>,
        table: &Table,
        (index, end): (usize, usize),
    ) -> bool {
        let members = editor.geometry.run_to_make(table.level);
        let span = table.run_of(index, members);
        // Most mappings are shorter than a run.
        if members == 1 || !self.span.covers(span.first, span.last) {
            return false;
        }
        let first = index & !(members - 1);
        let aligned = (span.first ^ self.oa(span.first).0) & (span.last - span.first) == 0;
        // An entry that points to an empty table cannot be a member of the run.
        let free = |i| !editor.load(table, i).is_table(table.level);
        let mut others = (first..index).chain(end.min(first + members)..first + members);
        self.leaves == Leaves::Largest && aligned && (table.level == Level::PAGE || others.all(free))
    }
}

/// Visits a piece, which lies within one table. Most pieces are in one hole, and need no walk.
#[inline(always)]
pub(crate) fn visit<G: Guard, V: LiveVisitor<G, Stop = Stop>>(
    editor: &Editor<'_, G>,
    table: &Table,
    piece: Span,
    visitor: &mut V,
) -> Result<(), Stop> {
    let index = table.index_of(piece.first);
    if index == table.index_of(piece.last) {
        let old = editor.load(table, index);
        if !old.is_table(table.level) {
            return visitor.leaves(editor, Entries { table, index, last: index, entry: old }).map(|_| ());
        }
    }
    visit_span(editor, table, piece, visitor)
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

impl<G: Guard> LiveVisitor<G> for Survey<'_> {
    type Stop = Stop;

    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        let Entries { table, index, last, entry: old } = at;
        let (g, at) = (editor.geometry, table.span_of(index));
        let part = self.mapping.span.common(at);
        if self.left == 0 {
            self.next = Some(part.first);
            return Err(Stop::TooLong);
        }
        if old.is_valid() || old.is_leaf(g, table.level) {
            return Err(ChangeError::Occupied { va: Va(part.first) }.into());
        }
        let mut end = index + 1;
        if self.mapping.is_leaf(editor, table, index) {
            end = self.mapping.leaves_end(editor, table, (index, last.min(index + (self.left - 1))));
            self.entries += (end - index) as u64;
            editor.covers(Span { first: at.first, last: table.span_of(end - 1).last })?;
        } else {
            let tables = self.mapping.tables_below(g, table, part);
            self.tables += tables;
            self.entries += 1 + (tables << g.index_bits()) / FILLED as u64;
            editor.may_link(at)?;
        }
        editor.guard.sees_published()?;
        self.done = table.span_of(end - 1).last;
        self.left -= end - index;
        Ok(end)
    }
}
