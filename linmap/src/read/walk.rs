//! Visit what is there: on live tables, on dumps, on anything whose tables can be read.
//!
//! The walk goes as deep as the geometry has levels and no deeper, whatever the tables say; how long it takes
//! is up to them, unless the reader is [`Bounded`](crate::Bounded).

use core::ops::ControlFlow;

use crate::format::{Decoder, Descriptor, Entry, Geometry, Half, Level, Pa, TableLimits, Va};
use crate::plan::Stats;
use crate::platform::Slot;
use crate::read::reader::ReadTables;

/// Calls `each` for every entry that translates an address from `first` to `last`, both included.
///
/// The half is the one that `first` is in; addresses that the root does not translate are left out.
/// Entries come in address order, a table before what is in it, with the address where the entry
/// starts and its level. `each` ends the walk by `ControlFlow::Break`.
///
/// # Errors
///
/// Whatever the reader says of the first slot that it can not read.
pub fn visit<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
    mut each: impl FnMut(Va, Level, Entry) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, R::Error> {
    visit_with_limits(reader, geometry, root, range, |va, level, entry, _| each(va, level, entry))
}

/// The same, with the restrictions that the tables above each entry lay on it ([`TableLimits`]).
pub(crate) fn visit_with_limits<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    (first, last): (Va, Va),
    mut each: impl FnMut(Va, Level, Entry, TableLimits) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, R::Error> {
    let half = if first.0 >> 63 == 0 { Half::Lower } else { Half::Upper };
    let base = geometry.base(half);
    let first = first.max(Va(base));
    let last = last.min(Va(base + ((1 << geometry.va_bits()) - 1)));
    if last < first {
        return Ok(ControlFlow::Continue(()));
    }
    Walk { reader, geometry, first, last, each: &mut each }.table(
        root,
        geometry.root(),
        base,
        TableLimits::empty(),
    )
}

/// Counts what is mapped from `first` to `last`, both included, with the tables above it.
///
/// # Errors
///
/// Whatever the reader says of the first slot that it can not read.
pub fn count<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
) -> Result<Stats, R::Error> {
    let mut stats = Stats::ROOT;
    let _ = visit(reader, geometry, root, range, |_, level, entry| {
        stats.count_entry(level, entry);
        ControlFlow::Continue(())
    })?;
    Ok(stats)
}

struct Walk<'a, R, F> {
    reader: &'a R,
    geometry: Geometry,
    first: Va,
    last: Va,
    each: &'a mut F,
}

impl<R: ReadTables, F: FnMut(Va, Level, Entry, TableLimits) -> ControlFlow<()>> Walk<'_, R, F> {
    /// Visits the table at `level` whose first slot translates `base`.
    fn table(
        &mut self,
        table: Pa,
        level: Level,
        base: u64,
        limits: TableLimits,
    ) -> Result<ControlFlow<()>, R::Error> {
        let shift = self.geometry.level_shift(level);
        let end = self.geometry.entries(level) - 1;
        let decoder = Decoder::new(self.geometry, level);
        let slot_of = |va: u64| if va < base { 0 } else { ((va - base) >> shift) as usize };
        for index in slot_of(self.first.0)..=slot_of(self.last.0).min(end) {
            let va = base.wrapping_add((index as u64) << shift);
            let descriptor: Descriptor = self.reader.entry(Slot { table, index }, level)?;
            let entry = decoder.entry(descriptor);
            let mut flow = (self.each)(Va(va), level, entry, limits);
            if let (ControlFlow::Continue(()), Entry::Table(child)) = (flow, entry) {
                flow = self.table(child, level.next(), va, limits | TableLimits::of(descriptor))?;
            }
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
