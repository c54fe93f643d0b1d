//! Tables that change while they are read.

use std::cell::{Cell, RefCell};

use linmap::{Granule, OaFormat};
use test_support::prelude::*;

use super::*;

/// All tables, and nobody is told.
const ALL: Request<'_> = Request { wanted: Wanted::All, progress: &|_| () };

const ROOT: Pa = Pa(0x1000);
/// A leaf of a page, and one of a block of 2 MiB.
const PAGE: u64 = 0x0060_0000_0000_0703;
const BLOCK: u64 = 0x0060_0000_0000_0701;

/// Memory of words, which counts the tables that are read.
#[derive(Debug, Default)]
struct Words {
    tables: RefCell<HashMap<u64, Vec<u64>>>,
    reads: Cell<usize>,
}

impl Words {
    /// A root, tables of levels 1 and 2, and pages below the first two entries of the latter.
    fn new() -> Self {
        let words = Self::default();
        words.put(0x1000, 0, 0x2003);
        words.put(0x2000, 0, 0x3003);
        words.put(0x3000, 0, 0x4003);
        words.put(0x3000, 1, 0x5003);
        for index in 0..512 {
            words.put(0x4000, index, PAGE + (index as u64) * 0x1000);
            words.put(0x5000, index, PAGE + (512 + index as u64) * 0x1000);
        }
        words
    }

    fn put(&self, table: u64, index: usize, word: u64) {
        self.tables.borrow_mut().entry(table).or_insert_with(|| vec![0; 512])[index] = word;
    }
}

impl Physical for Words {
    fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable> {
        self.reads.set(self.reads.get() + 1);
        let tables = self.tables.borrow();
        let table = tables.get(&pa.0).ok_or(Unreadable::NoRam(pa))?;
        into.copy_from_slice(&table.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
        Ok(())
    }
}

fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

fn read(words: &Words) -> Snapshot {
    Snapshot::read(words, geometry(), ROOT, ALL).expect("an end")
}

fn again(snapshot: &mut Snapshot, words: &Words, which: &dyn Fn(Level, Pa) -> bool) -> Vec<u64> {
    let tables = (geometry(), ROOT);
    let pass = snapshot.read_again(words, tables, ALL, which).expect("an end");
    let mut differing: Vec<u64> = pass.differing.into_iter().map(|table| table.0).collect();
    differing.sort_unstable();
    differing
}

/// Returns every entry of every known table, in order.
fn entries(snapshot: &Snapshot) -> Vec<(Pa, Vec<u64>)> {
    let mut tables: Vec<Pa> = snapshot.addresses().collect();
    tables.sort();
    let entry = |table, index| snapshot.entry(Slot { table, index }, Level::PAGE).expect("an entry").0;
    tables.into_iter().map(|table| (table, (0..512).map(|index| entry(table, index)).collect())).collect()
}

#[test]
fn a_second_pass_finds_what_differs() {
    let words = Words::new();
    let mut snapshot = read(&words);
    assert_eq!((snapshot.tables(), words.reads.get()), (5, 5));
    assert_eq!(again(&mut snapshot, &words, &|_, _| true), [0; 0]);
    words.put(0x5000, 7, 0);
    assert_eq!(again(&mut snapshot, &words, &|_, _| false), [0; 0], "nothing was to be read again");
    assert_eq!(again(&mut snapshot, &words, &|_, _| true), [0x5000]);
    assert_eq!(entries(&snapshot), entries(&read(&words)));
}

#[test]
fn a_table_that_nothing_points_to_is_forgotten() {
    let words = Words::new();
    // One that is no table, as a running kernel may show it.
    words.put(0x3000, 2, 0x9003);
    let mut snapshot = read(&words);
    assert_eq!((snapshot.tables(), snapshot.unread().len()), (5, 1));
    words.put(0x3000, 1, BLOCK + 0x20_0000);
    words.put(0x3000, 2, 0x6003);
    words.put(0x6000, 0, PAGE);
    let before = words.reads.get();
    let differing = again(&mut snapshot, &words, &|level, _| level != Level::PAGE);
    // The upper three again, and the new one.
    assert_eq!((differing, words.reads.get() - before), (vec![0x3000, 0x6000], 4));
    assert_eq!((snapshot.tables(), snapshot.unread().len()), (5, 0));
    assert_eq!(entries(&snapshot), entries(&read(&words)));
}

#[test]
fn a_halt_is_short_unless_an_upper_table_changed() {
    let words = Words::new();
    let mut snapshot = read(&words);
    words.put(0x5000, 7, 0);
    let tables = (geometry(), ROOT);
    let pass = snapshot.read_again(&words, tables, ALL, &|_, _| true).expect("an end");
    let upper: Vec<u64> = pass.upper.iter().map(|upper| upper.0.0).collect();
    assert_eq!(upper, [0x1000, 0x2000, 0x3000]);
    // A table that differed may be another now, and one that did not is not looked at.
    words.put(0x5000, 8, 0);
    words.put(0x4000, 8, 0);
    let before = words.reads.get();
    assert!(snapshot.confirm(&words, geometry(), &pass));
    assert_eq!(words.reads.get() - before, 4);
    let entry =
        |table, index| snapshot.entry(Slot { table: Pa(table), index }, Level::PAGE).expect("an entry").0;
    assert_eq!((entry(0x5000, 8), entry(0x4000, 8)), (0, PAGE + 0x8000));
    words.put(0x3000, 1, 0);
    assert!(!snapshot.confirm(&words, geometry(), &pass));
    words.tables.borrow_mut().remove(&0x3000);
    assert!(!snapshot.confirm(&words, geometry(), &pass));
}

#[test]
fn a_table_that_cannot_be_read_any_more_is_said() {
    let words = Words::new();
    let mut snapshot = read(&words);
    words.tables.borrow_mut().remove(&0x5000);
    assert_eq!(again(&mut snapshot, &words, &|_, _| true), [0x5000]);
    assert_eq!((snapshot.tables(), snapshot.unread()[0].table), (4, Pa(0x5000)));
    words.put(0x5000, 0, PAGE);
    assert_eq!(again(&mut snapshot, &words, &|_, _| false), [0x5000]);
    assert_eq!((snapshot.tables(), snapshot.unread().len()), (5, 0));
}

proptest! {
    /// After any changes, a second pass knows what a first one would, and reports all tables that differ.
    #[test]
    fn a_second_pass_is_as_good_as_a_first(
        rounds in prop::collection::vec(prop::collection::vec((1u64..8, 0usize..512, 0usize..6), 0..12), 1..4),
    ) {
        let words = Words::new();
        let mut snapshot = read(&words);
        for round in rounds {
            let before: HashMap<Pa, Vec<u64>> = entries(&snapshot).into_iter().collect();
            for (table, index, what) in round {
                let word = [0, PAGE, BLOCK, 0x4003, 0x6003, 0x9003][what];
                words.put(table * 0x1000, index, word);
            }
            let differing = again(&mut snapshot, &words, &|_, _| true);
            let fresh = read(&words);
            prop_assert!(entries(&snapshot) == entries(&fresh));
            prop_assert!(snapshot.unread() == fresh.unread());
            for (table, now) in entries(&snapshot) {
                let differs = before.get(&table) != Some(&now);
                prop_assert_eq!(differs, differing.contains(&table.0), "{}", table);
            }
        }
    }

    /// A table is known again by its runs or words, and by nothing else.
    #[test]
    fn a_table_is_recognised(index in 0usize..512, word: u64, shift in 0u32..20, value: u64) {
        let mut words: Vec<u64> = (0..512).map(|n| value.wrapping_add(n << shift)).collect();
        let mut snapshot = Snapshot::default();
        snapshot.store(ROOT, &words);
        prop_assert!(snapshot.holds(ROOT, &words) && !snapshot.holds(Pa(0), &words));
        prop_assert!(!snapshot.holds(ROOT, &words[..511]));
        let same = words[index] == word;
        words[index] = word;
        prop_assert_eq!(snapshot.holds(ROOT, &words), same);
    }
}
