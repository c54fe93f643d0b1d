//! The answers of an observer between two steps.

use linmap::Va;
use linmap_model::Barrier::{Ish, Ishst};
use linmap_model::observed::Kind;
use linmap_model::{Core, Event, Register, Tlb};

use crate::machine::{KERNEL, LEVEL_3, Machine, VA, page};

const EE: u64 = 1 << 25;

/// The last event of a machine that took its page out.
fn taken_out(m: &Machine) -> (Va, Vec<String>) {
    let event = Event::Write { cpu: 0, table: LEVEL_3, index: 0, value: 0, count: 1, step: 0, was: None };
    m.observer().moment(&event).expect("an address")
}

#[test]
fn a_moment_has_the_tables_and_the_tlbs() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3, 0);
    let at = m.observer().events() - 1;
    let (va, facts) = taken_out(&m);
    assert_eq!(va, Va(VA));
    assert_eq!(facts.len(), 2, "{facts:?}");
    assert_eq!(
        facts[0],
        format!("the tables at {KERNEL:#x}, of cpu 0, 1, have nothing at 0xffff000000000000")
    );
    assert!(facts[1].starts_with("cpu 0, 1 may hold 0xffff000000000000 -> 0x80000000"), "{facts:?}");
    assert!(facts[1].ends_with(&format!("which event {at} took out")), "{facts:?}");
    m.dsb(Ishst).tlbi_page(VA).dsb(Ish);
    assert_eq!(taken_out(&m).1.len(), 1);
    assert!(m.observer().moment(&Event::Isb { cpu: 0 }).is_none());
}

/// An instruction is needed where an old entry, a store or a TLBI waits for it.
#[test]
fn sites_tell_what_needed_them() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3, 0).dsb(Ishst).tlbi_page(VA).dsb(Ish).isb();
    m.dsb(Ishst).tlbi_page(VA).dsb(Ish).isb();
    let before = m.observer().sites().count() - 6;
    let sites: Vec<_> = m.observer().sites().skip(before).map(|(_, s)| (s.kind, s.count, s.needed)).collect();
    let tlbi = Kind::Tlbi(Tlb::Vaale1is);
    let [store, complete] = [Ishst, Ish].map(Kind::Dsb);
    // The second DSB has a TLBI to complete, which removes nothing.
    let expected =
        [(store, 1, 1), (tlbi, 1, 1), (complete, 1, 1), (store, 1, 0), (tlbi, 1, 0), (complete, 1, 1)];
    assert_eq!(sites, expected);
}

#[test]
fn vectors_are_the_first_of_the_upper_half() {
    let mut m = Machine::new(Core::WEAK, 1);
    assert_eq!(m.observer().vectors(), None);
    for value in [0x4000_0000, 0xffff_8000_0001_0000, 0xffff_8000_0002_0000] {
        m.msr(Register::Vbar, value);
    }
    assert_eq!(m.observer().vectors(), Some(0xffff_8000_0001_0000));
}

/// Tables of a big-endian kernel are not judged. They are counted as tables that are not known.
#[test]
fn big_endian_tables_are_not_known() {
    let mut m = Machine::new(Core::WEAK, 1);
    assert_eq!(m.observer().unknown_tables(), 0);
    m.msr(Register::Sctlr, 1 | EE).isb();
    assert_ne!(m.observer().unknown_tables(), 0);
    m.store(LEVEL_3, page(0x9000_0000, 0)).leave();
    assert_eq!(m.found(), []);
}
