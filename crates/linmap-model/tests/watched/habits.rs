//! Habits of kernels that are no mistakes: nothing of them is a breach or a suspect.

use linmap_model::Barrier::{Ish, Ishst, Nsh, Nshst};
use linmap_model::observed::Grade;
use linmap_model::{Core, Register, Rule, Tlb, Update};

use crate::machine::{
    ACCESSED, CONTIGUOUS, DIRTY_MANAGED, EMPTY, KERNEL, LEVEL_2, LEVEL_3, Machine, NOT_GLOBAL, READ_ONLY,
    SPARE, TCR, USER, VA, block, page, table,
};

/// The tables of another process.
const OTHER: u64 = SPARE + 0x1_0000;

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

/// A page is taken out and put back: a CPU that held it all the time is right again.
#[test]
fn a_page_is_put_back() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3, 0).dsb(Ishst).store(LEVEL_3, page(0x8000_0000, 0)).dsb(Ishst).isb().leave();
    assert_eq!(m.found(), []);
}

/// Walkers set the access flag and make pages dirty, and the kernel cleans them again.
#[test]
fn walkers_update_a_page() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.process(SPARE).load(SPARE, 3);
    let clean = page(0x8000_1000, 0) | NOT_GLOBAL | USER | READ_ONLY | DIRTY_MANAGED;
    m.store(SPARE + 0x3008, clean & !ACCESSED).dsb(Ishst).leave();
    m.walker(SPARE + 0x3008, Update::Accessed).walker(SPARE + 0x3008, Update::Dirty);
    // A swap that expects what the walker has stored finds it.
    m.cas(SPARE + 0x3008, clean & !READ_ONLY, clean);
    m.dsb(Ishst).tlbi(Tlb::Vale1is, 3 << 48u64 | 1).dsb(Ish).leave();
    assert_eq!(m.found(), []);
}

/// A run becomes read-only page by page, with a TLBI at the end, while a walker makes one of its pages dirty.
#[test]
fn a_run_changes_page_by_page() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.process(SPARE).load(SPARE, 3);
    let member = |n| page(0x8001_0000 + 0x1000 * n, 0) | NOT_GLOBAL | USER | CONTIGUOUS | DIRTY_MANAGED;
    (0..16).for_each(|n| {
        m.store(SPARE + 0x3080 + 8 * n, member(n));
    });
    m.dsb(Ishst).leave();
    (0..16).for_each(|n| {
        m.store(SPARE + 0x3080 + 8 * n, member(n) | READ_ONLY);
    });
    m.dsb(Ishst).tlbi(Tlb::Aside1is, 3 << 48u64).dsb(Ish).walker(SPARE + 0x3088, Update::Dirty).leave();
    assert_eq!(m.found(), []);
}

/// A root is smaller than a page, and another CPU stores to the root beside it: a slab of roots.
#[test]
fn small_roots_share_a_page() {
    const T0SZ_OF_36_BITS: u64 = 28;
    let mut m = Machine::new(Core::WEAK, 2);
    m.msr(Register::Tcr, TCR & !63 | T0SZ_OF_36_BITS).isb();
    m.store(OTHER, table(SPARE)).dsb(Ishst);
    m.on(1).store(OTHER + 0x200, table(SPARE)).on(0).load(OTHER, 3).leave();
    is_fine(&mut m);
}

/// A CPU comes to a process in which another CPU maps a page, for which a fault handler needs no barrier. The root itself needs one.
#[test]
fn a_cpu_comes_while_another_maps_a_page() {
    let mut m = Machine::new(Core::WEAK, 2);
    let users = |n: u64| page(0x8000_0000 + n * 0x1000, 0) | NOT_GLOBAL | USER;
    m.process(SPARE).load(SPARE, 3).msr(Register::Ttbr0, EMPTY);
    m.on(1).store(SPARE + 0x3008, users(1)).on(0).load(SPARE, 3).leave();
    is_fine(&mut m);
    let mut m = Machine::new(Core::WEAK, 2);
    m.process(SPARE).on(1).store(SPARE + 8, table(SPARE + 0x1000)).on(0).load(SPARE, 3);
    assert_eq!(m.so_far(), [(Grade::Breach, Rule::Unfilled)]);
}

/// A process takes a page of its own out, and another one runs, and returns, before it goes on with its TLBI: it was preempted.
#[test]
fn another_process_returns_first() {
    for forgets in [false, true] {
        let mut m = Machine::new(Core::WEAK, 2);
        m.process(OTHER).process(SPARE).load(SPARE, 3);
        m.store(SPARE + 0x3000, 0).dsb(Ishst).msr(Register::Ttbr0, EMPTY).load(OTHER, 4).leave();
        assert_eq!(m.so_far(), []);
        m.msr(Register::Ttbr0, EMPTY).load(SPARE, 3);
        if !forgets {
            m.tlbi(Tlb::Aside1is, 3 << 48u64).dsb(Ish);
        }
        m.leave();
        // What is forgotten is told by the end at the latest.
        let expected = if forgets { &[(Grade::Suspect, Rule::Stale)][..] } else { &[] };
        assert_eq!(m.found(), expected);
    }
}

/// A run of blocks is dissolved, and its first block becomes a table that begins with a run of pages.
#[test]
fn a_run_of_pages_begins_where_one_of_blocks_did() {
    let mut m = Machine::with(&[Core::STRONG; 2]);
    const FIRST: u64 = 0x8200_0000;
    let slot = |n: u64| LEVEL_2 + 8 * (16 + n);
    let output = |n: u64| FIRST + 0x20_0000 * n;
    (0..16).for_each(|n| {
        m.store(slot(n), block(output(n)) | CONTIGUOUS);
    });
    m.dsb(Ishst).isb().leave();
    (0..16).for_each(|n| {
        m.store(slot(n), block(output(n)));
    });
    // Another CPU goes on before the first one idles.
    m.dsb(Ishst).tlbi(Tlb::Vmalle1is, 0).dsb(Ish).isb().on(1);
    (0..512).for_each(|n| {
        let bit = if n < 16 { CONTIGUOUS } else { 0 };
        m.store(SPARE + 8 * n, page(FIRST + 0x1000 * n, 0) | bit);
    });
    m.dsb(Ishst).store(slot(0), table(SPARE)).dsb(Ishst).tlbi(Tlb::Vmalle1is, 0).dsb(Ish).isb();
    m.on(0).leave().on(1).leave();
    is_fine(&mut m);
}

/// A kernel leaves its upper half for a small one whenever it returns, and comes back: KPTI.
fn returns_by_a_trampoline(m: &mut Machine) {
    const TRAMPOLINE: u64 = SPARE + 0x20_0000;
    m.store(TRAMPOLINE, table(TRAMPOLINE + 0x1000)).dsb(Ishst);
    for asid in [2, 3, 2, 3] {
        let root = if asid % 2 == 1 { TRAMPOLINE } else { KERNEL };
        m.msr(Register::Ttbr1, root | asid << 48u64).isb();
    }
    m.leave();
    m.msr(Register::Ttbr1, KERNEL | 2 << 48u64).isb();
}

#[test]
fn two_upper_halves_in_turn() {
    let mut m = Machine::new(Core::WEAK, 1);
    returns_by_a_trampoline(&mut m);
    m.store(LEVEL_3, 0).dsb(Ishst).tlbi_page(VA).dsb(Ish).isb();
    returns_by_a_trampoline(&mut m);
    assert_eq!(m.found(), []);
    // What the kernel forgets is seen though it returns by the other half.
    m.store(LEVEL_3, page(0x8000_0000, 0)).dsb(Ishst).isb().store(LEVEL_3, 0).dsb(Ishst);
    returns_by_a_trampoline(&mut m);
    assert_eq!(m.found(), [(Grade::Suspect, Rule::Stale)]);
}

/// A TLBI is not too early for a store that comes after it.
#[test]
fn two_pages_with_a_tlbi_each_and_one_dsb_at_the_end() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3 + 8, page(0x8000_1000, 0)).dsb(Ishst).isb();
    m.store(LEVEL_3, 0).dsb(Ishst).tlbi_page(VA);
    m.store(LEVEL_3 + 8, 0).dsb(Ishst).tlbi_page(VA + 0x1000).dsb(Ish).isb().leave();
    assert_eq!(m.found(), []);
}

/// A block is mapped, and its pages stand in a table that no walker reaches yet.
fn maps_a_block_and_fills_its_table(m: &mut Machine) {
    m.store(LEVEL_2 + 8, block(0x8020_0000)).dsb(Ishst).isb();
    (0..512).for_each(|n| {
        m.store(SPARE + 8 * n, page(0x8020_0000 + 0x1000 * n, 0));
    });
    m.dsb(Ishst);
}

/// A CPU that could abort waits on an empty root while another one splits a block in place; it has been there before.
#[test]
fn a_cpu_waits_on_an_empty_root() {
    let mut m = Machine::with(&[Core::STRONG, Core::WEAK]);
    maps_a_block_and_fills_its_table(&mut m);
    for split in [false, true] {
        m.on(1).msr(Register::Ttbr1, EMPTY).isb().tlbi(Tlb::Vmalle1, 0).dsb(Nsh).isb().on(0);
        if split {
            m.store(LEVEL_2 + 8, table(SPARE)).dsb(Ishst).tlbi_page(VA + 0x20_0000).dsb(Ish).isb();
        }
        m.on(1).msr(Register::Ttbr1, KERNEL).isb();
    }
    is_fine(&mut m);
}

/// The same, and the invalidation is that of the CPU that splits.
#[test]
fn a_cpu_that_waits_is_invalidated_by_another() {
    let mut m = Machine::with(&[Core::STRONG, Core::WEAK]);
    maps_a_block_and_fills_its_table(&mut m);
    m.on(1).msr(Register::Ttbr1, EMPTY).isb().on(0);
    m.store(LEVEL_2 + 8, table(SPARE)).dsb(Ishst).tlbi(Tlb::Vmalle1is, 0).dsb(Ish).isb();
    m.on(1).msr(Register::Ttbr1, KERNEL).isb();
    is_fine(&mut m);
}

/// A page, a table, and a page of a process that is left before it returns: each is put back, and used.
#[test]
fn what_is_put_back_is_used() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3, 0)
        .dsb(Ishst)
        .store(LEVEL_3, page(0x8000_0000, 0))
        .dsb(Ishst)
        .isb()
        .store(0x8000_0010, 1);
    m.store(LEVEL_2, 0).dsb(Ishst).store(LEVEL_2, table(LEVEL_3)).dsb(Ishst).isb().leave();
    m.process(SPARE).load(SPARE, 3);
    let users = page(0x8000_0000, 0) | NOT_GLOBAL | USER;
    m.store(SPARE + 0x3000, 0).dsb(Ishst).store(SPARE + 0x3000, users).dsb(Ishst);
    m.msr(Register::Ttbr0, EMPTY).isb().leave();
    assert_eq!(m.found(), []);
}

/// A CPU takes a page out, and another one the table, with the barrier and the TLBI for both.
#[test]
fn one_cpu_ends_what_another_began() {
    for late in [Nshst, Ishst] {
        let mut m = Machine::new(Core::WEAK, 2);
        m.on(1).store(LEVEL_3, 0).on(0).store(LEVEL_2, 0).dsb(Ishst).tlbi(Tlb::Vmalle1is, 0);
        m.on(1).dsb(late).on(0).dsb(Ish).isb().leave().on(1).leave();
        assert_eq!(m.found(), []);
    }
}

/// A page that was mapped with a DSB is used after the return and the next entry, which synchronise.
#[test]
fn a_return_synchronises() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3 + 8, page(0x8000_1000, 0)).dsb(Ishst).leave().read(VA + 0x1000);
    assert_eq!(m.found(), []);
}

/// A large range is invalidated page by page with one DSB at its end: what waits for a DSB is bounded, and what is beyond that counts as
/// complete.
#[test]
fn many_invalidations_before_one_dsb() {
    const PAGES: u64 = 10_000;
    let mut m = Machine::new(Core::WEAK, 2);
    let slot = |n: u64| SPARE + n / 512 * 0x1000 + n % 512 * 8;
    for n in 0..PAGES {
        if n % 512 == 0 {
            m.store(LEVEL_2 + 8 * (n / 512 + 1), table(slot(n)));
        }
        m.store(slot(n), page(0x9000_0000 + 0x1000 * n, 0));
    }
    m.dsb(Ishst).isb();
    for n in 0..PAGES {
        m.store(slot(n), 0);
    }
    m.dsb(Ishst);
    for n in 0..PAGES {
        m.tlbi_page(VA + 0x20_0000 + 0x1000 * n);
    }
    m.dsb(Ish).isb();
    for n in 0..PAGES {
        m.store(slot(n), page(0xa000_0000 + 0x1000 * n, 0));
    }
    m.dsb(Ishst).isb().leave();
    is_fine(&mut m);
}

/// An exception is a context synchronisation: its handler uses what was mapped before it.
#[test]
fn an_exception_instead_of_an_isb() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3 + 8, page(0x9000_0000, 0)).dsb(Ishst).exception().read(VA + 0x1000).leave();
    is_fine(&mut m);
}

/// An interrupt comes between the store that takes a page out and the one that brings it back: the code has ended nothing by then.
#[test]
fn an_interrupt_before_the_tlbi() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3, 0).dsb(Ishst).exception().exception().store(LEVEL_3, page(0x8000_0000, 0)).dsb(Ishst);
    m.tlbi_page(VA).dsb(Ish).isb().leave();
    is_fine(&mut m);
}

/// A machine is ended from outside while a CPU is about to invalidate.
#[test]
fn a_machine_ends_amid_an_operation() {
    let mut m = Machine::new(Core::WEAK, 2);
    m.store(LEVEL_3, 0).dsb(Ishst);
    assert_eq!(m.so_far(), []);
    assert_eq!(m.leave().so_far(), [(Grade::Suspect, Rule::Stale)]);
}

/// An address space is emptied and invalidated page by page, and its ASID is that of another one then.
#[test]
fn an_asid_is_used_anew_once_nothing_is_held_under_it() {
    for is_whole in [true, false] {
        let mut m = Machine::new(Core::WEAK, 1);
        m.process(SPARE).process(OTHER).load(SPARE, 3).leave();
        for level in [3, 2, 1, 0] {
            m.store(SPARE + 0x1000 * level, 0);
        }
        m.dsb(Ishst);
        if is_whole {
            m.tlbi(Tlb::Vae1is, 3 << 48u64).dsb(Ish).isb();
        }
        m.msr(Register::Ttbr0, EMPTY).isb().load(OTHER, 3).leave();
        let is_breach = m.found().contains(&(Grade::Breach, Rule::TtbrSwitch));
        assert_ne!(is_breach, is_whole);
    }
}

/// Another CPU stores to what shares a frame with a small root, as roots of 16 bytes are.
#[test]
fn what_is_beside_a_small_root() {
    // 36 bits in the lower half: a root of level 1 with 64 words.
    let tcr = TCR & !63 | 28;
    for (by, is_wrong) in [(1, false), (0, true)] {
        let mut m = Machine::new(Core::WEAK, 2);
        m.msr(Register::Tcr, tcr).isb();
        m.on(by).store(SPARE, table(SPARE + 0x1000));
        m.on(0).msr(Register::Ttbr0, SPARE).isb();
        assert_eq!(m.so_far().contains(&(Grade::Breach, Rule::Unfilled)), is_wrong, "cpu {by}");
    }
}

/// Roots of two words lie 16 bytes apart, and each CPU runs a process of its own.
#[test]
fn roots_of_two_words() {
    // 40 bits in the lower half: two entries of level 0.
    let tcr = TCR & !63 | 24;
    for (asid, expected) in [(3_u64, &[][..]), (4, &[(Grade::Suspect, Rule::Stale)])] {
        let mut m = Machine::new(Core::WEAK, 2);
        m.msr(Register::Tcr, tcr).isb().process(SPARE).process(OTHER);
        m.store(SPARE + 0x10, table(OTHER + 0x1000)).dsb(Ishst);
        m.on(1).msr(Register::Tcr, tcr).isb().load(SPARE + 0x10, 4).on(0).load(SPARE, 3);
        m.store(SPARE + 0x3000, 0).dsb(Ishst).tlbi(Tlb::Aside1is, asid << 48u64).dsb(Ish).leave();
        assert_eq!(m.found(), expected, "ASID {asid}");
    }
}
