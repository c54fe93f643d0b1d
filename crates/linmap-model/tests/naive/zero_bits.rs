//! Bits that must be zero: the machine, the library's `check` and the tables of the Arm ARM (D8.3.1, D8.7.1) have the same.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use linmap::arch::{Descriptor, Entry, Level};
use linmap::read::{Checks, Finding, ReadTables, check};
use linmap::{Geometry, Granule, Half, OaFormat, Pa, Slot, Va};
use linmap_model::{Barrier, Core, Event, Machine, Register, Rule, Setup};
use test_support::{Random, each, geometries};

use crate::descriptor::{CONTIGUOUS, VALID};

/// Bits of a valid descriptor that must be zero, one by one as the tables list them. NSTable and what a security state or a
/// regime decides are left out, and so is nT.
fn listed(g: Geometry, level: i8, entry: Entry) -> u64 {
    let bits = |high: u32, low: u32| ((1u64 << (high + 1)) - 1) & !((1 << low) - 1);
    let above = if g.oa_format() == OaFormat::Lpa2 { 0 } else { bits(49, 48) };
    let moved = if g.oa_format() == OaFormat::Lpa { bits(15, 12) } else { 0 };
    let page = match g.granule() {
        Granule::K4 => 0,
        Granule::K16 => bits(13, 12),
        Granule::K64 => bits(15, 12),
    };
    let below = match (g.granule(), level) {
        (_, 3) => page,
        (Granule::K4, 0) => bits(38, 12),
        (Granule::K4, 1) => bits(29, 12),
        (Granule::K4, _) => bits(20, 12),
        (Granule::K16, 1) => bits(35, 12),
        (Granule::K16, _) => bits(24, 12),
        (Granule::K64, 1) => bits(41, 12),
        (Granule::K64, _) => bits(28, 12),
    };
    // And where the root is too small for a run.
    let runs = g.contiguous_entries(Level::new(level)) > 1;
    match entry {
        Entry::Table(_) => 1 << 50 | above | page & !moved,
        Entry::Leaf(leaf) if leaf.valid => above | below & !moved | if runs { 0 } else { CONTIGUOUS },
        _ => 0,
    }
}

/// Tables that map one address: every entry beside the path to it is a hole.
struct Tables(HashMap<(u64, usize), u64>);

impl ReadTables for Tables {
    type Error = Infallible;

    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, Infallible> {
        Ok(Descriptor(self.0.get(&(slot.table.0, slot.index)).copied().unwrap_or(0)))
    }
}

/// A descriptor at a level of a map that has nothing else, as the machine sees it and as `check` does.
struct Place {
    g: Geometry,
    setup: Setup,
    /// From the root down to the table of the descriptor.
    tables: Vec<u64>,
    va: u64,
    slots: Vec<usize>,
}

impl Place {
    fn new(g: Geometry, level: i8, random: &mut Random) -> Self {
        let setup = Setup::new(g, &[Core::STRONG]);
        let va = g.base(Half::Upper) + (random.bits() & ((1 << g.va_bits()) - 1));
        let levels = g.root().number()..=level;
        let tables = levels.clone().map(|n| setup.tables_at + g.page_size() * (n - g.root().number()) as u64);
        let slots = levels.clone().map(|n| g.index(va, Level::new(n)));
        Self { g, tables: tables.collect(), slots: slots.collect(), va, setup }
    }

    /// Returns the stores that make the path, without the descriptor.
    fn path(&self) -> impl Iterator<Item = (u64, usize, u64)> {
        let links = self.tables.iter().zip(&self.slots).zip(&self.tables[1..]);
        links.map(|((&table, &slot), &below)| (table, slot, below | 0b11))
    }

    fn last(&self) -> (u64, usize) {
        (self.tables[self.tables.len() - 1], self.slots[self.slots.len() - 1])
    }

    /// Returns true if the machine refuses a store of the descriptor because it is reserved.
    fn is_refused(&self, value: u64) -> bool {
        let mut machine = Machine::new(&self.setup).expect("a machine");
        let (cpu, root) = (0, self.tables[0]);
        let write =
            |table, index, value, count| Event::Write { cpu, table, index, value, count, step: 0, was: None };
        let mut events = Vec::new();
        for (depth, &table) in self.tables.iter().enumerate() {
            let level = Level::new(self.g.root().number() + depth as i8);
            events.extend([Event::Alloc { cpu, table }, write(table, 0, 0, self.g.entries(level))]);
        }
        events.extend(self.path().map(|(table, slot, link)| write(table, slot, link, 1)));
        let register = Register::Ttbr1;
        events.extend([Event::Dsb { cpu, kind: Barrier::Ishst }, Event::Msr { cpu, register, value: root }]);
        events.extend([Event::Isb { cpu }, Event::Begin { cpu, root, name: "map".into(), changes: vec![] }]);
        for event in events {
            machine.step(event).expect("a map of nothing");
        }
        let (table, slot) = self.last();
        machine.step(write(table, slot, value, 1)).is_err_and(|breach| breach.rule == Rule::Reserved)
    }

    /// Returns true if `check` finds that it is reserved.
    fn is_found(&self, value: u64) -> bool {
        let mut tables: HashMap<_, _> =
            self.path().map(|(table, slot, link)| ((table, slot), link)).collect();
        tables.insert(self.last(), value);
        let mut found = false;
        let each = |finding| {
            let here = |va: Va| va.0 <= self.va;
            found |= matches!(finding, Finding::Reserved { va, .. } | Finding::ReservedBits { va, .. } if here(va));
            ControlFlow::Continue(())
        };
        _ = check(&Tables(tables), self.g, (Pa(self.tables[0]), Half::Upper), &Checks::default(), each);
        found
    }
}

#[test]
fn what_must_be_zero_is_what_check_finds() {
    let mut refused = [0u32; 2];
    each(8, |seed| {
        let random = &mut Random::new(seed);
        for g in geometries() {
            let level = g.root().number() + random.below((4 - g.root().number()) as u64) as i8;
            let place = Place::new(g, level, random);
            // All bits at random; or a right descriptor with one bit more.
            let value = match random.below(3) {
                0 => random.bits() | VALID,
                _ => {
                    let kind = if level == 3 || random.one_in(2) { 0b11 } else { 0b01 };
                    let bit = if random.one_in(4) { 0 } else { 1 << random.below(64) };
                    1 << 45 | 1 << 10 | kind | bit
                }
            };
            let entry = Descriptor(value).decode(g, Level::new(level));
            // NSTable is refused by the machine alone.
            let value = if matches!(entry, Entry::Table(_)) { value & !(1 << 63) } else { value };
            let said = entry == Entry::Reserved || value & listed(g, level, entry) != 0;
            let all = [said, place.is_refused(value), place.is_found(value)];
            assert_eq!(
                all, [said; 3],
                "{value:#x} at level {level} of {g:?}: the manual, the machine, check"
            );
            refused[usize::from(said)] += 1;
        }
    });
    assert!(test_support::is_one() || refused.iter().all(|&n| n > 100), "{refused:?}");
}
