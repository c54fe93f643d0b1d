//! The number of table pages that it takes to cut leaves at many addresses, one after the other. Pure.

use crate::format::{Geometry, Level, Span};

/// The number of levels, from the one above level 0 on.
const LEVELS: usize = 5;

/// An upper bound. It is exact if the addresses come in ascending or descending order.
#[derive(Clone, Copy, Default)]
pub(crate) struct TablesNeeded {
    /// For each level, which entry was replaced by a table last.
    replaced: [Option<u64>; LEVELS],
    tables: u64,
}

impl TablesNeeded {
    /// Adds a cut at an address, which is within or at an end of a leaf at a level.
    pub(crate) fn cut(&mut self, g: Geometry, level: Level, at: u64) {
        for n in level.number()..Level::PAGE.number() {
            let shift = g.level_shift(Level::new(n));
            let entry = Some(at >> shift);
            let replaced = &mut self.replaced[(n + 1) as usize];
            if at & ((1 << shift) - 1) != 0 && *replaced != entry {
                *replaced = entry;
                self.tables += 1;
            }
        }
    }

    /// Returns the number, if all cuts are within a span: no more than it would take to have all of it in pages.
    pub(crate) fn within(&self, g: Geometry, span: Span) -> u64 {
        let all = (g.first_leaf_level().number()..Level::PAGE.number()).map(|n| {
            let shift = g.level_shift(Level::new(n));
            (span.last >> shift) - (span.first >> shift) + 1
        });
        self.tables.min(all.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Granule, Half, OaFormat};

    #[test]
    fn cuts_share_tables() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let base = g.base(Half::Upper);
        let of = |pages: &[u64], level: i8| {
            let mut needed = TablesNeeded::default();
            pages.iter().for_each(|page| needed.cut(g, Level::new(level), base + (page << 12)));
            needed
        };
        let (span, gigabyte) = (|pages: u64| Span { first: base, last: base + (pages << 12) - 1 }, 1 << 18);
        for (pages, level, tables) in [
            (&[0, 512, gigabyte][..], 2, 0),
            (&[0, gigabyte], 1, 0),
            (&[512], 1, 1),
            (&[1], 1, 2),
            (&[1], 2, 1),
            (&[1, 511, 513], 1, 3),
            (&[513, 511, 1], 1, 3),
            // The table of the first block is counted twice.
            (&[1, 513, 2], 1, 4),
            (&[1, gigabyte + 1], 1, 4),
        ] {
            assert_eq!(of(pages, level).within(g, span(4 << 18)), tables, "{pages:?}");
        }
        assert_eq!(of(&[1, 513, 2, 514], 1).within(g, span(1024)), 3);
    }
}
