//! One walk for all: the entries that translate the addresses of a span, in address order.
//!
//! All that looks at tables which exist goes this way: to walk, count, print and check them, and to survey, change, map
//! and unmap live ones. The cursor finds the entries and goes into tables; a [`Visitor`] says what becomes of them.

use crate::format::{Descriptor, Geometry, Span};
use crate::read::table::Table;

/// Where entries are loaded from.
pub(crate) trait Source {
    /// What can go wrong.
    type Error;

    /// The geometry of the tables.
    fn geometry(&self) -> Geometry;

    /// The descriptor in a slot.
    fn load(&self, table: &Table, index: usize) -> Result<Descriptor, Self::Error>;

    /// The table that an entry, which is a table's descriptor, points to.
    fn below(&self, table: &Table, index: usize, entry: Descriptor) -> Table;
}

/// Why a walk ends before the span does.
pub(crate) enum Stop<E> {
    /// The visitor has seen enough.
    Enough,
    /// A slot cannot be read.
    Read(E),
}

impl<E> From<E> for Stop<E> {
    fn from(error: E) -> Self {
        Self::Read(error)
    }
}

/// What is done with the entries of a span.
pub(crate) trait Visitor<S: Source> {
    /// Why a walk ends early.
    type Stop: From<S::Error>;

    /// What is worked out once for each table.
    type Scratch;

    /// Begins a table.
    fn begin(&mut self, table: &Table) -> Self::Scratch;

    /// Visits entries that are no table's descriptors: `entry` at `index`, and as many after it, up to `last`, as the
    /// visitor takes at once. Returns the index of the next entry to visit.
    fn leaves(
        &mut self,
        source: &S,
        table: &Table,
        scratch: &mut Self::Scratch,
        at: (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, Self::Stop>;

    /// Comes to a table's descriptor. Returns whether the cursor goes into the table.
    fn enter(
        &mut self,
        source: &S,
        table: &Table,
        scratch: &mut Self::Scratch,
        index: usize,
        entry: Descriptor,
    ) -> Result<bool, Self::Stop>;

    /// Comes back from the table `below`, to which the entry at `index` points.
    #[inline(always)]
    fn leave(&mut self, source: &S, table: &Table, index: usize, below: &Table) -> Result<(), Self::Stop> {
        _ = (source, table, index, below);
        Ok(())
    }
}

/// Visits the entries of `table`, and of the tables below it, that translate addresses of `span`, which overlaps it.
///
/// # Errors
///
/// What the visitor or the source says, of the first entry at which it says so.
pub(crate) fn visit_span<S: Source, V: Visitor<S>>(
    source: &S,
    table: &Table,
    span: Span,
    visitor: &mut V,
) -> Result<(), V::Stop> {
    let (first, last) = table.entries_of(span, source.geometry());
    let mut scratch = visitor.begin(table);
    let mut index = first;
    while index <= last {
        let entry = source.load(table, index)?;
        if !entry.is_table(table.level) {
            index = visitor.leaves(source, table, &mut scratch, (index, last), entry)?;
            continue;
        }
        if visitor.enter(source, table, &mut scratch, index, entry)? {
            let below = source.below(table, index, entry);
            visit_span(source, &below, span, visitor)?;
            visitor.leave(source, table, index, &below)?;
        }
        index += 1;
    }
    Ok(())
}
