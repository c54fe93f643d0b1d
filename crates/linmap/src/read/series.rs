//! Visits the leaves of live tables, those together that continue each other.

use core::ops::ControlFlow;

use crate::format::{Decoder, Entry, Geometry, Pa, Span, TableLimits, Va, in_place_bits};
use crate::platform::Memory;
use crate::read::count::translated;
use crate::read::cursor::{Source, Stop, Visitor, visit_span};
use crate::read::reader::{Live, Reading};
use crate::read::table::{Entries, Table};
use crate::read::walk::Visited;

/// Calls `each` for the leaves that translate an address of a range, in address order, with the number of entries from that
/// one on that map what follows it to the memory that follows, with the same attributes. An entry may be read twice.
pub(crate) fn visit_series<M: Memory>(
    tables: &Live<'_, M>,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
    each: impl FnMut(&Visited, u64) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some((base, span)) = translated(geometry, range) else { return ControlFlow::Continue(()) };
    let source = Reading { reader: tables, geometry };
    let (table, limits) = deepest(&source, Table::root(root, geometry, base), span);
    let mut series = Series { geometry, limits, each };
    match visit_span(&source, &table, span, &mut series) {
        Ok(()) => ControlFlow::Continue(()),
        Err(Stop::Enough) => ControlFlow::Break(()),
        Err(Stop::Read(e)) => match e {},
    }
}

/// Returns the deepest table that translates all of a span, and the restrictions on it: a step down takes less than a visit.
#[inline(always)]
fn deepest<M: Memory>(
    source: &Reading<'_, Live<'_, M>>,
    mut table: Table,
    span: Span,
) -> (Table, TableLimits) {
    let mut limits = TableLimits::empty();
    while table.index_of(span.first) == table.index_of(span.last) {
        let index = table.index_of(span.first);
        let Ok(entry) = source.load(&table, index);
        if !entry.is_table(table.level) {
            break;
        }
        limits |= TableLimits::of(entry);
        table = source.below(&table, index, entry);
    }
    (table, limits)
}

struct Series<F> {
    geometry: Geometry,
    /// The restrictions on the next table.
    limits: TableLimits,
    each: F,
}

impl<M: Memory, F: FnMut(&Visited, u64) -> ControlFlow<()>> Visitor<Reading<'_, Live<'_, M>>> for Series<F> {
    type Stop = Stop<core::convert::Infallible>;
    /// The decoder of the table's entries, and the restrictions on them.
    type Scratch = (Decoder, TableLimits);

    #[inline(always)]
    fn begin(&mut self, table: &Table) -> Self::Scratch {
        (Decoder::new(self.geometry, table.level), self.limits)
    }

    #[inline(always)]
    fn leaves(
        &mut self,
        source: &Reading<'_, Live<'_, M>>,
        (decoder, limits): &mut Self::Scratch,
        Entries { table, index, last, entry: descriptor }: Entries<'_>,
    ) -> Result<usize, Self::Stop> {
        let entry = decoder.entry(descriptor);
        let Entry::Leaf(leaf) = entry else {
            return Ok(source.reader.slots(table.pa).alike((index, last), descriptor));
        };
        let end = if index == last {
            last + 1
        } else {
            // A descriptor grows like its address as far as the format keeps the bits of that in place.
            let even = 1u64 << in_place_bits(self.geometry.oa_format());
            let room = (even - (leaf.oa.0 & (even - 1))) >> table.shift;
            let last = last.min(index.saturating_add(room as usize).saturating_sub(1));
            source.reader.slots(table.pa).series(0, (index, last), (descriptor, 1 << table.shift)).0
        };
        let visited = Visited::at(table, (index, descriptor), entry, *limits);
        match (self.each)(&visited, (end - index) as u64) {
            ControlFlow::Break(()) => Err(Stop::Enough),
            ControlFlow::Continue(()) => Ok(end),
        }
    }

    #[inline(always)]
    fn enter(
        &mut self,
        _: &Reading<'_, Live<'_, M>>,
        (_, limits): &mut Self::Scratch,
        at: Entries<'_>,
    ) -> Result<bool, Self::Stop> {
        self.limits = *limits | TableLimits::of(at.entry);
        Ok(true)
    }
}
