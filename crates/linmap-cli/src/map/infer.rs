//! Infers page size and VA size of a text dump, which lacks them, from all of its lines.
//!
//! The first address is the base of the upper half, as in every `kernel_page_tables`. Of the page sizes with as many
//! levels as are named, the largest is taken of which every line is a whole number of entries: some line is a guard
//! page or a single block.

use linmap::{Geometry, Granule, Half, OaFormat};

use crate::source::SavedRun;

/// Returns the geometry that fits these rows, if there is one.
pub(crate) fn geometry(rows: &[SavedRun]) -> Option<Geometry> {
    let va_bits = 64 - rows.first()?.va.0.leading_ones();
    let candidates = Granule::ALL.into_iter().rev().filter_map(|granule| {
        let format = match (va_bits, granule) {
            (..=48, _) => OaFormat::Bits48,
            (_, Granule::K64) => OaFormat::Lpa,
            _ => OaFormat::Lpa2,
        };
        Geometry::new(granule, va_bits, format).ok()
    });
    let top = rows.iter().map(|row| row.level).min()?;
    candidates.into_iter().find(|g| top >= g.root() && rows.iter().all(|row| fits(*g, row)))
}

fn fits(geometry: Geometry, row: &SavedRun) -> bool {
    let size = geometry.level_size(row.level);
    row.va.0 >= geometry.base(Half::Upper) && row.va.0.is_multiple_of(size) && row.bytes.is_multiple_of(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::EntryKind;
    use linmap::Va;
    use linmap::arch::Level;
    use test_support::prelude::*;

    fn row(va: u64, bytes: u64, level: i8) -> SavedRun {
        SavedRun { va: Va(va), bytes, level: Level::new(level), what: EntryKind::Hole, descriptor: None }
    }

    fn found(rows: &[SavedRun]) -> Option<(Granule, u32)> {
        geometry(rows).map(|g| (g.granule(), g.va_bits()))
    }

    #[test]
    fn lines_say_what_they_are_made_of() {
        let base = 0xffff_0000_0000_0000;
        let small = [
            row(base, 2 << 20, 2),
            row(base + (2 << 20), 320 << 10, 3),
            row(0xffff_8000_0000_0000, 1 << 39, 0),
        ];
        assert_eq!(found(&small), Some((Granule::K4, 48)));
        assert_eq!(
            found(&[row(base, 512 << 20, 2), row(base + (512 << 20), 65536, 3)]),
            Some((Granule::K64, 48))
        );
        // Four levels, so not 64K pages.
        let medium = [
            row(base, 1 << 47, 0),
            row(base + (1 << 47), 32 << 20, 2),
            row(base + (1 << 47) + (32 << 20), 16384, 3),
        ];
        assert_eq!(found(&medium), Some((Granule::K16, 48)));
        assert_eq!(
            found(&[row(0xfff0_0000_0000_0000, 4096, 3), row(0xfff1_0000_0000_0000, 1 << 48, -1)]),
            Some((Granule::K4, 52))
        );
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[row(0, 4096, 3)]), None);
        assert_eq!(found(&[row(base, 1024, 3)]), None);
    }

    proptest! {
        #[test]
        fn no_rows_panic(rows: Vec<(u64, u64, i8)>) {
            let rows: Vec<_> = rows.into_iter().map(|(va, bytes, level)| row(va, bytes, level)).collect();
            let _ = geometry(&rows);
        }
    }
}
