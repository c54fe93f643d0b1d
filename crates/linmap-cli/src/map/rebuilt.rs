//! A saved dump as tables, for code that walks tables.
//!
//! No table is built: tables are numbered as walks reach them, and their entries come from the rows of the dump. Some
//! facts are lost: the addresses of tables, which tables are shared, and in text the output addresses; here these are
//! the virtual ones minus the base.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use linmap::arch::{Descriptor, Entry, Leaf, Level, TableLimits};
use linmap::{Attributes, Geometry, Half, Pa, Slot, Va};

use super::infer;
use crate::source::{EntryKind, Restriction, Saved, SavedRun};

/// A dump that can be walked.
pub(crate) struct Rebuilt<'s> {
    geometry: Geometry,
    stretches: &'s [SavedRun],
    has_addresses: bool,
    has_descriptors: bool,
    /// By level ordinal, in order of address: the restrictions of tables.
    limits: [Vec<Restriction>; Level::COUNT],
    /// The stretch that was asked for last.
    last: Cell<usize>,
    numbered: RefCell<Numbered>,
}

/// The tables reached so far. The number of a table is its made-up address, in pages.
#[derive(Default)]
struct Numbered {
    /// For each table, the first offset in the upper half that it translates.
    offsets: Vec<u64>,
    /// Numbers by that offset and by level.
    numbers: HashMap<(u64, Level), u64>,
}

/// A dump that no tables can have produced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Inconsistent {
    #[error("{0}: its lines fit no page size and VA size; a `--json` dump has them written in it")]
    NoGeometry(String),
    #[error("{name}: it is empty")]
    Empty { name: String },
    #[error(
        "{name}: what starts at {va} is no whole number of level {level} entries, or begins before what precedes it ends"
    )]
    SavedRun { name: String, va: Va, level: i8 },
    #[error("{name}: the descriptor of the row at {va} is that of a table, and rows are of leaves and holes")]
    Table { name: String, va: Va },
}

/// Checks that rows are in order, of whole entries, and of leaves and holes.
fn check(saved: &Saved, geometry: Geometry) -> Result<(), Inconsistent> {
    let name = || saved.name.clone();
    let mut end = Some(geometry.base(Half::Upper));
    for stretch in &saved.stretches {
        let SavedRun { va, bytes, level, .. } = *stretch;
        let fits = level >= geometry.root() && end.is_some_and(|end| va.0 >= end) && bytes != 0 && {
            let size = geometry.level_size(level);
            va.0.is_multiple_of(size) && bytes.is_multiple_of(size)
        };
        // The last one ends after the last address.
        let last = va.0.checked_add(bytes.wrapping_sub(1)).filter(|_| fits);
        let Some(last) = last else {
            return Err(Inconsistent::SavedRun { name: name(), va, level: level.number() });
        };
        let entry = stretch.descriptor.map(|bits| Descriptor(bits).decode(geometry, level));
        if matches!(entry, Some(Entry::Table(_))) {
            return Err(Inconsistent::Table { name: name(), va });
        }
        end = last.checked_add(1);
    }
    Ok(())
}

impl<'s> Rebuilt<'s> {
    /// Checks the rows of a saved dump, and prepares them for walks.
    pub(crate) fn of(saved: &'s Saved) -> Result<Self, Inconsistent> {
        let name = saved.name.clone();
        if saved.stretches.is_empty() {
            return Err(Inconsistent::Empty { name });
        }
        let geometry = saved.geometry.or_else(|| infer::geometry(&saved.stretches));
        let Some(geometry) = geometry else { return Err(Inconsistent::NoGeometry(name)) };
        check(saved, geometry)?;
        let leaves = || saved.stretches.iter().filter(|s| matches!(s.what, EntryKind::Leaf { .. }));
        let mut limits: [Vec<Restriction>; Level::COUNT] = Default::default();
        for restriction in &saved.limits {
            limits[restriction.level.ordinal()].push(*restriction);
        }
        limits.iter_mut().for_each(|list| list.sort_by_key(|restriction| restriction.va));
        Ok(Self {
            geometry,
            stretches: &saved.stretches,
            has_addresses: leaves().all(|s| !matches!(s.what, EntryKind::Leaf { oa: None, .. })),
            has_descriptors: leaves().all(|s| s.descriptor.is_some()),
            limits,
            last: Cell::new(0),
            numbered: RefCell::default(),
        })
    }

    pub(crate) const fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) const fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// Returns true if the raw descriptors of leaves are known.
    pub(crate) const fn has_descriptors(&self) -> bool {
        self.has_descriptors
    }

    /// Returns the first and last address of its rows.
    pub(crate) fn extent(&self) -> (Va, Va) {
        let base = Va(self.geometry.base(Half::Upper));
        let first = self.stretches.first().map_or(base, |row| row.va);
        let last = self.stretches.last().map_or(base, |row| Va(row.va.0.wrapping_add(row.bytes - 1)));
        (first, last)
    }

    /// Returns the made-up address of the root.
    pub(crate) fn root(&self) -> Pa {
        self.table(0, self.geometry.root())
    }

    /// Returns the made-up address of the table that translates from this offset in the upper half on.
    fn table(&self, offset: u64, level: Level) -> Pa {
        let mut numbered = self.numbered.borrow_mut();
        let next = numbered.offsets.len() as u64;
        let number = *numbered.numbers.entry((offset, level)).or_insert(next);
        if number == next {
            numbered.offsets.push(offset);
        }
        Pa((number + 1) << self.geometry.page_shift())
    }

    /// Returns the offset in the upper half that a table translates from.
    fn offset(&self, table: Pa) -> Option<u64> {
        let number = (table.0 >> self.geometry.page_shift()).checked_sub(1)?;
        self.numbered.borrow().offsets.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the restrictions of the table descriptor that translates from an address on.
    fn limits(&self, va: u64, level: Level) -> TableLimits {
        let list = &self.limits[level.ordinal()];
        let after = list.partition_point(|restriction| restriction.va.0 <= va);
        let found = after.checked_sub(1).map(|index| list[index]).filter(|r| va - r.va.0 < r.bytes);
        found.map_or(TableLimits::empty(), |restriction| restriction.limits)
    }

    /// Returns the entry in a slot.
    pub(crate) fn entry(&self, slot: Slot, level: Level) -> Descriptor {
        let g = self.geometry;
        let Some(offset) = self.offset(slot.table) else { return Descriptor::HOLE };
        let offset = offset.wrapping_add((slot.index as u64) << g.level_shift(level));
        let va = g.base(Half::Upper).wrapping_add(offset);
        let Some(stretch) = self.at(va, g.level_size(level)) else { return Descriptor::HOLE };
        if stretch.level > level {
            let table = Descriptor::table(self.table(offset, level.next()), g);
            return Descriptor(table.0 | self.limits(va, level).bits());
        }
        if stretch.level < level || va < stretch.va.0 {
            return Descriptor::HOLE;
        }
        match stretch.at(va - stretch.va.0) {
            (_, Some(descriptor)) => Descriptor(descriptor),
            (EntryKind::Hole, None) => Descriptor::HOLE,
            (EntryKind::Reserved, None) => Descriptor(1),
            (EntryKind::Leaf { oa, attributes, contiguous, valid }, None) => {
                leaf(Leaf { oa: oa.unwrap_or(Pa(offset)), attributes, contiguous, valid }, g, level)
            }
        }
    }

    /// Returns the first stretch that has one of these addresses.
    fn at(&self, va: u64, bytes: u64) -> Option<&SavedRun> {
        let ends_before = |stretch: &SavedRun| stretch.va.0 + (stretch.bytes - 1) < va;
        let mut index = self.last.get();
        // Mostly it is the last one, or the one after it.
        let stays =
            self.stretches.get(index).is_some_and(|stretch| stretch.va.0 <= va && !ends_before(stretch));
        if !stays {
            index = self.stretches.partition_point(ends_before);
            self.last.set(index);
        }
        self.stretches.get(index).filter(|stretch| stretch.va.0 <= va + (bytes - 1))
    }
}

/// Builds the descriptor of a leaf of which only the meaning was saved.
fn leaf(leaf: Leaf, geometry: Geometry, level: Level) -> Descriptor {
    const VALID: u64 = 1;
    if leaf.valid {
        return Descriptor::leaf(leaf, geometry, level);
    }
    // The software-present bit is saved in the place of nG.
    let present = leaf.attributes & Attributes::NOT_GLOBAL;
    let attributes = leaf.attributes - Attributes::NOT_GLOBAL;
    let valid = Descriptor::leaf(Leaf { attributes, valid: true, ..leaf }, geometry, level);
    Descriptor(valid.0 & !VALID | present.bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::{Granule, OaFormat};
    use std::ops::ControlFlow;
    use test_support::prelude::*;

    const BASE: u64 = 0xffff_0000_0000_0000;

    fn geometry() -> Geometry {
        Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
    }

    fn saved(stretches: Vec<SavedRun>) -> Saved {
        let geometry = Some(geometry());
        Saved { name: "dump".to_owned(), geometry, stretches, ..Saved::default() }
    }

    fn leaf(va: u64, bytes: u64, level: i8, oa: Option<u64>, contiguous: bool) -> SavedRun {
        let attributes = Attributes::RAM;
        let what = EntryKind::Leaf { oa: oa.map(Pa), attributes, contiguous, valid: true };
        SavedRun { va: Va(va), bytes, level: Level::new(level), what, descriptor: None }
    }

    struct Reader<'r>(&'r Rebuilt<'r>);
    impl linmap::read::ReadTables for Reader<'_> {
        type Error = std::convert::Infallible;
        fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Self::Error> {
            Ok(self.0.entry(slot, level))
        }
    }

    fn walked(rebuilt: &Rebuilt<'_>) -> Vec<(u64, i8, u64)> {
        let mut leaves = Vec::new();
        let range = linmap::layout::linear_range(rebuilt.geometry());
        let _ = linmap::read::visit(
            &Reader(rebuilt),
            rebuilt.geometry(),
            rebuilt.root(),
            range,
            |&linmap::read::Visited { va, level, entry, .. }| {
                if let Entry::Leaf(leaf) = entry {
                    leaves.push((va.0 - BASE, level.number(), leaf.oa.0));
                }
                ControlFlow::Continue(())
            },
        );
        leaves
    }

    #[test]
    fn a_dump_is_walked_as_the_tables_that_it_was_made_of() {
        let saved = saved(vec![
            leaf(BASE, 2 << 20, 2, Some(0x4000_0000), false),
            leaf(BASE + (2 << 20), 8192, 3, Some(0x8000_0000), false),
            // No row is between them.
            leaf(BASE + (1 << 30), 1 << 30, 1, Some(0x1_0000_0000), false),
        ]);
        let rebuilt = Rebuilt::of(&saved).expect("a map");
        assert!(rebuilt.has_addresses());
        assert_eq!(
            walked(&rebuilt),
            [
                (0, 2, 0x4000_0000),
                (2 << 20, 3, 0x8000_0000),
                ((2 << 20) + 4096, 3, 0x8000_1000),
                (1 << 30, 1, 0x1_0000_0000),
            ]
        );
        let range = linmap::layout::linear_range(rebuilt.geometry());
        let stats =
            linmap::read::count(&Reader(&rebuilt), rebuilt.geometry(), rebuilt.root(), range).unwrap();
        assert_eq!(stats.tables, 4);
    }

    #[test]
    fn text_has_no_addresses() {
        let saved = saved(vec![leaf(BASE, 65536, 3, None, true)]);
        let rebuilt = Rebuilt::of(&saved).expect("a map");
        assert!(!rebuilt.has_addresses());
        assert_eq!(walked(&rebuilt).len(), 16);
    }

    #[test]
    fn what_no_tables_can_say_is_refused() {
        let wrong = [
            vec![],
            vec![leaf(BASE + 4096, 2 << 20, 2, None, false)],
            vec![leaf(BASE, 4097, 3, None, false)],
            vec![leaf(BASE, 0, 3, None, false)],
            vec![leaf(0, 4096, 3, None, false)],
            vec![leaf(BASE, 8192, 3, None, false), leaf(BASE + 4096, 4096, 3, None, false)],
            vec![leaf(BASE, 1 << 60, 0, None, false)],
            vec![leaf(BASE, 4096, -1, None, false)],
            vec![leaf(u64::MAX - 4095, 4096, 3, None, false), leaf(BASE, 4096, 3, None, false)],
        ];
        for stretches in wrong {
            let saved = saved(stretches.clone());
            assert!(Rebuilt::of(&saved).is_err(), "{stretches:?}");
        }
        let table = Descriptor::table(Pa(0x4000_0000), geometry()).0;
        let table = SavedRun { descriptor: Some(table), ..leaf(BASE, 2 << 20, 2, Some(0), false) };
        assert!(matches!(Rebuilt::of(&saved(vec![table])), Err(Inconsistent::Table { .. })));
        let text = Saved { geometry: None, ..saved(vec![leaf(BASE, 1024, 3, None, false)]) };
        assert_eq!(Rebuilt::of(&text).err(), Some(Inconsistent::NoGeometry("dump".to_owned())));
    }

    proptest! {
        /// Whatever a saved dump claims: it is walked as its rows are, or refused for the first row that does not fit.
        #[test]
        fn a_dump_is_walked_as_its_rows_are_or_the_first_wrong_one_is_named(
            rows in prop::collection::vec((0..2048u64, 1..4u64, 0..16i8, any::<bool>(), any::<bool>()), 0..5), odd: (u64, u8, i8),
        ) {
            let stretch = |(at, count, level, hole, misplaced): (u64, u64, i8, bool, bool)| {
                // Mostly pages; a misplaced row can begin within an entry of its level.
                let level = if level < 3 { level } else { 3 };
                let size = geometry().level_size(Level::new(level));
                let at = if misplaced || level == 0 { at << 12 } else { (at << 21).next_multiple_of(size) };
                let row = leaf(BASE + at, count * size, level, None, false);
                if hole { SavedRun { what: EntryKind::Hole, ..row } } else { row }
            };
            let mut stretches: Vec<_> = rows.into_iter().map(stretch).collect();
            if odd.0.is_multiple_of(4) {
                stretches.push(leaf(BASE | odd.0 << 12, u64::from(odd.1) << 12, odd.2, None, false));
            }
            stretches.sort_by_key(|stretch| stretch.va);
            let whole = saved(stretches.clone());
            let is_fine = |count: usize| count == 0 || Rebuilt::of(&saved(stretches[..count].to_vec())).is_ok();
            match Rebuilt::of(&whole) {
                Ok(rebuilt) => {
                    let leaves = stretches.iter().filter(|row| row.what != EntryKind::Hole && row.level.number() > 0).flat_map(|row| {
                        let size = geometry().level_size(row.level);
                        let first = row.va.0 - BASE;
                        (0..row.bytes / size).map(move |index| (first + index * size, row.level.number(), first + index * size))
                    });
                    let in_linear_map = leaves.take(4096).filter(|leaf| leaf.0 < 1 << 47);
                    let walked = walked(&rebuilt);
                    prop_assert_eq!(&walked[..walked.len().min(4096)], in_linear_map.collect::<Vec<_>>());
                }
                Err(Inconsistent::SavedRun { va, level, .. }) => {
                    let is_named = |index: usize| (stretches[index].va, stretches[index].level.number()) == (va, level);
                    let first = (0..stretches.len()).find(|index| !is_fine(index + 1));
                    prop_assert!(first.is_some_and(is_named), "{:?} at {}", stretches, va);
                }
                Err(error) => {
                    let is_empty = matches!(error, Inconsistent::Empty { .. });
                    prop_assert!(is_empty && stretches.is_empty(), "{}", error);
                }
            }
        }
    }
}
