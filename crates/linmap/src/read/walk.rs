//! Visits the entries of tables: live tables, dumps, anything that can be read.
//!
//! Whatever the tables contain, the walk is never deeper than the geometry has levels. Its duration depends on the
//! tables, unless the reader is [`Bounded`](crate::read::Bounded).

use core::ops::ControlFlow;

use crate::format::{Decoder, Descriptor, Entry, Geometry, Level, Pa, TableLimits, Va};
use crate::plan::Stats;
use crate::platform::Slot;
use crate::read::count::translated;
use crate::read::cursor::{Stop, Visitor, visit_span};
use crate::read::reader::{ReadTables, Reading};
use crate::read::table::{Entries, Table};

/// An entry that a walk visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visited {
    /// The first address that it translates.
    pub va: Va,
    /// The level of the table that it is in.
    pub level: Level,
    /// The place of the entry.
    pub slot: Slot,
    /// The descriptor as it is stored.
    pub descriptor: Descriptor,
    /// Its meaning at that level.
    pub entry: Entry,
    /// The restrictions from the descriptors of the tables above.
    pub limits: TableLimits,
}

impl Visited {
    /// Returns an entry of a table, whose meaning is known, with the restrictions on the table.
    #[inline(always)]
    pub(crate) const fn at(
        table: &Table,
        (index, descriptor): (usize, Descriptor),
        entry: Entry,
        limits: TableLimits,
    ) -> Self {
        let slot = Slot { table: table.pa, index };
        Self { va: Va(table.va(index)), level: table.level, slot, descriptor, entry, limits }
    }
}

/// Calls `each` for every entry that translates an address from `first` to `last`, both included.
///
/// The half is that of `first`; addresses that the root does not translate are left out. Entries are visited in address
/// order, a table before its contents. `each` ends the walk with `ControlFlow::Break`.
///
/// # Errors
///
/// The reader's error for the first slot that cannot be read.
pub fn visit<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
    each: impl FnMut(&Visited) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, R::Error> {
    let Some((base, span)) = translated(geometry, range) else { return Ok(ControlFlow::Continue(())) };
    let source = Reading { reader, geometry };
    let mut walk = Walk { geometry, limits: TableLimits::empty(), each };
    match visit_span(&source, &Table::root(root, geometry, base), span, &mut walk) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(Stop::Enough) => Ok(ControlFlow::Break(())),
        Err(Stop::Read(error)) => Err(error),
    }
}

/// Counts the leaves from `first` to `last`, both included, and the tables that lead to them.
///
/// # Errors
///
/// The reader's error for the first slot that cannot be read.
pub fn count<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
) -> Result<Stats, R::Error> {
    let mut stats = Stats::ROOT;
    let _ = visit(reader, geometry, root, range, |visited| {
        stats.count_entry(visited.level, visited.entry);
        ControlFlow::Continue(())
    })?;
    Ok(stats)
}

/// The visitor of a walk.
struct Walk<F> {
    geometry: Geometry,
    /// The restrictions on the next table.
    limits: TableLimits,
    each: F,
}

impl<F: FnMut(&Visited) -> ControlFlow<()>> Walk<F> {
    #[inline(always)]
    fn visited<E>(
        &mut self,
        (decoder, limits): (Decoder, TableLimits),
        Entries { table, index, entry, .. }: Entries<'_>,
    ) -> Result<(), Stop<E>> {
        let visited = Visited::at(table, (index, entry), decoder.entry(entry), limits);
        if (self.each)(&visited).is_break() { Err(Stop::Enough) } else { Ok(()) }
    }
}

impl<R: ReadTables, F: FnMut(&Visited) -> ControlFlow<()>> Visitor<Reading<'_, R>> for Walk<F> {
    type Stop = Stop<R::Error>;
    /// The decoder of the table's entries, and the restrictions on them.
    type Scratch = (Decoder, TableLimits);

    #[inline(always)]
    fn begin(&mut self, table: &Table) -> Self::Scratch {
        (Decoder::new(self.geometry, table.level), self.limits)
    }

    #[inline(always)]
    fn leaves(
        &mut self,
        _: &Reading<'_, R>,
        scratch: &mut Self::Scratch,
        at: Entries<'_>,
    ) -> Result<usize, Self::Stop> {
        self.visited(*scratch, at)?;
        Ok(at.index + 1)
    }

    #[inline(always)]
    fn enter(
        &mut self,
        _: &Reading<'_, R>,
        scratch: &mut Self::Scratch,
        at: Entries<'_>,
    ) -> Result<bool, Self::Stop> {
        self.visited(*scratch, at)?;
        self.limits = scratch.1 | TableLimits::of(at.entry);
        Ok(true)
    }
}
