//! Any 64 bits in any slot: whatever tables say, readers end without a panic.
//!
//! A few tables with random entries that often point to one another and to themselves. Such tables have
//! paths without number, though none is longer than the geometry has levels, so that readers here are bounded.

use std::collections::HashMap;
use std::ops::ControlFlow;

use linmap::arch::{Descriptor, Entry, Level};
use linmap::layout::linear_range;
use linmap::read::{Bounded, BoundedError, DumpError, MarkedRange, ReadTables, count, dump, visit};
use linmap::{Geometry, Granule, Half, OaFormat, Pa, Slot, Va};
use proptest::collection::vec;
use test_support::geometries;
use test_support::prelude::*;

/// The tables of an untrusted dump. Missing slots read as holes.
#[derive(Debug)]
struct Dump {
    tables: HashMap<u64, HashMap<usize, u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NoSuchTable;

impl ReadTables for Dump {
    type Error = NoSuchTable;

    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, NoSuchTable> {
        let table = self.tables.get(&slot.table.0).ok_or(NoSuchTable)?;
        Ok(Descriptor(table.get(&slot.index).copied().unwrap_or(0)))
    }
}

/// Returns the address of table `number`, which any page size divides.
fn table_at(number: u64) -> u64 {
    0x4000_0000 + (number << 16)
}

/// Anything, with a weight on pointers to the few tables that there are.
fn bits() -> impl Strategy<Value = u64> {
    let pointer = (0u64..4).prop_map(|number| table_at(number) | 3);
    prop_oneof![any::<u64>(), pointer, any::<u64>().prop_map(|bits| bits | 1)]
}

/// Tables with entries at both ends and anywhere between.
fn dumps() -> impl Strategy<Value = Dump> {
    let slot = prop_oneof![0usize..16, 0usize..8192];
    let table = vec((slot, bits()), 0..24).prop_map(HashMap::from_iter);
    vec(table, 1..5).prop_map(|tables| {
        let tables = (0..).map(table_at).zip(tables).collect();
        Dump { tables }
    })
}

fn ranges(g: Geometry) -> [(Va, Va); 4] {
    let base = g.base(Half::Upper);
    [linear_range(g), (Va(base), Va(u64::MAX)), (Va(0), Va((1 << g.va_bits()) - 1)), (Va(0), Va(u64::MAX))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_reader_ends(dump_of in dumps(), reads in 0u64..20_000) {
        let root = Pa(table_at(0));
        for g in geometries() {
            for range in ranges(g) {
                let bounded = || Bounded::new(&dump_of, reads);
                visit_checked(&bounded(), g, root, range);
                let counted = count(&bounded(), g, root, range);
                let region = MarkedRange { range, start: "from here", end: "to here" };
                let mut text = String::new();
                let dumped = dump(&bounded(), g, root, region, &mut text);
                prop_assert_eq!(dumped.map(drop).err(), counted.map(drop).err().map(DumpError::Read));
                lines_are_adjacent(&text);
            }
        }
    }

    /// Any range at all, backwards and outside what is translated included.
    #[test]
    fn every_range_ends(dump_of in dumps(), first: u64, last: u64) {
        for g in geometries() {
            visit_checked(&Bounded::new(&dump_of, 20_000), g, Pa(table_at(0)), (Va(first), Va(last)));
            // The same in the upper half, where something is to be visited.
            let within = |va: u64| g.base(Half::Upper) + (va & ((1 << g.va_bits()) - 1));
            let range = (Va(within(first).min(within(last))), Va(within(first).max(within(last))));
            let (reached, read) = visit_checked(&Bounded::new(&dump_of, 20_000), g, Pa(table_at(0)), range);
            let all = reached.is_some_and(|end| end >= range.1.0);
            prop_assert!(all || !read, "{g:?}: {reached:x?} of {} to {}", range.0, range.1);
        }
    }
}

/// Entries come in order, none twice, each at its level's alignment and within the range. Returns the end of the last
/// one, and whether the reader got to its end.
fn visit_checked(
    reader: &Bounded<'_, Dump>,
    g: Geometry,
    root: Pa,
    (first, last): (Va, Va),
) -> (Option<u64>, bool) {
    let (mut next, mut reached) = (first.0 & !(g.page_size() - 1), None);
    let read =
        visit(reader, g, root, (first, last), |&linmap::read::Visited { va, level, entry, .. }| {
            let span = g.level_size(level);
            assert_eq!(va.0 % span, 0, "{g:?}");
            let end = va.0.wrapping_add(span - 1);
            assert!(va <= last && end >= first.0, "{g:?}: {va} is not in {first} to {last}");
            assert!(level >= g.root());
            assert!(end >= next, "{g:?}: {va} comes late");
            match entry {
                Entry::Table(table) => assert!(level < Level::PAGE && table.0 % g.page_size() == 0),
                Entry::Leaf(leaf) => assert!(leaf.oa.0 % span == 0 && leaf.oa.0 < 1 << g.oa_bits()),
                Entry::Hole | Entry::Reserved => {}
            }
            next = if matches!(entry, Entry::Table(_)) { va.0 } else { end };
            reached = Some(next);
            ControlFlow::Continue(())
        });
    (reached, read.is_ok())
}

/// Each line of a dump starts where the one in front ends, and says how long it is.
fn lines_are_adjacent(text: &str) {
    let mut next = None;
    for line in text.lines().filter(|line| line.starts_with("0x")) {
        let hex = |s: &str| u64::from_str_radix(s, 16).expect("hexadecimal");
        let (start, end) = (hex(&line[2..18]), hex(&line[21..37]));
        assert!(next.is_none_or(|next| next == start), "{line:?} does not follow {next:x?}");
        next = Some(end);
        let (size, unit) = line[37..50].trim_start().split_at(line[37..50].trim_start().len() - 1);
        let shift = 10 * (1 + "KMGTPE".find(unit).expect("a unit"));
        assert_eq!(size.parse::<u64>().expect("a number") << shift, end.wrapping_sub(start), "{line:?}");
    }
}

/// A root that points to itself in every slot.
fn loop_to_itself(g: Geometry) -> Dump {
    let table = (0..g.entries(g.root()).max(1 << g.index_bits())).map(|slot| (slot, table_at(0) | 3));
    Dump { tables: HashMap::from([(table_at(0), table.collect())]) }
}

/// However a loop winds, one address is translated by one entry a level.
#[test]
fn a_loop_is_as_deep_as_the_geometry() {
    for g in geometries() {
        let (first, _) = linear_range(g);
        let levels = u64::from(g.levels());
        let looped = loop_to_itself(g);
        let looped = Bounded::new(&looped, levels);
        let mut entries = Vec::new();
        let walked = visit(
            &looped,
            g,
            Pa(table_at(0)),
            (first, first),
            |&linmap::read::Visited { level, entry, .. }| {
                entries.push((level, entry));
                ControlFlow::Continue(())
            },
        );
        assert_eq!(walked, Ok(ControlFlow::Continue(())), "{g:?}");
        let last = entries.pop().expect("entries");
        assert!(last.0 == Level::PAGE && matches!(last.1, Entry::Leaf(_)), "{g:?}");
        assert!(entries.iter().all(|e| e.1 == Entry::Table(Pa(table_at(0)))), "{g:?}");
        assert_eq!(entries.len() as u64, levels - 1);
    }
}

/// A visitor that has seen enough ends the walk at once, however deep it is.
#[test]
fn a_visitor_can_stop_in_a_loop() {
    for g in geometries() {
        let looped = loop_to_itself(g);
        let looped = Bounded::new(&looped, 5000);
        let mut left = 5000;
        let walked = visit(&looped, g, Pa(table_at(0)), linear_range(g), |_| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((walked, left), (Ok(ControlFlow::Break(())), 0), "{g:?}");
        // One more is refused.
        assert_eq!(count(&looped, g, Pa(table_at(0)), linear_range(g)), Err(BoundedError::Limit), "{g:?}");
    }
}

/// A table that is not there ends the dump with the reader's own words; what came before is printed.
#[test]
fn what_was_read_before_an_error_is_printed() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let root = HashMap::from([(0, table_at(1) | 3), (2, table_at(9) | 3)]);
    let l1 = HashMap::from([(0, 0x0060_0000_4000_0705)]);
    let tables = HashMap::from([(table_at(0), root), (table_at(1), l1)]);
    let reader = Dump { tables };
    let mut text = String::new();
    let result = dump(&reader, g, Pa(table_at(0)), MarkedRange::linear_map(g), &mut text);
    assert_eq!(result.map(drop), Err(DumpError::Read(NoSuchTable)));
    let size_and_level = |line: &str| line.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = text.lines().map(size_and_level).collect();
    assert_eq!(lines, ["Linear Mapping", "1G PUD", "511G PUD", "512G PGD"]);
}

/// A writer that is full ends the dump with its error.
#[test]
fn a_full_writer_ends_the_dump() {
    struct Room(usize);
    impl std::fmt::Write for Room {
        fn write_str(&mut self, s: &str) -> std::fmt::Result {
            self.0 = self.0.checked_sub(s.len()).ok_or(std::fmt::Error)?;
            Ok(())
        }
    }
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let root = HashMap::from([(1, 0x0060_0000_4000_0f05), (3, table_at(1) | 3)]);
    let tables = HashMap::from([(table_at(0), root), (table_at(1), HashMap::new())]);
    let reader = Dump { tables };
    let print = |out: &mut dyn std::fmt::Write| {
        let region = MarkedRange::linear_map(g);
        dump(&reader, g, Pa(table_at(0)), region, &mut { out }).map(drop)
    };
    let mut text = String::new();
    assert_eq!(print(&mut text), Ok(()));
    for room in 0..text.len() {
        assert_eq!(print(&mut Room(room)), Err(DumpError::Write), "{room} bytes");
    }
    assert_eq!(print(&mut Room(text.len())), Ok(()));
}
