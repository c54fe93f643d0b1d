//! Habits of kernels that are no mistakes: nothing of them is a breach or a suspect.

use linmap_model::Barrier::{Ish, Ishst, Nsh, Nshst};
use linmap_model::observed::Grade;
use linmap_model::{Core, Register, Tlb};

use crate::machine::{
    ACCESSED, EMPTY, KERNEL, LEVEL_2, LEVEL_3, Machine, NOT_GLOBAL, READ_ONLY, SPARE, USER, VA, block, page,
    table,
};

/// Fails if something is worse than a hint.
#[track_caller]
fn is_fine(m: &mut Machine) {
    let found = m.findings();
    let worst = found.iter().find(|finding| finding.grade > Grade::Hint);
    assert!(worst.is_none(), "{}", worst.map(ToString::to_string).unwrap_or_default());
}

/// Normal and Tagged memory are one type for break-before-make.
#[test]
fn normal_becomes_tagged() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3, page(0x8000_0000, 1)).dsb(Ishst).tlbi_page(VA).dsb(Ish).isb().leave();
    is_fine(&mut m);
}

/// A user's page becomes writable, and the TLBI is for the own CPU: others fault, and find the new entry.
#[test]
fn permissions_grow_with_a_local_tlbi() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.process(SPARE).load(SPARE, 3);
    m.on(1).msr(Register::Ttbr1, KERNEL | 3 << 48u64).msr(Register::Ttbr0, SPARE).isb().on(0);
    m.store(SPARE + 0x3008, page(0x8000_1000, 0) | NOT_GLOBAL | USER | READ_ONLY).leave();
    m.store(SPARE + 0x3008, page(0x8000_1000, 0) | NOT_GLOBAL | USER).dsb(Nshst);
    m.tlbi(Tlb::Vale1, 3 << 48u64 | 1).dsb(Nsh).leave();
    is_fine(&mut m);
}

/// The access flag of a user's page is cleared without a TLBI: the page only looks younger than it is.
#[test]
fn pages_age_without_a_tlbi() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.process(SPARE).load(SPARE, 3);
    m.store(SPARE + 0x3000, (page(0x8000_0000, 0) | NOT_GLOBAL | USER) & !ACCESSED).leave();
    is_fine(&mut m);
}

/// A user's page is mapped without a barrier: a CPU that does not see it yet faults, and the handler finds it.
#[test]
fn a_users_page_without_barriers() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.process(SPARE).load(SPARE, 3);
    m.store(SPARE + 0x3008, page(0x8000_1000, 0) | NOT_GLOBAL | USER).leave().read(0x1000);
    is_fine(&mut m);
}

/// A process ends: its pages go one by one, then its tables, with one TLBI of its ASID before they are freed.
#[test]
fn a_process_ends() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.process(SPARE).load(SPARE, 3);
    m.store(SPARE + 0x3000, 0).store(SPARE + 0x2000, 0).store(SPARE + 0x1000, 0).store(SPARE, 0);
    m.dsb(Ishst).tlbi(Tlb::Aside1is, 3 << 48u64).dsb(Ish).isb();
    [1, 2, 3].iter().for_each(|n| {
        m.store(SPARE + 0x1000 * n, 0x1234_5671);
    });
    m.msr(Register::Ttbr0, EMPTY).isb().leave();
    is_fine(&mut m);
}

/// Two processes change places on a CPU, each under its ASID.
#[test]
fn processes_change_places() {
    let mut m = Machine::new(Core::WEAK, 2);
    for _ in 0..3 {
        for (root, asid) in [(SPARE, 3), (SPARE + 0x10_0000, 4)] {
            m.msr(Register::Ttbr0, EMPTY).isb();
            m.process(root).load(root, asid);
            m.leave();
        }
    }
    is_fine(&mut m);
}

/// A table moves to another address of its process, and is at two for a moment.
#[test]
fn a_table_moves() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.process(SPARE).load(SPARE, 3);
    m.store(SPARE + 0x2000, 0).store(SPARE + 0x2008, table(SPARE + 0x3000)).dsb(Ishst);
    m.tlbi(Tlb::Aside1is, 3 << 48u64).dsb(Ish).isb().leave();
    is_fine(&mut m);
}

/// A hole becomes a block, the block goes by break-before-make, and pages come in its place.
#[test]
fn broken_before_it_is_made() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_2 + 8, block(0x8020_0000)).dsb(Ishst).isb();
    (0..512).for_each(|n| {
        m.store(SPARE + 8 * n, page(0x8020_0000 + 0x1000 * n, 0));
    });
    m.store(LEVEL_2 + 8, 0).dsb(Ishst).tlbi_page(VA + 0x20_0000).dsb(Ish).isb();
    m.store(LEVEL_2 + 8, table(SPARE)).dsb(Ishst).isb().read(VA + 0x20_0000).leave();
    is_fine(&mut m);
}

/// A compare-and-swap that finds another word than it expects stores nothing, and the word is not taken for the expected one.
#[test]
fn a_swap_that_fails_stores_nothing() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.cas(LEVEL_3, page(0x9000_0000, 0), 0).store(LEVEL_3, page(0x8000_0000, 0)).leave();
    is_fine(&mut m);
}

/// A CPU's own flush of everything, on a machine with one.
#[test]
fn one_cpu_flushes_itself() {
    let mut m = Machine::new(Core::WEAK, 1);
    m.store(LEVEL_3, 0).dsb(Nshst).tlbi(Tlb::Vmalle1, 0).dsb(Nsh).isb();
    m.store(LEVEL_3, page(0x9000_0000, 0)).dsb(Nshst).isb().read(VA).leave();
    is_fine(&mut m);
}
