//! The library's reading of descriptors, by which the machine judges too, beside one from the tables of the Arm ARM:
//! descriptor formats (D8.3.1), leaf sizes and address bits of each granule (D8.2), contiguous runs (D8.7.1).

use linmap::arch::{Descriptor, Entry, Level};
use linmap::{Geometry, Granule, OaFormat};

use test_support::{Random, case, geometries, is_one, seeds};

use crate::descriptor::{ATTRIBUTES, CONTIGUOUS, NOT_GLOBAL, SHAREABILITY, TABLE_OR_PAGE, VALID};

/// The kinds of valid descriptors, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Read {
    Reserved,
    Table(u64),
    Leaf { oa: u64, attributes: u64, contiguous: bool },
}

/// Returns log2 of a page's bytes.
fn page_shift(g: Geometry) -> u32 {
    match g.granule() {
        Granule::K4 => 12,
        Granule::K16 => 14,
        Granule::K64 => 16,
    }
}

/// Returns log2 of the bytes that a descriptor translates.
fn shift(g: Geometry, level: i8) -> u32 {
    let page = page_shift(g);
    page + (3 - level) as u32 * (page - 3)
}

/// Returns true if there are blocks at a level.
fn has_blocks(g: Geometry, level: i8) -> bool {
    match (g.granule(), g.oa_format()) {
        (Granule::K4, OaFormat::Lpa2) => matches!(level, 0..=2),
        (Granule::K4, _) | (Granule::K16, OaFormat::Lpa2) | (Granule::K64, OaFormat::Lpa) => {
            matches!(level, 1 | 2)
        }
        (Granule::K16 | Granule::K64, _) => level == 2,
    }
}

/// Returns the descriptors of a contiguous run.
fn run(g: Geometry, level: i8) -> usize {
    match (g.granule(), level) {
        (Granule::K4, 1..=3) => 16,
        (Granule::K16, 3) => 128,
        (Granule::K16 | Granule::K64, 2) | (Granule::K64, 3) => 32,
        _ => 1,
    }
}

/// Returns the address in a descriptor, from a bit on.
fn address(value: u64, g: Geometry, low: u32) -> u64 {
    let bits = |high: u32| value & ((1 << high) - 1) & !((1 << low) - 1);
    match g.oa_format() {
        OaFormat::Bits48 => bits(48),
        OaFormat::Lpa => bits(48) | (value >> 12 & 0xf) << 48,
        OaFormat::Lpa2 => bits(50) | (value >> 8 & 3) << 50,
    }
}

fn read(value: u64, g: Geometry, level: i8) -> Read {
    let leaf = || {
        let lpa2 = g.oa_format() == OaFormat::Lpa2;
        let attributes = value & if lpa2 { ATTRIBUTES & !SHAREABILITY } else { ATTRIBUTES };
        Read::Leaf { oa: address(value, g, shift(g, level)), attributes, contiguous: value & CONTIGUOUS != 0 }
    };
    match (value & TABLE_OR_PAGE != 0, level) {
        (true, 3) => leaf(),
        (true, _) => Read::Table(address(value, g, page_shift(g))),
        (false, level) if has_blocks(g, level) => leaf(),
        (false, _) => Read::Reserved,
    }
}

fn levels(g: Geometry) -> impl Iterator<Item = i8> {
    g.root().number()..=3
}

#[test]
fn geometries_are_those_of_the_architecture() {
    for g in geometries() {
        for level in levels(g) {
            let at = Level::new(level);
            assert_eq!(g.level_shift(at), shift(g, level), "{g:?}, level {level}");
            let entries = 1usize << (page_shift(g) - 3);
            let entries =
                if level == g.root().number() { 1 << (g.va_bits() - shift(g, level)) } else { entries };
            assert_eq!(g.entries(at), entries, "{g:?}, level {level}");
            let members = if run(g, level) > entries { 1 } else { run(g, level) };
            assert_eq!(g.contiguous_entries(at), members, "{g:?}, level {level}");
        }
    }
}

#[test]
fn descriptors_are_read_as_they_stand() {
    let mut read_so_far = [0; 4];
    for seed in seeds(2000) {
        case(seed, || {
            let mut random = Random::new(seed);
            for g in geometries() {
                for level in levels(g) {
                    let value = random.bits();
                    // More leaves and tables than chance has.
                    let value = if random.one_in(4) { value } else { value | VALID };
                    let entry = Descriptor(value).decode(g, Level::new(level));
                    let said = format!("{g:?}, level {level}: {value:#x} is {entry:x?}");
                    let kind = judge(value, entry, g, level, &said);
                    read_so_far[kind] += 1;
                }
            }
        });
    }
    assert!(is_one() || read_so_far.iter().all(|&n| n > 0), "{read_so_far:?}");
}

/// Compares both readings, and returns the kind of the entry.
fn judge(value: u64, entry: Entry, g: Geometry, level: i8, said: &str) -> usize {
    if value & VALID == 0 {
        let kept = matches!(entry, Entry::Leaf(leaf) if !leaf.valid);
        assert!(kept || entry == Entry::Hole, "{said}");
        assert!(value & NOT_GLOBAL != 0 || entry == Entry::Hole, "{said}");
        return 0;
    }
    let (have, kind) = match entry {
        Entry::Table(table) => (Read::Table(table.0), 1),
        Entry::Leaf(leaf) => {
            assert!(leaf.valid, "{said}");
            let attributes = leaf.attributes.bits() & ATTRIBUTES;
            (Read::Leaf { oa: leaf.oa.0, attributes, contiguous: leaf.contiguous }, 2)
        }
        Entry::Hole => panic!("{said}"),
        Entry::Reserved => (Read::Reserved, 3),
    };
    assert_eq!(have, read(value, g, level), "{said}");
    kind
}
