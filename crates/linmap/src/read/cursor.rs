//! The one walk of all table operations: it visits the entries that translate the addresses of a span, in address
//! order.
//!
//! All code that looks at existing tables uses it: to walk, count, print and check tables, and to survey, change, map
//! and unmap live ones. The cursor finds the entries and descends into tables; a [`Visitor`] acts on them.

use crate::format::{Descriptor, Geometry, Span};
use crate::read::table::Table;

/// The place from which entries are loaded.
pub(crate) trait Source {
    /// The error of a load.
    type Error;

    /// Returns the geometry of the tables.
    fn geometry(&self) -> Geometry;

    /// Returns the descriptor in a slot.
    fn load(&self, table: &Table, index: usize) -> Result<Descriptor, Self::Error>;

    /// Returns the table that an entry, which must be a table descriptor, points to.
    fn below(&self, table: &Table, index: usize, entry: Descriptor) -> Table;
}

/// The reason why a walk ends before the end of its span.
pub(crate) enum Stop<E> {
    /// The visitor ended the walk.
    Enough,
    /// A slot cannot be read.
    Read(E),
}

impl<E> From<E> for Stop<E> {
    fn from(error: E) -> Self {
        Self::Read(error)
    }
}

/// The actions on the entries of a span.
pub(crate) trait Visitor<S: Source> {
    /// The reason why a walk ends early.
    type Stop: From<S::Error>;

    /// Values that are computed once for each table.
    type Scratch;

    /// Called at the start of a table.
    fn begin(&mut self, table: &Table) -> Self::Scratch;

    /// Called for entries that are not table descriptors. Handles `entry` at `index` and any number of the entries
    /// after it, up to `last`. Returns the index of the next entry to visit.
    fn leaves(
        &mut self,
        source: &S,
        table: &Table,
        scratch: &mut Self::Scratch,
        at: (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, Self::Stop>;

    /// Called for a table descriptor. Returns true if the cursor is to descend into the table.
    fn enter(
        &mut self,
        source: &S,
        table: &Table,
        scratch: &mut Self::Scratch,
        index: usize,
        entry: Descriptor,
    ) -> Result<bool, Self::Stop>;

    /// Called after a descent into `below`, to which the entry at `index` points.
    #[inline(always)]
    fn leave(&mut self, source: &S, table: &Table, index: usize, below: &Table) -> Result<(), Self::Stop> {
        _ = (source, table, index, below);
        Ok(())
    }
}

/// Visits the entries of `table`, and of the tables below it, that translate addresses of `span`. The span must overlap
/// the table.
///
/// # Errors
///
/// The first error of the visitor or the source.
#[inline(never)]
pub(crate) fn visit_span<S: Source, V: Visitor<S>>(
    source: &S,
    table: &Table,
    span: Span,
    visitor: &mut V,
) -> Result<(), V::Stop> {
    visit_entries(source, table, span, visitor, |visitor, index, entry| {
        let below = source.below(table, index, entry);
        visit_span(source, &below, span, visitor)?;
        visitor.leave(source, table, index, &below)
    })
}

/// Does the same for the entries of one table alone: for a visitor that enters no table from here.
///
/// # Errors
///
/// As for [`visit_span`].
#[inline(always)]
pub(crate) fn visit_table<S: Source, V: Visitor<S>>(
    source: &S,
    table: &Table,
    span: Span,
    visitor: &mut V,
) -> Result<(), V::Stop> {
    visit_entries(source, table, span, visitor, |_, _, _| Ok(()))
}

/// Visits the entries of one table, and descends by `descend` into the tables that the visitor enters.
#[inline(always)]
fn visit_entries<S: Source, V: Visitor<S>>(
    source: &S,
    table: &Table,
    span: Span,
    visitor: &mut V,
    descend: impl Fn(&mut V, usize, Descriptor) -> Result<(), V::Stop>,
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
            descend(visitor, index, entry)?;
        }
        index += 1;
    }
    Ok(())
}
