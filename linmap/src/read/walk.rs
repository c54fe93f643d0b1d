//! Visits the entries of tables: live tables, dumps, anything that can be read.
//!
//! Whatever the tables contain, the walk is never deeper than the geometry has levels. Its duration depends on the
//! tables, unless the reader is [`Bounded`](crate::Bounded).

use core::ops::ControlFlow;

use crate::format::{Decoder, Descriptor, Entry, Geometry, Half, Level, Pa, Span, TableLimits, Va};
use crate::plan::Stats;
use crate::platform::{Memory, Slot};
use crate::read::cursor::{Source, Stop, Visitor, visit_span};
use crate::read::reader::{Live, ReadTables, Reading};
use crate::read::table::Table;

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
    walk::<R, true>(reader, geometry, root, range, each)
}

/// Visits entries, with or without those that are 0.
fn walk<R: ReadTables, const ZEROS: bool>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    (first, last): (Va, Va),
    each: impl FnMut(&Visited) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, R::Error> {
    let half = if first.0 >> 63 == 0 { Half::Lower } else { Half::Upper };
    let base = geometry.base(half);
    let end = base + ((1 << geometry.va_bits()) - 1);
    let span = Span { first: first.0.max(base), last: last.0.min(end) };
    if span.last < span.first {
        return Ok(ControlFlow::Continue(()));
    }
    let source = Reading { reader, geometry };
    let mut walk = Walk::<_, ZEROS> { geometry, limits: TableLimits::empty(), each };
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
    count_by::<R, true>(reader, geometry, root, range)
}

/// Counts the same in live tables, which can all be read, and are mostly zeros: what is not 0 may be read twice.
pub(crate) fn count_live<M: Memory>(
    tables: &Live<'_, M>,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
) -> Stats {
    count_by::<_, false>(tables, geometry, root, range).unwrap_or_else(|e| match e {})
}

fn count_by<R: ReadTables, const ZEROS: bool>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
) -> Result<Stats, R::Error> {
    let mut stats = Stats::ROOT;
    let _ = walk::<R, ZEROS>(reader, geometry, root, range, |visited| {
        stats.count_entry(visited.level, visited.entry);
        ControlFlow::Continue(())
    })?;
    Ok(stats)
}

/// Returns the index of the first entry that is not 0, or of the one after the last. Most entries of a root that is taken over
/// are 0, so it looks at four at a time.
fn next_used<R: ReadTables>(
    source: &Reading<'_, R>,
    table: &Table,
    (mut index, last): (usize, usize),
) -> Result<usize, R::Error> {
    let load = |index: usize| source.load(table, index).map(|entry| entry.0);
    while index + 3 <= last {
        let four = [load(index)?, load(index + 1)?, load(index + 2)?, load(index + 3)?];
        if four[0] | four[1] | four[2] | four[3] != 0 {
            return Ok(index + four.iter().take_while(|&&entry| entry == 0).count());
        }
        index += 4;
    }
    while index <= last && load(index)? == 0 {
        index += 1;
    }
    Ok(index)
}

/// The visitor of a walk.
struct Walk<F, const ZEROS: bool> {
    geometry: Geometry,
    /// The restrictions on the next table.
    limits: TableLimits,
    each: F,
}

impl<F: FnMut(&Visited) -> ControlFlow<()>, const ZEROS: bool> Walk<F, ZEROS> {
    #[inline(always)]
    fn visited<E>(
        &mut self,
        table: &Table,
        (decoder, limits): (Decoder, TableLimits),
        index: usize,
        descriptor: Descriptor,
    ) -> Result<(), Stop<E>> {
        let entry = decoder.entry(descriptor);
        let slot = Slot { table: table.pa, index };
        let visited =
            Visited { va: Va(table.va(index)), level: table.level, slot, descriptor, entry, limits };
        if (self.each)(&visited).is_break() { Err(Stop::Enough) } else { Ok(()) }
    }
}

impl<R: ReadTables, F: FnMut(&Visited) -> ControlFlow<()>, const ZEROS: bool> Visitor<Reading<'_, R>>
    for Walk<F, ZEROS>
{
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
        source: &Reading<'_, R>,
        table: &Table,
        scratch: &mut Self::Scratch,
        (index, last): (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, Self::Stop> {
        if !ZEROS && entry == Descriptor::HOLE {
            return Ok(next_used(source, table, (index + 1, last))?);
        }
        self.visited(table, *scratch, index, entry)?;
        Ok(index + 1)
    }

    #[inline(always)]
    fn enter(
        &mut self,
        _: &Reading<'_, R>,
        table: &Table,
        scratch: &mut Self::Scratch,
        index: usize,
        entry: Descriptor,
    ) -> Result<bool, Self::Stop> {
        self.visited(table, *scratch, index, entry)?;
        self.limits = scratch.1 | TableLimits::of(entry);
        Ok(true)
    }
}
