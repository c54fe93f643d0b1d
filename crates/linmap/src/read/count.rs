//! Counts what live tables hold. Entries that differ only in their addresses are counted together.
//!
//! Live tables can all be read, and an entry may be read twice. For other sources each slot is read once (`walk.rs`).
//! `Tally` counts the entries of one page table, eight at a time.

use crate::format::{Decoder, Descriptor, Entry, Geometry, Half, Level, Pa, Span, Va};
use crate::plan::Stats;
use crate::platform::Memory;
use crate::read::cursor::{Stop, Visitor, visit_span};
use crate::read::reader::{Live, Reading};
use crate::read::table::{Entries, Table};

/// Counts the leaves of live tables from the first address of a range to the last, and the tables that lead to them.
pub(crate) fn count_live<M: Memory>(
    tables: &Live<'_, M>,
    geometry: Geometry,
    root: Pa,
    (first, last): (Va, Va),
) -> Stats {
    let mut count = Count { geometry, stats: Stats::ROOT };
    if let Some((base, span)) = translated(geometry, (first, last)) {
        let source = Reading { reader: tables, geometry };
        match visit_span(&source, &Table::root(root, geometry, base), span, &mut count) {
            Ok(()) | Err(Stop::Enough) => {}
            Err(Stop::Read(e)) => match e {},
        }
    }
    count.stats
}

/// Returns the first address of the half that a range begins in, and the part of the range that the half's root translates.
pub(crate) fn translated(geometry: Geometry, (first, last): (Va, Va)) -> Option<(u64, Span)> {
    let half = if first.0 >> 63u32 == 0 { Half::Lower } else { Half::Upper };
    let base = geometry.base(half);
    let end = base + ((1 << geometry.va_bits()) - 1);
    let span = Span { first: first.0.max(base), last: last.0.min(end) };
    (span.first <= span.last).then_some((base, span))
}

/// The visitor of a count.
struct Count {
    geometry: Geometry,
    stats: Stats,
}

impl<M: Memory> Visitor<Reading<'_, Live<'_, M>>> for Count {
    type Stop = Stop<core::convert::Infallible>;
    type Scratch = Decoder;

    #[inline(always)]
    fn begin(&mut self, table: &Table) -> Decoder {
        Decoder::new(self.geometry, table.level)
    }

    #[inline(always)]
    fn leaves(
        &mut self,
        source: &Reading<'_, Live<'_, M>>,
        decoder: &mut Decoder,
        Entries { table, index, last, entry }: Entries<'_>,
    ) -> Result<usize, Self::Stop> {
        let end = source.reader.slots(table.pa).alike((index, last), entry);
        if let Entry::Leaf(leaf) = decoder.entry(entry) {
            self.stats.count_leaves(table.level, leaf.contiguous, (end - index) as u64);
        }
        Ok(end)
    }

    #[inline(always)]
    fn enter(
        &mut self,
        _: &Reading<'_, Live<'_, M>>,
        _: &mut Decoder,
        _: Entries<'_>,
    ) -> Result<bool, Self::Stop> {
        self.stats.tables += 1;
        Ok(true)
    }
}

/// The entries of a page table, by kind.
#[derive(Default)]
pub(crate) struct Tally {
    /// The number of leaves that are not in runs.
    pub(crate) plain: usize,
    /// The number of leaves in runs.
    pub(crate) runs: usize,
    /// True if a valid entry is reserved.
    pub(crate) strange: bool,
}

impl Tally {
    /// Counts entries, a multiple of eight.
    pub(crate) fn of(slots: &[u64], g: Geometry) -> Self {
        let mut tally = Self::default();
        slots.as_chunks().0.iter().for_each(|eight| tally.add(eight, g));
        tally
    }

    /// Counts eight entries. They are usually of the same kind.
    #[inline(always)]
    pub(crate) fn add(&mut self, eight: &[u64; 8], g: Geometry) {
        let all = Descriptor(eight.iter().fold(u64::MAX, |all, entry| all & entry));
        let any = Descriptor(eight.iter().fold(0, |any, entry| any | entry));
        if all.is_valid() && all.is_leaf(g, Level::PAGE) && !any.is_contiguous() {
            self.plain += eight.len();
        } else if any != Descriptor::HOLE {
            self.add_each(eight, g);
        }
    }

    #[cold]
    fn add_each(&mut self, eight: &[u64; 8], g: Geometry) {
        for entry in eight.map(Descriptor) {
            match entry.is_leaf(g, Level::PAGE) {
                true if entry.is_contiguous() => self.runs += 1,
                true => self.plain += 1,
                false => self.strange |= entry.is_valid(),
            }
        }
    }
}
