//! Each mistake that must never be in a map is found, alone, and a right map has no findings.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use crate::fewest::machine::{Machine, machines};
use linmap::arch::{Descriptor, Entry, Leaf, Level};
use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::read::{Checks, Finding, ReadTables, RunFault, check};
use linmap::{
    Attributes, Geometry, Granule, Half, Layout, Leaves, OaFormat, Pa, Region, Rodata, SharedSpace, Slot,
    Stats, Tree, Va,
};
use proptest::collection::vec;
use test_support::prelude::*;
use test_support::{geometries, is_one, property};

/// Tables with descriptors placed by hand. Slots that are not there read as holes.
#[derive(Clone, Debug)]
struct Tables {
    g: Geometry,
    tables: HashMap<u64, HashMap<usize, u64>>,
    reads: Cell<u64>,
}

#[derive(PartialEq, Eq, Debug)]
struct NoSuchTable;

impl ReadTables for Tables {
    type Error = NoSuchTable;

    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, NoSuchTable> {
        self.reads.set(self.reads.get() + 1);
        let table = self.tables.get(&slot.table.0).ok_or(NoSuchTable)?;
        Ok(Descriptor(table.get(&slot.index).copied().unwrap_or(0)))
    }
}

/// Returns the address of table `number`, which any page size divides. The root is number 0.
const fn table_at(number: usize) -> u64 {
    0x4000_0000 + ((number as u64) << 16)
}

const ROOT: Pa = Pa(table_at(0));

impl Tables {
    fn new(g: Geometry) -> Self {
        Self { g, tables: HashMap::from([(ROOT.0, HashMap::new())]), reads: Cell::new(0) }
    }

    fn k4() -> Self {
        Self::new(Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap())
    }

    /// The slot by which the walk to `va` comes at `level`; tables above it are made if need be.
    fn slot(&mut self, va: u64, level: i8) -> &mut u64 {
        let (mut table, mut now) = (ROOT.0, self.g.root());
        while now.number() < level {
            let fresh = table_at(self.tables.len());
            let entry = self.tables.get_mut(&table).unwrap().entry(self.g.index(va, now)).or_insert(0);
            if *entry == 0 {
                *entry = fresh | 3;
                self.tables.insert(fresh, HashMap::new());
                table = fresh;
            } else {
                let Entry::Table(Pa(next)) = Descriptor(*entry).decode(self.g, now) else { panic!("a leaf") };
                table = next;
            }
            now = now.next();
        }
        self.tables.get_mut(&table).unwrap().entry(self.g.index(va, now)).or_insert(0)
    }

    fn put(&mut self, va: u64, level: i8, bits: u64) {
        *self.slot(va, level) = bits;
    }

    fn with(mut self, va: u64, level: i8, bits: u64) -> Self {
        self.put(va, level, bits);
        self
    }

    fn findings(&self, checks: &Checks<'_>) -> Vec<Finding> {
        let mut found = Vec::new();
        let whole = check(self, self.g, (ROOT, Half::Upper), checks, |finding| {
            assert!(!format!("{finding}").is_empty());
            found.push(finding);
            ControlFlow::Continue(())
        });
        let gave_up = matches!(found.last(), Some(Finding::GaveUp { .. }));
        assert_eq!(whole.map(|flow| flow.is_break()), Ok(gave_up));
        found
    }

    /// Returns the findings if nothing is known of the machine.
    fn plain(&self) -> Vec<Finding> {
        self.findings(&Checks::default())
    }
}

/// The start of the upper half with 48 bits, and a place there that is no linear map.
const BASE: u64 = 0xffff_0000_0000_0000;
const ELSEWHERE: u64 = 0xffff_c000_0000_0000;
/// The fields of RAM as a page and as a block: UXN, PXN, AF, SH inner, AttrIndx 1.
const PAGE: u64 = 0x0060_0000_0000_0707;
const BLOCK: u64 = 0x0060_0000_0000_0705;
const READ_ONLY: u64 = 1 << 7;
const CONTIGUOUS: u64 = 1 << 52;
const PXN: u64 = 1 << 53;

const L1: Level = Level::new(1);
const L2: Level = Level::new(2);
const L3: Level = Level::PAGE;

/// Every combination of the fields in table D8-65, below every combination of table restrictions.
#[test]
fn writable_and_executable_is_what_the_manual_says() {
    for fields in 0..32u64 {
        let [uxn, pxn, ro, user, dbm] = [1, 2, 4, 8, 16].map(|bit| fields & bit != 0);
        let leaf = 0x4000_0703
            | u64::from(uxn) << 54
            | u64::from(pxn) << 53
            | u64::from(dbm) << 51
            | u64::from(ro) << 7
            | u64::from(user) << 6;
        for limits in 0..64u64 {
            // In the table right above, and further up; NSTable says nothing here.
            for level in [0, 1, 2] {
                let mut map = Tables::k4().with(BASE, 3, leaf);
                *map.slot(BASE, level) |= limits << 58;
                let [pxn_table, uxn_table, no_el0, no_write] = [2, 4, 8, 16].map(|bit| limits & bit != 0);
                for hierarchical in [true, false] {
                    let limit = |bit| hierarchical && bit;
                    let el1_writes = (!ro || dbm) && !limit(no_write);
                    let el0_writes = el1_writes && user && !limit(no_el0);
                    let el0_executes = !uxn && !limit(uxn_table);
                    let el1_executes = !pxn && !limit(pxn_table) && !el0_writes;
                    let wrong = el1_writes && (el0_executes || el1_executes);
                    let found = map.findings(&Checks { hierarchical, ..Checks::default() });
                    let (va, oa) = (Va(BASE), Pa(0x4000_0000));
                    let finding = Finding::WritableAndExecutable { va, oa, level: L3 };
                    assert_eq!(found, if wrong { vec![finding] } else { vec![] }, "{leaf:#x} {limits:#x}");
                }
            }
        }
    }
}

/// Without AF, or read-only with DBM: found where walkers update leaves, and only there.
#[test]
fn leaves_that_walkers_update_are_found() {
    for (accessed, dbm, ro) in (0..8).map(|b| (b & 1 != 0, b & 2 != 0, b & 4 != 0)) {
        let leaf = PAGE & !(1 << 10 | 1 << 7)
            | u64::from(accessed) << 10
            | u64::from(dbm) << 51
            | u64::from(ro) << 7
            | 0x4000_0000;
        let map = Tables::k4().with(BASE, 3, leaf);
        let (va, descriptor) = (Va(BASE), Descriptor(leaf));
        let finding = Finding::HardwareUpdated { va, level: L3, descriptor };
        let found = |hardware_updates| map.findings(&Checks { hardware_updates, ..Checks::default() });
        assert_eq!(found(true), if !accessed || dbm && ro { vec![finding] } else { vec![] }, "{leaf:#x}");
        assert_eq!(found(false), vec![], "{leaf:#x}");
    }
}

/// A run of sixteen pages, the third one changed.
fn run_with(third: impl Fn(u64) -> u64) -> Vec<Finding> {
    let mut map = Tables::k4();
    for i in 0..64 {
        let page = PAGE | CONTIGUOUS | (0x4000_0000 + (i << 12));
        map.put(BASE + (i << 12), 3, if i == 18 { third(page) } else { page });
    }
    map.plain()
}

#[test]
fn broken_runs_are_found_once_and_say_why() {
    let broken = |fault| {
        vec![Finding::BrokenRun { va: Va(BASE + 0x1_0000), level: L3, fault, member: Va(BASE + 0x1_2000) }]
    };
    assert_eq!(run_with(|page| page), []);
    assert_eq!(run_with(|page| page & !CONTIGUOUS), broken(RunFault::Mixed));
    assert_eq!(run_with(|page| page + 0x1000), broken(RunFault::Addresses));
    assert_eq!(run_with(|page| page | READ_ONLY), broken(RunFault::Attributes));
    assert_eq!(run_with(|page| page ^ 1 << 3), broken(RunFault::Attributes));
    // IPGVGZ: what is not valid is in no run.
    assert_eq!(run_with(|page| page & !1), []);
    assert_eq!(run_with(|_| 0), []);
    assert_eq!(run_with(|_| 0x800 | CONTIGUOUS), []);
    // ICQTNL: hardware updates; and bits that are not hardware's.
    assert_eq!(run_with(|page| page & !0x400), []);
    assert_eq!(run_with(|page| page | 1 << 55), []);
}

/// Each member, with different entries after the run.
#[test]
fn every_member_of_a_run_is_looked_at() {
    for wrong in 16..32 {
        for end in [32, 48] {
            let mut map = Tables::k4();
            for i in 0..end {
                let bit = if i == wrong { 0 } else { CONTIGUOUS };
                map.put(BASE + (i << 12), 3, PAGE | bit | (i << 12));
            }
            let (va, member) = (Va(BASE + 0x1_0000), Va(BASE + (wrong << 12)));
            let broken = Finding::BrokenRun { va, level: L3, fault: RunFault::Mixed, member };
            assert_eq!(map.plain(), [broken], "{wrong} of {end}");
        }
    }
}

/// Hardware may find one member dirty before the others, unless it does not manage that.
#[test]
fn members_may_be_dirty_one_by_one() {
    let map = |dbm: u64| {
        let mut map = Tables::k4();
        for i in 0..16 {
            let clean = if i == 9 { 0 } else { READ_ONLY };
            map.put(BASE + (i << 12), 3, PAGE | CONTIGUOUS | dbm | clean | (i << 12));
        }
        map.plain()
    };
    assert_eq!(map(1 << 51), []);
    assert!(matches!(map(0)[..], [Finding::BrokenRun { fault: RunFault::Attributes, .. }]));
}

/// Nine pages before a run's boundary, and a run that is whole but not aligned.
#[test]
fn runs_start_at_multiples_of_their_size() {
    let run = |oa: u64, members: std::ops::Range<u64>| {
        let mut map = Tables::k4();
        members.for_each(|i| map.put(BASE + (i << 21), 2, BLOCK | CONTIGUOUS | (oa + (i << 21))));
        map.plain()
    };
    assert_eq!(run(0x4000_0000, 0..32), []);
    assert_eq!(run(0x4000_0000, 7..16), []);
    let (va, member) = (Va(BASE), Va(BASE));
    let unaligned = Finding::BrokenRun { va, level: L2, fault: RunFault::Unaligned, member };
    assert_eq!(run(0x4020_0000, 0..16), [unaligned]);
    // Each run is a finding of its own.
    let all = run(0x4020_0000, 0..48);
    let starts: Vec<_> =
        all.iter().map(|f| if let Finding::BrokenRun { va, .. } = f { va.0 } else { 0 }).collect();
    assert_eq!(starts, [BASE, BASE + (32 << 20), BASE + (64 << 20)]);
}

/// Plain neighbours before a run's only contiguous member and after it, and a table among them.
#[test]
fn one_contiguous_bit_makes_a_run() {
    for position in [0, 5, 15] {
        let mut map = Tables::k4();
        for i in 0..32 {
            let bit = if i == 16 + position { CONTIGUOUS } else { 0 };
            map.put(BASE + (i << 12), 3, PAGE | bit | (i << 12));
        }
        let member = Va(BASE + if position == 0 { 0x1_1000 } else { 0x1_0000 });
        let va = Va(BASE + 0x1_0000);
        assert_eq!(map.plain(), [Finding::BrokenRun { va, level: L3, fault: RunFault::Mixed, member }]);
    }
    let mut map = Tables::k4();
    (0..15).for_each(|i| map.put(BASE + (i << 21), 2, BLOCK | CONTIGUOUS | (i << 21)));
    assert_eq!(map.plain(), []);
    map.put(BASE + (15 << 21), 3, PAGE);
    let member = Va(BASE + (15 << 21));
    let mixed = Finding::BrokenRun { va: Va(BASE), level: L2, fault: RunFault::Mixed, member };
    assert_eq!(map.plain(), [mixed]);
}

#[test]
fn what_has_no_meaning_at_its_level_is_reserved() {
    let page_as_block = PAGE & !2 | 0x5000;
    let found = Tables::k4().with(BASE, 3, page_as_block).plain();
    assert_eq!(found, [Finding::Reserved { va: Va(BASE), level: L3, descriptor: Descriptor(page_as_block) }]);
    assert_eq!(Tables::k4().with(BASE, 3, PAGE | 0x5000).plain(), []);
    let found = Tables::k4().with(BASE, 0, BLOCK).plain();
    assert!(matches!(found[..], [Finding::Reserved { .. }]));
    let lpa2 = Geometry::new(Granule::K4, 48, OaFormat::Lpa2).unwrap();
    assert_eq!(Tables::new(lpa2).with(BASE, 0, BLOCK & !0x300).plain(), []);
}

/// Rows of tables D8-50 and D8-52: the bits that must be 0, by granule, format and level.
#[test]
fn bits_that_must_be_zero_are_those_of_the_manual() {
    use {Granule::*, OaFormat::*};
    let ones = |high: u32, low: u32| (1u64 << (high + 1)) - (1 << low);
    let (run, high) = (CONTIGUOUS, ones(49, 48));
    let rows = [
        (K4, Bits48, 3, high),
        (K4, Bits48, 2, high | ones(20, 12)),
        (K4, Bits48, 1, high | ones(29, 12)),
        (K4, Lpa2, 3, 0),
        (K4, Lpa2, 2, ones(20, 12)),
        (K4, Lpa2, 0, ones(38, 12) | run),
        (K16, Bits48, 3, high | ones(13, 12)),
        (K16, Bits48, 2, high | ones(24, 12)),
        (K16, Lpa2, 1, ones(35, 12) | run),
        (K64, Bits48, 3, high | ones(15, 12)),
        (K64, Bits48, 2, high | ones(28, 12)),
        (K64, Lpa, 3, high),
        (K64, Lpa, 2, high | ones(28, 16)),
        (K64, Lpa, 1, high | ones(41, 16) | run),
    ];
    // RAM's fields without shareability, which LPA2 has elsewhere.
    for (granule, format, level, expected) in rows {
        let g = Geometry::new(granule, 48, format).unwrap();
        let leaf = if level == 3 { PAGE & !0x300 } else { BLOCK & !0x300 };
        for bit in 2..59 {
            let found = Tables::new(g).with(BASE, level, leaf ^ 1 << bit).plain();
            let reserved = found.iter().any(|f| matches!(f, Finding::ReservedBits { .. }));
            assert_eq!(reserved, expected >> bit & 1 == 1, "{g:?} level {level} bit {bit}: {found:?}");
        }
    }
    for (granule, format, expected) in [
        (K4, Bits48, high),
        (K4, Lpa2, 0),
        (K16, Bits48, high | ones(13, 12)),
        (K16, Lpa2, ones(13, 12)),
        (K64, Bits48, high | ones(15, 12)),
        (K64, Lpa, high),
    ] {
        let g = Geometry::new(granule, 48, format).unwrap();
        for bit in (2..12).chain(48..64) {
            // Address bits lead to another table, which is there, too.
            let mut map = Tables::new(g).with(BASE, 3, 0);
            let slot = map.slot(BASE, 2);
            *slot ^= 1 << bit;
            let wrong = *slot;
            if let Entry::Table(Pa(table)) = Descriptor(wrong).decode(g, L2) {
                map.tables.entry(table).or_default();
            }
            let bits = (expected | 1 << 50) & 1 << bit;
            let finding =
                Finding::ReservedBits { va: Va(BASE), level: L2, descriptor: Descriptor(wrong), bits };
            assert_eq!(map.plain(), if bits != 0 { vec![finding] } else { vec![] }, "{g:?} bit {bit}");
        }
    }
}

#[test]
fn addresses_end_where_the_cpu_does() {
    let checks = Checks { pa_bits: 40, ..Checks::default() };
    let page = |oa: u64| Tables::k4().with(BASE, 3, PAGE | oa).findings(&checks);
    assert_eq!(page(0xff_ffff_f000), []);
    let (va, oa) = (Va(BASE), Pa(0x100_0000_0000));
    assert_eq!(page(oa.0), [Finding::LeafBeyondPa { va, oa, level: L3, pa_bits: 40 }]);
    // A block that starts within and ends beyond; the second page of a stretch.
    let lpa2 = Geometry::new(Granule::K4, 48, OaFormat::Lpa2).unwrap();
    let block = Tables::new(lpa2).with(BASE, 0, BLOCK & !0x300);
    assert_eq!(block.findings(&Checks { pa_bits: 39, ..checks }), []);
    let (oa, level, pa_bits) = (Pa(0), Level::new(0), 38);
    let beyond = Finding::LeafBeyondPa { va, oa, level, pa_bits };
    assert_eq!(block.findings(&Checks { pa_bits, ..checks }), [beyond]);
    let oa = Pa(0x100_0000_0000);
    let map = Tables::k4().with(BASE, 3, PAGE | 0xff_ffff_f000).with(BASE + 0x1000, 3, PAGE | oa.0);
    let va = Va(BASE + 0x1000);
    assert_eq!(map.findings(&checks), [Finding::LeafBeyondPa { va, oa, level: L3, pa_bits: 40 }]);
    let small = Checks { pa_bits: 29, ..Checks::default() };
    let tables =
        |bits| Tables::k4().with(BASE, 1, bits).findings(&Checks { pa_bits: 31, ..Checks::default() });
    assert_eq!(tables(BLOCK), []);
    assert!(matches!(tables(BLOCK | 1 << 31)[..], [Finding::LeafBeyondPa { level: L1, .. }]));
    let root = Tables::k4().findings(&small);
    let level = Level::new(0);
    assert_eq!(root, [Finding::TableBeyondPa { va: Va(BASE), table: ROOT, level, pa_bits: 29 }]);
    let va = Va(BASE + (1 << 39));
    let map = Tables::k4().with(va.0, 0, 1 << 40 | 3);
    let table = Pa(1 << 40);
    assert_eq!(map.findings(&checks), [Finding::TableBeyondPa { va, table, level: L1, pa_bits: 40 }]);
    for pa_bits in [0, 1, 63, 64, u32::MAX] {
        let found = Tables::k4().findings(&Checks { pa_bits, ..Checks::default() });
        assert_eq!(found.len(), usize::from(pa_bits < 32), "{pa_bits}");
    }
}

#[test]
fn tables_outside_ram_are_not_read() {
    let is_ram = |pa: Pa| (0x4000_0000..0x5000_0000).contains(&pa.0);
    let checks = Checks { is_ram: Some(&is_ram), ..Checks::default() };
    let right = Tables::k4().with(BASE, 3, PAGE);
    assert_eq!(right.findings(&checks), []);
    let wrong = right.with(BASE + (1 << 30), 1, 0x6000_0003);
    let (va, table) = (Va(BASE + (1 << 30)), Pa(0x6000_0000));
    assert_eq!(wrong.findings(&checks), [Finding::TableOutsideRam { va, table, level: L2 }]);
    // Without the answer the reader has to say so.
    let walked = check(&wrong, wrong.g, (ROOT, Half::Upper), &Checks::default(), |f| panic!("{f}"));
    assert_eq!(walked, Err(NoSuchTable));
    let nowhere = Checks { is_ram: Some(&|_| false), ..Checks::default() };
    let found = wrong.findings(&nowhere);
    assert_eq!(found, [Finding::TableOutsideRam { va: Va(BASE), table: ROOT, level: Level::new(0) }]);
}

#[test]
fn a_table_above_itself_is_a_loop() {
    for g in geometries() {
        let base = g.base(Half::Upper);
        let root = g.root().number();
        for level in root..3 {
            let mut map = Tables::new(g).with(base, level, 0);
            assert_eq!(map.plain(), []);
            map.put(base, level, ROOT.0 | 3);
            let (va, next) = (Va(base), Level::new(level + 1));
            assert_eq!(map.plain(), [Finding::Loop { va, table: ROOT, level: next }], "{g:?}");
        }
    }
}

#[test]
fn tables_in_use_twice_are_found_by_who_remembers() {
    let mut map = Tables::k4().with(BASE, 3, PAGE);
    let table = *map.slot(BASE, 1);
    let found = |map: &Tables| {
        let seen = RefCell::new(HashSet::new());
        let is_known = |pa: Pa| !seen.borrow_mut().insert(pa.0);
        map.findings(&Checks { is_known: Some(&is_known), ..Checks::default() })
    };
    assert_eq!(found(&map), []);
    let va = Va(BASE + (5 << 30));
    map.put(va.0, 1, table);
    assert_eq!(found(&map), [Finding::SharedTable { va, table: Pa(table & !3), level: L2 }]);
    assert_eq!(map.plain(), []);
}

/// RAM at its offset from 1 GiB on, and one leaf elsewhere.
fn aliased(linear: &[(u64, i8, u64)], elsewhere: (i8, u64)) -> Vec<Finding> {
    let mut map = Tables::k4().with(ELSEWHERE, elsewhere.0, elsewhere.1);
    linear.iter().for_each(|&(at, level, bits)| map.put(BASE + at, level, bits));
    let offset = BASE.wrapping_sub(0x4000_0000);
    map.findings(&Checks { linear_offset: Some(offset), ..Checks::default() })
}

#[test]
fn writable_aliases_of_protected_memory_are_found() {
    let oa = Pa(0x4000_5000);
    let found = |executable, alias, bytes| {
        let alias = Va(BASE + alias);
        vec![Finding::WritableAlias { va: Va(ELSEWHERE), oa, level: L3, executable, alias, bytes }]
    };
    let (page, block) = ((0x5000, 3, PAGE | oa.0), (0, 1, BLOCK | 0x4000_0000));
    let constant = (3, PAGE | READ_ONLY | oa.0);
    let code = (3, (PAGE | READ_ONLY | oa.0) & !PXN);
    for linear in [page, block] {
        let read_only = (linear.0, linear.1, linear.2 | READ_ONLY);
        assert_eq!(aliased(&[linear], constant), found(false, 0x5000, 0x1000));
        assert_eq!(aliased(&[linear], code), found(true, 0x5000, 0x1000));
        assert_eq!(aliased(&[read_only], constant), []);
        assert_eq!(aliased(&[read_only], code), []);
        // Invalid but kept; and writable memory may have writable aliases.
        assert_eq!(aliased(&[(linear.0, linear.1, linear.2 & !1 | 0x800)], code), []);
        assert_eq!(aliased(&[linear], (3, PAGE | oa.0)), []);
    }
    assert_eq!(aliased(&[(0x4000, 3, PAGE | 0x4000_4000)], code), [], "only its neighbour is writable");
    assert_eq!(aliased(&[], code), []);
    // Nothing is known of where aliases are.
    assert_eq!(Tables::k4().with(BASE + 0x5000, 3, page.2).with(ELSEWHERE, 3, code.1).plain(), []);
}

/// A table above the alias may make it read-only, and one above the leaf, too.
#[test]
fn restrictions_of_tables_count_for_aliases() {
    let offset = BASE.wrapping_sub(0x4000_0000);
    let run = |limited: u64, bits: u64, hierarchical| {
        let mut map = Tables::k4().with(BASE + 0x5000, 3, PAGE | 0x4000_5000);
        map.put(ELSEWHERE, 3, PAGE | bits | 0x4000_5000);
        *map.slot(limited, 1) |= 1 << 62;
        let checks = Checks { linear_offset: Some(offset), hierarchical, ..Checks::default() };
        map.findings(&checks).len()
    };
    assert_eq!((run(BASE, READ_ONLY, true), run(BASE, READ_ONLY, false)), (0, 1));
    assert_eq!((run(ELSEWHERE, 0, true), run(ELSEWHERE, 0, false)), (1, 0));
}

/// Writable pages below a block of code: adjacent ones are one finding, and none beyond its end.
#[test]
fn writable_pieces_of_a_block_are_joined() {
    let code = (2, (BLOCK | READ_ONLY | 0x4020_0000) & !PXN);
    let mut linear = Vec::new();
    for page in 0x1f0..0x410 {
        let read_only = if (0x280..0x290).contains(&page) || page == 0x300 { READ_ONLY } else { 0 };
        linear.push((page << 12, 3, PAGE | read_only | (0x4000_0000 + (page << 12))));
    }
    let pieces: Vec<_> = aliased(&linear, code)
        .iter()
        .map(|f| match *f {
            Finding::WritableAlias { alias, bytes, level: L2, .. } => ((alias.0 - BASE) >> 12, bytes >> 12),
            _ => panic!("{f}"),
        })
        .collect();
    assert_eq!(pieces, [(0x200, 0x80), (0x290, 0x70), (0x301, 0xff)]);
}

/// An entry of the linear map that is not where the offset has it could be anything's alias.
#[test]
fn what_is_not_at_the_offset_is_found() {
    let offset = BASE.wrapping_sub(0x4000_0000);
    let checks = Checks { linear_offset: Some(offset), ..Checks::default() };
    let at = |va: u64, oa: u64| Tables::k4().with(va, 3, PAGE | oa).findings(&checks);
    assert_eq!(at(BASE + 0x5000, 0x4000_5000), []);
    assert_eq!(at(ELSEWHERE, 0x4000_6000), []);
    let (va, oa) = (Va(BASE + 0x5000), Pa(0x4000_6000));
    let expected = Va(BASE + 0x6000);
    assert_eq!(at(va.0, oa.0), [Finding::NotLinear { va, oa, level: L3, expected }]);
    let (_, Va(last)) = linear_range(Tables::k4().g);
    assert_eq!(at(last & !0xfff, 0x4000_6000).len(), 1);
    assert_eq!(at(last + 1, 0x4000_6000), []);
    // An alias lookup that ends up at other memory is none of that memory's business.
    let map = Tables::k4().with(va.0, 3, PAGE | oa.0).with(ELSEWHERE, 3, PAGE | READ_ONLY | 0x4000_5000);
    assert_eq!(map.findings(&checks), [Finding::NotLinear { va, oa, level: L3, expected }]);
    // Nor are aliases looked for at addresses that are not the linear map's.
    let lower = Checks { linear_offset: Some(0), ..checks };
    let map = Tables::k4().with(BASE + 0x6000, 3, PAGE | 0x6000);
    let map = map.with(ELSEWHERE, 3, PAGE | READ_ONLY | 0x6000);
    assert!(matches!(map.findings(&lower)[..], [Finding::NotLinear { .. }]));
    // The lower half has no linear map.
    let map = Tables::k4().with(0, 3, PAGE | READ_ONLY | 0x4000_5000).with(0x5000, 3, PAGE);
    let walked = check(&map, map.g, (ROOT, Half::Lower), &checks, |f| panic!("{f}"));
    assert_eq!(walked, Ok(ControlFlow::Continue(())));
}

#[test]
fn the_limit_is_kept_and_said() {
    let map = Tables::k4().with(BASE, 3, PAGE).with(BASE + (7 << 30), 2, BLOCK);
    let limited = |limit| {
        map.reads.set(0);
        let found = map.findings(&Checks { limit, ..Checks::default() });
        assert!(map.reads.get() <= limit);
        found
    };
    assert_eq!(limited(5 * 512), []);
    let gave_up = |va, limit| [Finding::GaveUp { va: Va(va), limit }];
    assert_eq!(limited(5 * 512 - 1), gave_up(BASE + (7 << 30), 5 * 512 - 1));
    assert_eq!(limited(0), gave_up(BASE, 0));
}

/// Members of runs and entries on the way to aliases are read again, and count.
#[test]
fn every_read_counts() {
    let plain = Tables::k4().with(BASE, 3, PAGE | 0x4000_0000);
    let run =
        (0..16).fold(plain.clone(), |map, i| map.with(BASE + (i << 12), 3, PAGE | CONTIGUOUS | i << 12));
    let alias = [ELSEWHERE, ELSEWHERE + 0x1000];
    let alias = alias.iter().fold(plain.clone(), |map, &at| map.with(at, 3, PAGE | READ_ONLY | 0x4000_0000));
    for (map, reads) in [(plain, 4 * 512), (run, 4 * 512 + 16), (alias, 7 * 512 + 8)] {
        for (limit, gave_up) in [(reads - 1, true), (reads, false)] {
            map.reads.set(0);
            let linear_offset = Some(BASE.wrapping_sub(0x4000_0000));
            let found = map.findings(&Checks { limit, linear_offset, ..Checks::default() });
            assert_eq!(matches!(found.last(), Some(Finding::GaveUp { .. })), gave_up);
            assert!(map.reads.get() == reads || gave_up && map.reads.get() < reads);
        }
    }
}

#[test]
fn the_caller_can_stop_the_check() {
    let code = PAGE & !PXN;
    let map = (0..9).fold(Tables::k4(), |map, i| map.with(BASE + (i << 12), 3, code | i << 12));
    assert_eq!(map.plain().len(), 9);
    let mut left = 4;
    let walked = check(&map, map.g, (ROOT, Half::Upper), &Checks::default(), |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((walked, left), (Ok(ControlFlow::Break(())), 0));
}

#[test]
fn findings_say_what_where_and_why() {
    let found = Tables::k4().with(BASE + 0x3000, 3, (PAGE & !PXN) | 0x4000_3000).plain();
    assert_eq!(
        found[0].to_string(),
        "0xffff000000003000, level 3: 0x40003000 is mapped writable and executable; writable memory needs PXN \
         and UXN (D8.4.1.2)"
    );
    assert_eq!(
        run_with(|page| page & !CONTIGUOUS)[0].to_string(),
        "0xffff000000010000, level 3: a contiguous run is broken: a valid member has no contiguous bit, first \
         at 0xffff000000012000; a TLB may give any of the addresses and permissions, or abort (D8.7.1.1)"
    );
}

/// Maps of the library have no findings: the linear map, with the image's own addresses.
#[test]
fn maps_that_are_built_are_clean() {
    let rodata = prop::sample::select(vec![Rodata::Off, Rodata::On, Rodata::Full]);
    let checked = Cell::new(0);
    let arguments = (machines(12..36, 10..40), any::<bool>(), rodata);
    property(ProptestConfig::with_cases(48), arguments, |(machine, pages, rodata)| {
        for g in geometries() {
            let clean = machine.laid_out(g, rodata, |layout| is_clean(&machine, &layout, (g, rodata), pages));
            checked.set(checked.get() + usize::from(clean.is_some()));
        }
        Ok(())
    });
    let (checked, all) = (checked.get(), 48 * geometries().len());
    assert!(checked > all / 2 || is_one(), "{checked} of {all} maps were built");
}

/// Builds the map, in pages where they are asked for and the tables are not too large, and checks it.
fn is_clean(machine: &Machine, layout: &Layout<'_>, (g, rodata): (Geometry, Rodata), pages: bool) {
    let page = g.page_size();
    let image = machine.image.start & !(page - 1)..machine.image.end.next_multiple_of(page);
    let text = |leaves| Region {
        va: Va(u64::MAX << 31),
        oa: Pa(image.start),
        bytes: image.end - image.start,
        attributes: Attributes::KERNEL_TEXT,
        leaves,
    };
    let runs = |leaves| layout.runs(leaves).chain(text(leaves).runs(g));
    let fits = |leaves: &Leaves| Stats::of_runs(g, runs(*leaves)).table_bytes(g) <= 8 << 20;
    let leaves = Some(Leaves::Pages).filter(|leaves| pages && fits(leaves)).unwrap_or(Leaves::Largest);
    let planned = Stats::of_runs(g, runs(leaves));
    let memory = HostMemory::new(g, planned.tables as usize);
    let tree = Tree::build(&memory, g, Half::Upper, runs(leaves)).expect("as many pages as planned");
    let space = SharedSpace::adopt(tree);
    let checks = Checks { linear_offset: Some(layout.offset()), pa_bits: g.oa_bits(), ..Checks::default() };
    let mut writable = 0;
    let walked = space.on(&memory.platform()).read(|reader| {
        reader.check(&checks, |finding| {
            match finding {
                Finding::WritableAlias { bytes, executable: true, .. } => writable += bytes,
                _ => panic!("{g:?}: {finding}"),
            }
            ControlFlow::Continue(())
        })
    });
    assert_eq!(walked, ControlFlow::Continue(()));
    assert_eq!(writable, if rodata == Rodata::Off { image.end - image.start } else { 0 }, "{g:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any tables that point to one another: no panic, and no read beyond the limit.
    #[test]
    fn any_bits_end_within_the_limit(
        tables in vec(vec((prop_oneof![0usize..16, 0usize..8192], bits()), 0..24), 4),
        limit in 0u64..100_000,
        pa_bits in 0u32..70,
        linear_offset: Option<u64>,
        near: bool,
    ) {
        for g in geometries() {
            let linear_offset = if near { Some(g.base(Half::Upper)) } else { linear_offset };
            let checks = Checks { pa_bits, linear_offset, limit, ..Checks::default() };
            let tables = tables.iter().enumerate();
            let tables = tables.map(|(i, t)| (table_at(i), t.iter().copied().collect())).collect();
            let map = Tables { g, tables, reads: Cell::new(0) };
            for half in [Half::Upper, Half::Lower] {
                map.reads.set(0);
                let mut found = Vec::new();
                let walked = check(&map, g, (ROOT, half), &checks, |finding| {
                    found.push(finding);
                    ControlFlow::Continue(())
                });
                let reads = map.reads.get();
                let gave_up = matches!(found.last(), Some(Finding::GaveUp { .. }));
                prop_assert!(walked.is_err() || walked.is_ok_and(|end| end.is_break() == gave_up));
                for (n, finding) in found.iter().enumerate() {
                    match finding {
                        Finding::GaveUp { limit: said, .. } => {
                            prop_assert_eq!((*said, n + 1), (limit, found.len()), "{}", finding);
                        }
                        finding => is_true(&map, &checks, finding),
                    }
                }
                prop_assert!(reads <= limit);
            }
        }
    }

    /// Long stretches with a few entries that are off: nothing is missed that a look at each would find.
    #[test]
    fn stretches_hide_nothing(
        first in any::<u64>(),
        tame: bool,
        changes in vec((0u64..64, 0u32..66), 0..6),
        pa_bits in 30u32..53,
        level in 2i8..4,
    ) {
        for g in geometries() {
            let level = Level::new(level).max(g.root());
            let step = g.level_size(level);
            let kind = if level == L3 { 3 } else { 1 };
            let first = if tame { first & 0x0010_ffff_ffff_f000 | 0x0060_0000_0000_0400 } else { first };
            let first = first & !3 & !((step - 1) & !0xfff) | kind;
            let (base, mut map) = (g.base(Half::Upper), Tables::new(g));
            let mut entries: Vec<_> = (0..64).map(|i| first.wrapping_add(i * step)).collect();
            for &(index, bit) in &changes {
                let entry = &mut entries[index as usize];
                *entry = if bit < 64 { *entry ^ 1 << bit } else { 0 };
            }
            for (i, &bits) in (0..).zip(&entries) {
                if level == L3 || bits & 3 != 3 {
                    map.put(base + i * step, level.number(), bits);
                }
            }
            let checks = Checks { pa_bits: pa_bits.max(31), ..Checks::default() };
            let mut found: Vec<_> = map.findings(&checks).iter().map(|f| f.to_string()).collect();
            let mut expected: Vec<_> =
                one_by_one(&mut map, level, checks.pa_bits).iter().map(|f| f.to_string()).collect();
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected, "{:?} {:?}", g, level);
        }
    }
}

/// The descriptor that a finding names is there, and has the fault that is said of it.
fn is_true(map: &Tables, checks: &Checks<'_>, finding: &Finding) {
    let at = |va: Va, level: Level| {
        let mut table = ROOT.0;
        for above in (map.g.root().number()..level.number()).map(Level::new) {
            let entry = Descriptor(map.tables[&table][&map.g.index(va.0, above)]).decode(map.g, above);
            let Entry::Table(Pa(next)) = entry else { panic!("{finding}: {entry:?} is above it") };
            table = next;
        }
        Descriptor(map.tables[&table].get(&map.g.index(va.0, level)).copied().unwrap_or(0))
    };
    let leaf = |va, level| match at(va, level).decode(map.g, level) {
        Entry::Leaf(leaf) if leaf.valid => leaf,
        other => panic!("{:?}: {finding}: there is {other:?}", map.g),
    };
    match *finding {
        Finding::Reserved { va, level, descriptor } => {
            assert_eq!((at(va, level), descriptor.0 & 1), (descriptor, 1), "{finding}");
            assert_eq!(descriptor.decode(map.g, level), Entry::Reserved, "{finding}");
        }
        Finding::ReservedBits { va, level, descriptor, bits } => {
            assert_eq!((at(va, level), descriptor.0 & bits), (descriptor, bits), "{finding}");
            assert_ne!(bits, 0, "{finding}");
        }
        Finding::LeafBeyondPa { va, oa, level, pa_bits } => {
            assert_eq!((leaf(va, level).oa, pa_bits), (oa, checks.pa_bits), "{finding}");
            let end = u128::from(oa.0) + u128::from(map.g.level_size(level));
            assert!(end > 1u128 << pa_bits, "{finding}");
        }
        Finding::WritableAndExecutable { va, oa, level } => {
            let leaf = leaf(va, level);
            let is_executable = !leaf.attributes.contains(Attributes::PXN | Attributes::UXN);
            assert!(leaf.oa == oa && leaf.attributes.is_writable() && is_executable, "{finding}");
        }
        Finding::NotLinear { va, oa, level, expected } => {
            assert_eq!((leaf(va, level).oa, expected == va), (oa, false), "{finding}");
        }
        Finding::WritableAlias { va, oa, level, .. } => assert_eq!(leaf(va, level).oa, oa, "{finding}"),
        _ => {}
    }
}

/// Anything, with a weight on pointers to the few tables that there are.
fn bits() -> impl Strategy<Value = u64> {
    let pointer = (0usize..4).prop_map(|number| table_at(number) | 3);
    prop_oneof![any::<u64>(), pointer, any::<u64>().prop_map(|bits| bits | 1)]
}

/// The first 64 entries of the half at a level without tables, each looked at for itself.
fn one_by_one(map: &mut Tables, level: Level, pa_bits: u32) -> Vec<Finding> {
    let (g, mut found) = (map.g, Vec::new());
    let (base, step) = (g.base(Half::Upper), g.level_size(level));
    let slots = 64.max(g.contiguous_entries(level)).min(g.entries(level));
    let all: Vec<_> = (0..slots as u64).map(|i| *map.slot(base + i * step, level.number())).collect();
    let valid = |bits: u64| match Descriptor(bits).decode(g, level) {
        Entry::Leaf(leaf) if leaf.valid => Some(leaf),
        _ => None,
    };
    for (i, &bits) in (0..).zip(&all) {
        let (va, descriptor) = (Va(base + i * step), Descriptor(bits));
        let Some(leaf) = valid(bits) else {
            if bits & 1 == 1 {
                found.push(Finding::Reserved { va, level, descriptor });
            }
            continue;
        };
        // What comes back when the leaf is encoded again are the bits that mean something.
        let kept = Descriptor::leaf(leaf, g, level).0;
        let wrong = bits & !kept & !(0b11111 << 59 | 1 << 5);
        if wrong != 0 {
            found.push(Finding::ReservedBits { va, level, descriptor, bits: wrong });
        }
        if u128::from(leaf.oa.0) + u128::from(step) > 1 << pa_bits {
            found.push(Finding::LeafBeyondPa { va, oa: leaf.oa, level, pa_bits });
        }
        let a = leaf.attributes;
        let el1 = !a.contains(Attributes::PXN) && !a.contains(Attributes::USER);
        if a.is_writable() && (el1 || !a.contains(Attributes::UXN)) {
            found.push(Finding::WritableAndExecutable { va, oa: leaf.oa, level });
        }
    }
    let members = g.contiguous_entries(level);
    for (run, bits) in all.chunks(members).enumerate().filter(|_| members > 1) {
        let start = base + (run * members) as u64 * step;
        let leaves: Vec<(usize, Leaf)> =
            bits.iter().enumerate().filter_map(|(i, &b)| Some((i, valid(b)?))).collect();
        if let Some((fault, i)) = broken(&leaves, step, members) {
            let member = Va(start + i as u64 * step);
            found.push(Finding::BrokenRun { va: Va(start), level, fault, member });
        }
    }
    found
}

fn broken(leaves: &[(usize, Leaf)], step: u64, members: usize) -> Option<(RunFault, usize)> {
    leaves.iter().find(|(_, leaf)| leaf.contiguous)?;
    if let Some((i, _)) = leaves.iter().find(|(_, leaf)| !leaf.contiguous) {
        return Some((RunFault::Mixed, *i));
    }
    let start = |(i, leaf): &(usize, Leaf)| leaf.oa.0.wrapping_sub(*i as u64 * step);
    let first = leaves.first()?;
    if start(first) % (members as u64 * step) != 0 {
        return Some((RunFault::Unaligned, first.0));
    }
    leaves.iter().find_map(|member| {
        let differ = first.1.attributes ^ member.1.attributes;
        let dirty = (first.1.attributes & member.1.attributes).contains(Attributes::DIRTY_MANAGED);
        let hardware = if dirty { Attributes::READ_ONLY } else { Attributes::empty() };
        let hardware = hardware | Attributes::ACCESSED | Attributes::SOFTWARE | Attributes::TAKEN_OUT;
        if start(member) != start(first) {
            Some((RunFault::Addresses, member.0))
        } else {
            (!hardware.contains(differ)).then_some((RunFault::Attributes, member.0))
        }
    })
}
