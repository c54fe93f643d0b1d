//! The one walk of all table operations: it visits the entries that translate the addresses of a span, in address
//! order.
//!
//! All code that looks at existing tables uses it: to walk, count, print and check tables, and to survey, change, map
//! and unmap live ones. The cursor finds the entries and descends into tables; a [`Visitor`] acts on them.

use crate::format::{Descriptor, Geometry, Level, Span};
use crate::read::table::{Entries, Table};

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
    type Scratch: Copy;

    /// Called at the start of a table.
    fn begin(&mut self, table: &Table) -> Self::Scratch;

    /// Called for an entry that is no table descriptor, and those after it. Handles the first of them and any number of the others.
    /// Returns the index of the next entry to visit.
    fn leaves(
        &mut self,
        source: &S,
        scratch: &mut Self::Scratch,
        at: Entries<'_>,
    ) -> Result<usize, Self::Stop>;

    /// Called for a table descriptor, the first of these entries. Returns true if the cursor is to descend into the table.
    fn enter(&mut self, source: &S, scratch: &mut Self::Scratch, at: Entries<'_>)
    -> Result<bool, Self::Stop>;

    /// Called after a descent into `below`, to which the entry at `index` points.
    #[inline(always)]
    fn leave(&mut self, source: &S, table: &Table, index: usize, below: &Table) -> Result<(), Self::Stop> {
        _ = (source, table, index, below);
        Ok(())
    }
}

/// The most tables that are above the deepest one.
const ABOVE: usize = Level::COUNT - 1;

/// Visits the entries of `table`, and of the tables below it, that translate addresses of `span`. The span must overlap
/// the table.
///
/// The way down is kept in an array and not in calls: a walk takes little of the stack, however deep it goes.
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
    let (geometry, mut table) = (source.geometry(), *table);
    let mut scratch = visitor.begin(&table);
    let (mut index, mut last) = table.entries_of(span, geometry);
    let (mut above, mut depth) = ([(table, last, scratch); ABOVE], 0);
    loop {
        while index <= last {
            let entry = source.load(&table, index)?;
            let at = Entries { table: &table, index, last, entry };
            if !entry.is_table(table.level) {
                index = visitor.leaves(source, &mut scratch, at)?;
            } else if visitor.enter(source, &mut scratch, at)? {
                let below = source.below(&table, index, entry);
                above[depth] = (table, last, scratch);
                depth += 1;
                table = below;
                scratch = visitor.begin(&table);
                (index, last) = table.entries_of(span, geometry);
            } else {
                index += 1;
            }
        }
        if depth == 0 {
            return Ok(());
        }
        depth -= 1;
        let (parent, its_last, its_scratch) = above[depth];
        index = parent.index_of(table.base);
        visitor.leave(source, &parent, index, &table)?;
        (table, last, scratch) = (parent, its_last, its_scratch);
        index += 1;
    }
}
