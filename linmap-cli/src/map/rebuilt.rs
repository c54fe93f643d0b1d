//! A saved dump as tables, so that whatever walks tables walks it as well.
//!
//! No table is built: the made-up address of one says which addresses it translates, and its entries are
//! what the dump says of those. What a dump does not have is lost: restrictions in table descriptors, tables
//! that are shared, and in text output addresses, which are the virtual ones without the base here.

use std::cell::Cell;

use linmap::{Descriptor, Geometry, Half, Leaf, Level, Pa, Slot, Va};

use super::infer;
use crate::source::{Saved, Stretch, What};

/// A dump that can be walked.
pub(crate) struct Rebuilt<'s> {
    geometry: Geometry,
    stretches: &'s [Stretch],
    has_addresses: bool,
    /// The stretch that was asked for last.
    last: Cell<usize>,
}

/// A dump that no tables can have made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Inconsistent {
    #[error("{0}: its lines fit no page size and VA size; a `--json` dump has them written in it")]
    NoGeometry(String),
    #[error("{name}: nothing is in it")]
    Empty { name: String },
    #[error(
        "{name}: what starts at {va} is no whole number of level {level} entries above what is in front of it"
    )]
    Stretch { name: String, va: Va, level: i8 },
}

impl<'s> Rebuilt<'s> {
    pub(crate) fn of(saved: &'s Saved) -> Result<Self, Inconsistent> {
        let name = saved.name.clone();
        if saved.stretches.is_empty() {
            return Err(Inconsistent::Empty { name });
        }
        let geometry = saved.geometry.or_else(|| infer::geometry(&saved.stretches));
        let Some(geometry) = geometry else { return Err(Inconsistent::NoGeometry(name)) };
        let mut end = Some(geometry.base(Half::Upper));
        for stretch in &saved.stretches {
            let Stretch { va, bytes, level, .. } = *stretch;
            let fits = level >= geometry.root() && end.is_some_and(|end| va.0 >= end) && bytes != 0 && {
                let size = geometry.level_size(level);
                va.0.is_multiple_of(size) && bytes.is_multiple_of(size)
            };
            // The last one ends where there are no addresses any more.
            let last = va.0.checked_add(bytes.wrapping_sub(1)).filter(|_| fits);
            let Some(last) = last else {
                return Err(Inconsistent::Stretch { name, va, level: level.number() });
            };
            end = last.checked_add(1);
        }
        let has_addresses = saved.stretches.iter().all(|s| !matches!(s.what, What::Leaf { oa: None, .. }));
        Ok(Self { geometry, stretches: &saved.stretches, has_addresses, last: Cell::new(0) })
    }

    pub(crate) const fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) const fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// The made-up address of the root.
    pub(crate) fn root(&self) -> Pa {
        self.table(0, self.geometry.root())
    }

    /// The made-up address of the table that translates from an offset in the half on: tables are so far
    /// apart that the level fits between.
    fn table(&self, offset: u64, level: Level) -> Pa {
        Pa(offset | (level.ordinal() as u64 + 1) << self.geometry.page_shift())
    }

    /// What a slot holds.
    pub(crate) fn entry(&self, slot: Slot, level: Level) -> Descriptor {
        let g = self.geometry;
        let offset = slot.table.0 & !((8 << g.page_shift()) - 1);
        let offset = offset.wrapping_add((slot.index as u64) << g.level_shift(level));
        let va = g.base(Half::Upper).wrapping_add(offset);
        let Some(stretch) = self.at(va, g.level_size(level)) else { return Descriptor::HOLE };
        match stretch.what {
            _ if stretch.level > level => Descriptor::table(self.table(offset, level.next()), g),
            _ if stretch.level < level || va < stretch.va.0 => Descriptor::HOLE,
            What::Hole => Descriptor::HOLE,
            What::Reserved => Descriptor(1),
            What::Leaf { oa, attributes, contiguous, valid } => {
                let oa = oa.map_or(offset, |oa| oa.0.wrapping_add(va - stretch.va.0));
                Descriptor::leaf(Leaf { oa: Pa(oa), attributes, contiguous, valid }, g, level)
            }
        }
    }

    /// The first stretch that has one of these addresses.
    fn at(&self, va: u64, bytes: u64) -> Option<&Stretch> {
        let ends_before = |stretch: &Stretch| stretch.va.0 + (stretch.bytes - 1) < va;
        let mut index = self.last.get();
        // Mostly it is the same as before, or the next one.
        let stays =
            self.stretches.get(index).is_some_and(|stretch| stretch.va.0 <= va && !ends_before(stretch));
        if !stays {
            index = self.stretches.partition_point(ends_before);
            self.last.set(index);
        }
        self.stretches.get(index).filter(|stretch| stretch.va.0 <= va + (bytes - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::{Attributes, Entry, Granule, OaFormat};
    use proptest::prelude::*;
    use std::ops::ControlFlow;

    const BASE: u64 = 0xffff_0000_0000_0000;

    fn saved(stretches: Vec<Stretch>) -> Saved {
        let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48).ok();
        Saved { name: "dump".to_owned(), geometry, stretches, markers: Vec::new() }
    }

    fn leaf(va: u64, bytes: u64, level: i8, oa: Option<u64>, contiguous: bool) -> Stretch {
        let attributes = Attributes::RAM;
        let what = What::Leaf { oa: oa.map(Pa), attributes, contiguous, valid: true };
        Stretch { va: Va(va), bytes, level: Level::new(level), what }
    }

    struct Reader<'r>(&'r Rebuilt<'r>);
    impl linmap::ReadTables for Reader<'_> {
        type Error = std::convert::Infallible;
        fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Self::Error> {
            Ok(self.0.entry(slot, level))
        }
    }

    fn walked(rebuilt: &Rebuilt<'_>) -> Vec<(u64, i8, u64)> {
        let mut leaves = Vec::new();
        let range = linmap::linear_range(rebuilt.geometry());
        let _ =
            linmap::visit(&Reader(rebuilt), rebuilt.geometry(), rebuilt.root(), range, |va, level, entry| {
                if let Entry::Leaf(leaf) = entry {
                    leaves.push((va.0 - BASE, level.number(), leaf.oa.0));
                }
                ControlFlow::Continue(())
            });
        leaves
    }

    #[test]
    fn a_dump_is_walked_as_the_tables_that_it_was_made_of() {
        let saved = saved(vec![
            leaf(BASE, 2 << 20, 2, Some(0x4000_0000), false),
            leaf(BASE + (2 << 20), 8192, 3, Some(0x8000_0000), false),
            // Nothing is said of what lies between.
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
        let range = linmap::linear_range(rebuilt.geometry());
        let stats = linmap::count(&Reader(&rebuilt), rebuilt.geometry(), rebuilt.root(), range).unwrap();
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
        let text = Saved { geometry: None, ..saved(vec![leaf(BASE, 1024, 3, None, false)]) };
        assert_eq!(Rebuilt::of(&text).err(), Some(Inconsistent::NoGeometry("dump".to_owned())));
    }

    proptest! {
        /// Whatever a saved dump claims: refused, or walked to the end.
        #[test]
        fn no_dump_panics(rows: Vec<(u64, u32, i8, bool)>) {
            let stretch = |(va, bytes, level, hole): (u64, u32, i8, bool)| {
                let row = leaf(BASE | va << 12, u64::from(bytes) << 12, level, None, false);
                if hole { Stretch { what: What::Hole, ..row } } else { row }
            };
            let mut stretches: Vec<_> = rows.into_iter().map(stretch).collect();
            stretches.sort_by_key(|stretch| stretch.va);
            let saved = saved(stretches);
            if let Ok(rebuilt) = Rebuilt::of(&saved) {
                let bounded = Reader(&rebuilt);
                let bounded = linmap::Bounded::new(&bounded, 1 << 20);
                let range = linmap::linear_range(rebuilt.geometry());
                let _ = linmap::count(&bounded, rebuilt.geometry(), rebuilt.root(), range);
            }
        }
    }
}
