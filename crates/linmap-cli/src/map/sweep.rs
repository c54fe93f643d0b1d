//! Finds the differences between two maps. Pure: both lists are walked together, once, from the first address to the
//! last.

use linmap::{Attributes, Geometry, Va};

use crate::source::{EntryKind, SavedRun};

/// The facts that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Output addresses.
    pub(crate) addresses: bool,
    /// Attributes that no dump prints: DBM and the software bits.
    pub(crate) unprinted: bool,
}

/// The contents of one map at some addresses: entries of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) what: EntryKind,
    /// The size of an entry in bytes; 0 for a hole.
    pub(crate) entry_bytes: u64,
}

/// A range that differs in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) va: Va,
    pub(crate) bytes: u64,
    pub(crate) sides: [Side; 2],
}

const NOTHING: Side = Side { what: EntryKind::Hole, entry_bytes: 0 };

/// Calls `each` for every range that differs, from the first address to the last.
pub(crate) fn sweep(
    (geometry_a, a): (Geometry, &[SavedRun]),
    (geometry_b, b): (Geometry, &[SavedRun]),
    (Va(first), Va(last)): (Va, Va),
    compared: Compared,
    mut each: impl FnMut(Difference),
) {
    let (mut a, mut b) = (Cursor::new(geometry_a, a), Cursor::new(geometry_b, b));
    let mut open: Option<Difference> = None;
    let mut next = Some(first);
    while let Some(va) = next.filter(|va| *va <= last) {
        let ((side_a, end_a), (side_b, end_b)) = (a.at(va), b.at(va));
        let end = end_a.min(end_b).min(last);
        let found = (!is_same(&side_a, &side_b, compared)).then(|| Difference {
            va: Va(va),
            bytes: end - va + 1,
            sides: [side_a, side_b],
        });
        open = match (open, found) {
            (Some(open), Some(found)) if goes_on(&open, &found) => {
                Some(Difference { bytes: open.bytes + found.bytes, ..open })
            }
            (before, found) => {
                before.into_iter().for_each(&mut each);
                found
            }
        };
        next = end.checked_add(1);
    }
    open.into_iter().for_each(each);
}

/// A list, read from its start.
struct Cursor<'s> {
    geometry: Geometry,
    rows: &'s [SavedRun],
    index: usize,
}

impl<'s> Cursor<'s> {
    const fn new(geometry: Geometry, rows: &'s [SavedRun]) -> Self {
        Self { geometry, rows, index: 0 }
    }

    /// Returns the contents at an address, and the last address with the same contents.
    fn at(&mut self, va: u64) -> (Side, u64) {
        while self.rows.get(self.index).is_some_and(|row| row.va.0 + (row.bytes - 1) < va) {
            self.index += 1;
        }
        match self.rows.get(self.index) {
            Some(row) if row.va.0 <= va => {
                let what = row.what.at(va - row.va.0);
                let entry_bytes =
                    if what == EntryKind::Hole { 0 } else { self.geometry.level_size(row.level) };
                (Side { what, entry_bytes }, row.va.0 + (row.bytes - 1))
            }
            Some(row) => (NOTHING, row.va.0 - 1),
            None => (NOTHING, u64::MAX),
        }
    }
}

fn is_same(a: &Side, b: &Side, compared: Compared) -> bool {
    let plain = |what: EntryKind| match what {
        EntryKind::Leaf { oa, attributes, contiguous, valid } => {
            let unprinted = Attributes::DIRTY_MANAGED | Attributes::SOFTWARE | Attributes::TAKEN_OUT;
            let attributes = if compared.unprinted { attributes } else { attributes.difference(unprinted) };
            EntryKind::Leaf { oa: oa.filter(|_| compared.addresses), attributes, contiguous, valid }
        }
        other => other,
    };
    a.entry_bytes == b.entry_bytes && plain(a.what) == plain(b.what)
}

/// Returns true if a range continues the one before it, on both sides.
fn goes_on(open: &Difference, found: &Difference) -> bool {
    let same = |(before, after): (&Side, &Side)| {
        before.entry_bytes == after.entry_bytes && before.what.at(open.bytes) == after.what
    };
    open.va.0.wrapping_add(open.bytes) == found.va.0 && open.sides.iter().zip(&found.sides).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::arch::Level;
    use linmap::{Granule, OaFormat, Pa};
    use test_support::prelude::*;

    const BASE: u64 = 0xffff_0000_0000_0000;
    const ALL: Compared = Compared { addresses: true, unprinted: true };

    fn geometry() -> Geometry {
        Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap()
    }

    fn row(va: u64, bytes: u64, level: i8, attributes: Attributes) -> SavedRun {
        let what =
            EntryKind::Leaf { oa: Some(Pa(0x4000_0000 + va)), attributes, contiguous: false, valid: true };
        SavedRun { va: Va(BASE + va), bytes, level: Level::new(level), what, descriptor: None }
    }

    fn found(a: &[SavedRun], b: &[SavedRun], compared: Compared) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let g = geometry();
        let range = (Va(BASE), Va(u64::MAX));
        sweep((g, a), (g, b), range, compared, |d| found.push((d.va.0 - BASE, d.bytes)));
        found
    }

    #[test]
    fn only_what_differs_is_found() {
        let (ram, ro) = (Attributes::RAM, Attributes::RAM | Attributes::READ_ONLY);
        let whole = [row(0, 4 << 20, 2, ram)];
        assert_eq!(found(&whole, &whole, ALL), []);
        // A block in pages of the same permissions; one page of them read-only.
        let split = [row(0, 2 << 20, 2, ram), row(2 << 20, 2 << 20, 3, ram)];
        assert_eq!(found(&whole, &split, ALL), [(2 << 20, 2 << 20)]);
        let protected = [
            row(0, 2 << 20, 2, ram),
            row(2 << 20, 4096, 3, ram),
            row((2 << 20) + 4096, 4096, 3, ro),
            row((2 << 20) + 8192, (2 << 20) - 8192, 3, ram),
        ];
        assert_eq!(found(&split, &protected, ALL), [((2 << 20) + 4096, 4096)]);
        assert_eq!(found(&whole, &protected, ALL).len(), 3);
        assert_eq!(found(&whole, &[], ALL), [(0, 4 << 20)]);
        assert_eq!(found(&[], &[], ALL), []);
        let hole = SavedRun { what: EntryKind::Hole, ..row(0, 1 << 39, 0, ram) };
        assert_eq!(found(&[hole], &[], ALL), []);
        let top = [row(0xffff_ffff_f000, 4096, 3, ram)];
        assert_eq!(found(&top, &[], ALL), [(0xffff_ffff_f000, 4096)]);
    }

    #[test]
    fn text_is_compared_by_what_it_has() {
        let a = [row(0, 4096, 3, Attributes::RAM | Attributes::SOFTWARE)];
        let what = EntryKind::Leaf { oa: None, attributes: Attributes::RAM, contiguous: false, valid: true };
        let text = [SavedRun { what, ..a[0] }];
        assert_eq!(found(&a, &text, ALL).len(), 1);
        assert_eq!(found(&a, &text, Compared { addresses: false, unprinted: false }), []);
    }

    fn rows() -> impl Strategy<Value = Vec<SavedRun>> {
        prop::collection::vec((1u64..5, 1u64..5, any::<bool>(), any::<bool>()), 0..20).prop_map(|pieces| {
            let mut va = 0;
            pieces
                .into_iter()
                .map(|(gap, pages, ro, hole)| {
                    va += (gap - 1) << 12;
                    let attributes = if ro { Attributes::KERNEL_RODATA } else { Attributes::RAM };
                    let row = row(va, pages << 12, 3, attributes);
                    va += pages << 12;
                    if hole { SavedRun { what: EntryKind::Hole, ..row } } else { row }
                })
                .collect()
        })
    }

    /// Returns the entry of one page.
    fn page(rows: &[SavedRun], va: u64) -> EntryKind {
        let row = rows.iter().find(|row| row.va.0 <= va && va - row.va.0 < row.bytes);
        row.map_or(EntryKind::Hole, |row| row.what.at(va - row.va.0))
    }

    proptest! {
        /// The result is the same as from a comparison of each page.
        #[test]
        fn each_page_is_judged(a in rows(), b in rows()) {
            let ranges = found(&a, &b, ALL);
            for index in 0..200u64 {
                let va = index << 12;
                let differs = page(&a, BASE + va) != page(&b, BASE + va);
                let reported = ranges.iter().any(|(start, bytes)| *start <= va && va - start < *bytes);
                prop_assert_eq!(differs, reported, "page {}", index);
            }
        }
    }
}
