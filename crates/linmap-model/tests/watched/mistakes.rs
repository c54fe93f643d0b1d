//! Mistakes that kernels had: each is named, and the same made right is not.

use linmap_model::Barrier::{Ish, Ishst, Nsh, Nshst};
use linmap_model::observed::{Grade, Miss};
use linmap_model::{Core, Register, Rule, Tlb};

use crate::machine::{
    CONTIGUOUS, EMPTY, LEVEL_2, LEVEL_3, Machine, NOT_GLOBAL, READ_ONLY, SPARE, TCR, USER, VA, block, page,
    table,
};

/// A machine of two CPUs that may abort.
fn two() -> Machine {
    Machine::new(Core::WEAK, 2)
}

/// The first finding, and why the nearest invalidation missed.
#[track_caller]
fn worst(m: &mut Machine) -> (Grade, Rule, Option<Miss>) {
    let found = m.findings();
    let first = found.first().expect("a finding");
    (first.grade, first.rule, first.missed.map(|missed| missed.why))
}

/// Zephyr #98344: a page is unmapped, and the TLBI is for the own CPU alone.
#[test]
fn a_tlbi_of_one_cpu_on_two() {
    let unmap = |op, barriers: [_; 2]| {
        let mut m = two();
        m.store(LEVEL_3, 0)
            .dsb(barriers[0])
            .tlbi(op, VA >> 12 & ((1 << 44) - 1))
            .dsb(barriers[1])
            .isb()
            .leave();
        m
    };
    let mut wrong = unmap(Tlb::Vaae1is, [Nshst, Ish]);
    assert_eq!(worst(&mut wrong), (Grade::Breach, Rule::Stale, Some(Miss::TooEarly)));
    let mut wrong = unmap(Tlb::Vaae1, [Nshst, Nsh]);
    assert_eq!(worst(&mut wrong), (Grade::Suspect, Rule::Stale, Some(Miss::LocalOnly)));
    let mut wrong = unmap(Tlb::Vaae1, [Ishst, Ish]);
    assert_eq!(worst(&mut wrong), (Grade::Suspect, Rule::Stale, Some(Miss::LocalOnly)));
    assert_eq!(unmap(Tlb::Vaae1is, [Ishst, Ish]).found(), []);
}

/// Zephyr #115708: the operand of a TLBI is shifted by the page size, and not by 12.
#[test]
fn an_operand_shifted_by_another_size() {
    for shift in [12, 14] {
        let mut m = two();
        m.store(LEVEL_3, 0)
            .dsb(Ishst)
            .tlbi(Tlb::Vaae1is, (VA | 0x4000_0000) >> shift & ((1 << 44) - 1))
            .dsb(Ish)
            .isb();
        m.tlbi(Tlb::Vaae1is, VA >> shift & ((1 << 44) - 1)).dsb(Ish).isb();
        match shift {
            12 => assert_eq!(m.found(), []),
            _ => assert_eq!(worst(&mut m), (Grade::Suspect, Rule::Stale, Some(Miss::Elsewhere))),
        }
    }
}

/// A page is read-only, or unmapped, for a while, and no TLBI makes it so for the TLBs.
#[test]
fn a_page_that_was_never_out() {
    for now in [0, page(0x8000_0000, 0) | READ_ONLY] {
        for (tlbi, barrier) in [(false, true), (true, false), (true, true)] {
            let mut m = two();
            m.store(LEVEL_3, now).dsb(Ishst);
            if tlbi {
                m.tlbi_page(VA);
            }
            if barrier {
                m.dsb(Ish);
            }
            m.isb().store(LEVEL_3, page(0x8000_0000, 0)).dsb(Ishst).isb().leave();
            match (tlbi, barrier) {
                // To become writable again needs none.
                (true, true) => assert!(m.found().iter().all(|found| found.0 == Grade::Hint)),
                (true, false) => {
                    assert_eq!(worst(&mut m), (Grade::Suspect, Rule::Stale, Some(Miss::NotComplete)));
                }
                _ => assert_eq!(worst(&mut m), (Grade::Suspect, Rule::Stale, None)),
            }
        }
    }
}

/// rCore tgoskits 2008: no DSB between the store and the TLBI.
#[test]
fn no_dsb_before_the_tlbi() {
    for right in [false, true] {
        let mut m = two();
        m.store(LEVEL_3, 0);
        if right {
            m.dsb(Ishst);
        }
        m.tlbi_page(VA).dsb(Ish).isb().leave();
        match right {
            true => assert_eq!(m.found(), []),
            false => assert_eq!(worst(&mut m), (Grade::Breach, Rule::Stale, Some(Miss::TooEarly))),
        }
    }
}

/// OSv #1117: a page is mapped and used without an ISB; and without a DSB.
#[test]
fn used_before_it_is_visible() {
    for (dsb, isb, rule) in [
        (true, true, None),
        (true, false, Some(Rule::Unsynchronised)),
        (false, true, Some(Rule::NotVisible)),
        (false, false, Some(Rule::NotVisible)),
    ] {
        let mut m = two();
        m.store(LEVEL_3 + 8, page(0x8000_1000, 0));
        if dsb {
            m.dsb(Ishst);
        }
        if isb {
            m.isb();
        }
        m.read(VA + 0x1008);
        assert_eq!(m.found(), rule.map(|rule| (Grade::Breach, rule)).into_iter().collect::<Vec<_>>());
    }
}

/// Patina #1794: the TLBI is of another exception level.
#[test]
fn a_tlbi_of_another_exception_level() {
    let mut m = two();
    m.store(LEVEL_3, page(0x8000_0000, 0) | READ_ONLY)
        .dsb(Ishst)
        .tlbi(Tlb::Alle2is, 0)
        .dsb(Ish)
        .isb()
        .leave();
    assert_eq!(worst(&mut m), (Grade::Suspect, Rule::Stale, Some(Miss::OtherRegime)));
}

/// Asterinas #3672: a page becomes read-only, and nothing is invalidated.
#[test]
fn protected_without_a_tlbi() {
    let mut m = two();
    m.store(LEVEL_3, page(0x8000_0000, 0) | READ_ONLY).dsb(Ishst).isb().leave();
    assert_eq!(worst(&mut m), (Grade::Suspect, Rule::Stale, None));
}

/// A table is filled and linked with no barrier between, as Linux does for its array of pages (`mm/sparse-vmemmap.c`).
#[test]
fn linked_before_it_is_filled() {
    for right in [false, true] {
        let mut m = two();
        m.store(SPARE, page(0x8000_0000, 0));
        if right {
            // smp_wmb()
            m.release();
        }
        m.store(LEVEL_2 + 8, table(SPARE)).dsb(Ishst).isb();
        assert_eq!(m.found(), if right { vec![] } else { vec![(Grade::Breach, Rule::Unfilled)] });
    }
}

/// A page moves, and a block is split, without break-before-make.
#[test]
fn changed_while_it_is_valid() {
    let mut m = two();
    m.store(LEVEL_3, page(0x9000_0000, 0)).dsb(Ishst).tlbi_page(VA).dsb(Ish).isb();
    assert_eq!(m.found(), [(Grade::Breach, Rule::BreakBeforeMake)]);

    let mut m = two();
    m.store(LEVEL_3, page(0x8000_0000, 3)).dsb(Ishst).tlbi_page(VA).dsb(Ish).isb();
    assert_eq!(m.found(), [(Grade::Breach, Rule::BreakBeforeMake)], "Normal becomes a device");

    for core in [Core::WEAK, Core::STRONG] {
        let mut m = Machine::new(core, 2);
        m.store(LEVEL_2 + 8, block(0x8020_0000)).dsb(Ishst).isb();
        for n in 0..512 {
            m.store(SPARE + 8 * n, page(0x8020_0000 + 0x1000 * n, 0));
        }
        m.dsb(Ishst).store(LEVEL_2 + 8, table(SPARE)).dsb(Ishst).isb();
        let found = m.found();
        let breaches: Vec<_> = found.into_iter().filter(|found| found.0 == Grade::Breach).collect();
        assert_eq!(
            breaches,
            if core.never_aborts { vec![] } else { vec![(Grade::Breach, Rule::SizeConflict)] }
        );
    }
}

/// An address is valid again, by another page, before the TLBI.
#[test]
fn valid_again_too_soon() {
    for right in [false, true] {
        let mut m = two();
        m.store(LEVEL_3, 0).dsb(Ishst);
        if right {
            m.tlbi_page(VA).dsb(Ish).isb();
        }
        m.on(1).store(LEVEL_3, page(0x9000_0000, 0)).dsb(Ishst).isb();
        let found = m.found();
        assert_eq!(
            found.first().copied(),
            if right { None } else { Some((Grade::Breach, Rule::BreakBeforeMake)) }
        );
    }
}

/// A table goes, the TLBI is of the last level alone, and the page is used for something else.
#[test]
fn a_table_page_used_anew() {
    for op in [Tlb::Vaale1is, Tlb::Vaae1is] {
        let mut m = two();
        m.store(LEVEL_3, 0).store(LEVEL_2, 0).dsb(Ishst).tlbi(op, VA >> 12 & ((1 << 44) - 1)).dsb(Ish).isb();
        m.store(LEVEL_3 + 0x18, 0x1234_5671);
        let found = m.found();
        match op {
            Tlb::Vaae1is => assert_eq!(found, []),
            _ => assert_eq!(found.first(), Some(&(Grade::Breach, Rule::Freed))),
        }
    }
}

/// An ASID is used anew without an invalidation.
#[test]
fn an_asid_used_anew() {
    for right in [false, true] {
        let mut m = two();
        m.process(SPARE).process(SPARE + 0x10_0000);
        m.load(SPARE, 7);
        m.msr(Register::Ttbr0, EMPTY).isb();
        if right {
            m.tlbi(Tlb::Aside1is, 7 << 48u64).dsb(Ish).isb();
        }
        m.msr(Register::Ttbr0, SPARE + 0x10_0000).isb();
        assert_eq!(m.found(), if right { vec![] } else { vec![(Grade::Breach, Rule::TtbrSwitch)] });
    }
}

/// TCR gives the tables of a root another format while they are in use: they are read anew, and a move is seen as one.
#[test]
fn moved_in_a_root_of_another_format() {
    let mut m = Machine::new(Core::WEAK, 1);
    // With 39 bits the root is of level 1, which has blocks of 1G.
    m.process(SPARE).load(SPARE, 3).msr(Register::Tcr, TCR + 9).isb();
    m.store(SPARE + 8, block(0x4000_0000) | NOT_GLOBAL).dsb(Ishst).isb();
    m.store(SPARE + 8, block(0x8000_0000) | NOT_GLOBAL);
    assert_eq!(m.found().first(), Some(&(Grade::Breach, Rule::BreakBeforeMake)));
}

/// The TLBI by range names the next pages, or has a hint of another level.
#[test]
fn a_range_beside_it() {
    let range =
        |pages_from: u64, hint: u64| 1u64 << 46u32 | hint << 37u32 | (pages_from & ((1 << 37u32) - 1));
    for (operand, why) in [
        (range(VA >> 12, 0), None),
        (range((VA >> 12) + 2, 0), Some(Miss::Elsewhere)),
        (range(VA >> 12, 2), Some(Miss::OtherLevel)),
    ] {
        let mut m = two();
        m.store(LEVEL_3, page(0x8000_0000, 0) | READ_ONLY)
            .dsb(Ishst)
            .tlbi(Tlb::Rvaale1is, operand)
            .dsb(Ish)
            .isb()
            .leave();
        assert_eq!(m.findings().first().and_then(|found| found.missed).map(|missed| missed.why), why);
    }
}

/// A run is made of pages that a CPU may hold one by one.
#[test]
fn a_run_of_pages_that_may_be_held() {
    let mut m = two();
    (1..16).for_each(|n| {
        m.store(LEVEL_3 + 8 * n, page(0x8000_0000 + 0x1000 * n, 0));
    });
    m.dsb(Ishst).isb();
    m.store(LEVEL_3, page(0x8000_0000, 0) | CONTIGUOUS);
    assert_eq!(m.found().first(), Some(&(Grade::Breach, Rule::SizeConflict)));
}

/// A page of a run becomes read-only, and the others do not.
#[test]
fn members_of_a_run_that_disagree() {
    for right in [false, true] {
        let mut m = two();
        let member = |n| page(0x8001_0000 + 0x1000 * n, 0) | CONTIGUOUS;
        (0..16).for_each(|n| {
            m.store(LEVEL_3 + 0x80 + 8 * n, member(n));
        });
        m.dsb(Ishst).isb();
        (0..if right { 16 } else { 1 }).for_each(|n| {
            m.store(LEVEL_3 + 0x80 + 8 * n, member(n) | READ_ONLY);
        });
        m.dsb(Ishst).tlbi(Tlb::Vmalle1is, 0).dsb(Ish).isb().leave();
        assert_eq!(m.found(), if right { vec![] } else { vec![(Grade::Suspect, Rule::ContiguousRun)] });
    }
}

/// The members of a run lead to pages that are not aligned to it.
#[test]
fn a_run_to_an_unaligned_range() {
    let mut m = two();
    m.store(LEVEL_3 + 0x80, page(0x8001_1000, 0) | CONTIGUOUS);
    assert_eq!(m.found().first(), Some(&(Grade::Breach, Rule::ContiguousRun)));
}

/// A page is used for something else while its old address may still lead to it: kernels do that on purpose, and once is enough.
#[test]
fn a_page_used_anew() {
    for right in [false, true] {
        let mut m = two();
        m.store(LEVEL_3, 0).dsb(Ishst);
        if right {
            m.tlbi_page(VA).dsb(Ish).isb();
        }
        m.store(0x8000_0010, 0x1234).store(0x8000_0018, 0x1234);
        m.tlbi_page(VA).dsb(Ish).isb().leave();
        assert_eq!(m.found(), if right { vec![] } else { vec![(Grade::Hint, Rule::Given)] });
    }
}

/// A CPU runs another process while a page of the first one moves, and is not told: it comes back with the old page.
#[test]
fn a_cpu_comes_back_to_a_process() {
    for right in [false, true] {
        let mut m = two();
        let operand = 3 << 48u64;
        m.process(SPARE).process(SPARE + 0x10_0000).load(SPARE, 3);
        m.on(1).load(SPARE, 3).msr(Register::Ttbr0, EMPTY).isb().load(SPARE + 0x10_0000, 4).leave();
        m.on(0).store(SPARE + 0x3000, 0).dsb(Ishst);
        m.tlbi(if right { Tlb::Vale1is } else { Tlb::Vale1 }, operand).dsb(Ish).isb();
        m.store(SPARE + 0x3000, page(0x9000_0000, 0) | NOT_GLOBAL).dsb(Ishst).isb();
        m.on(1).msr(Register::Ttbr0, EMPTY).isb().load(SPARE, 3);
        match right {
            true => assert_eq!(m.found(), []),
            false => assert_eq!(worst(&mut m), (Grade::Breach, Rule::BreakBeforeMake, Some(Miss::LocalOnly))),
        }
    }
}

/// A CPU that stays in the kernel forgets an invalidation. It is reported when, after four million events, another CPU that may hold
/// the entry returns.
#[test]
fn a_cpu_that_never_returns() {
    let mut m = two();
    m.store(LEVEL_3, 0).dsb(Ishst).on(1).leave();
    let steps = |m: &mut Machine| (0..2_000_000).for_each(|_| _ = m.release());
    steps(&mut m);
    m.leave();
    assert_eq!(m.so_far(), []);
    steps(&mut m);
    m.leave();
    assert_eq!(m.so_far(), [(Grade::Suspect, Rule::Stale)]);
}

/// A process sleeps, and runs on another CPU, where a page moves with a TLBI for that CPU alone; then it comes back to the first one.
#[test]
fn a_process_that_migrates() {
    for right in [false, true] {
        let mut m = two();
        m.process(SPARE).load(SPARE, 3).msr(Register::Ttbr0, EMPTY).isb().leave();
        m.on(1).load(SPARE, 3).store(SPARE + 0x3000, 0).dsb(Ishst);
        m.tlbi(if right { Tlb::Vale1is } else { Tlb::Vale1 }, 3 << 48u64).dsb(Ish).isb();
        m.store(SPARE + 0x3000, page(0x9000_0000, 0) | NOT_GLOBAL).dsb(Ishst).isb();
        m.on(0).load(SPARE, 3);
        let found = m.found();
        assert_eq!(found.first().map(|first| first.0), (!right).then_some(Grade::Breach), "{found:?}");
    }
}

/// Two CPUs read the tables of one root in different formats. The findings may be wrong, but the observer does not panic.
#[test]
fn two_formats_of_one_root() {
    let mut m = two();
    m.process(SPARE).load(SPARE, 3).on(1).load(SPARE, 3).on(0);
    for size in [9u64, 0, 9] {
        m.msr(Register::Tcr, TCR + size).isb();
        m.on(1).store(SPARE + 8, block(0x4000_0000) | NOT_GLOBAL).store(SPARE + 8, 0).on(0);
    }
    m.msr(Register::Ttbr0, EMPTY).isb().on(1).msr(Register::Ttbr0, EMPTY).isb();
    m.findings();
}

/// Linux 7.2, `map_kernel`: text is unmapped, and mapped anew as a contiguous run. After the TLBI comes an ISB, and no DSB.
#[test]
fn no_dsb_after_the_tlbi() {
    for right in [false, true] {
        let mut m = Machine::new(Core::WEAK, 1);
        m.store(LEVEL_3, 0).dsb(Ishst).isb().tlbi(Tlb::Vmalle1, 0);
        if right {
            m.dsb(Nsh);
        }
        m.isb().store(LEVEL_3, page(0x8000_0000, 0) | CONTIGUOUS);
        match right {
            true => assert_eq!(m.found(), []),
            false => {
                assert_eq!(worst(&mut m), (Grade::Breach, Rule::SizeConflict, Some(Miss::NotComplete)));
            }
        }
    }
}

/// A kernel that changes to tables of its own in the lower half at each entry: what it forgets is its own all the same.
#[test]
fn forgotten_by_a_kernel_that_changes_ttbr0() {
    let mut m = Machine::new(Core::WEAK, 1);
    m.process(SPARE).process(SPARE + 0x1_0000);
    let enter_and = |m: &mut Machine, forgets: bool| {
        m.msr(Register::Ttbr0, EMPTY).isb().load(SPARE + 0x1_0000, 1);
        if forgets {
            m.store(LEVEL_3, 0).dsb(Ishst);
        }
        m.msr(Register::Ttbr0, EMPTY).isb().load(SPARE, 3).leave();
    };
    (0..20).for_each(|_| enter_and(&mut m, false));
    assert_eq!(m.so_far(), []);
    enter_and(&mut m, true);
    assert_eq!(m.so_far(), [(Grade::Suspect, Rule::Stale)]);
}

/// The rest of a run after a TLBI of one CPU is older than what came since, and hides nothing of it.
#[test]
fn the_rest_of_a_run_hides_nothing() {
    let mut m = Machine::new(Core::WEAK, 2);
    for n in 0..16 {
        m.store(LEVEL_3 + 0x80 + 8 * n, page(0x8001_0000 + 0x1000 * n, 0) | CONTIGUOUS);
    }
    m.dsb(Ishst).isb();
    m.process(SPARE).process(SPARE + 0x1_0000).load(SPARE, 3);
    for n in 0..16 {
        m.store(LEVEL_3 + 0x80 + 8 * n, 0);
    }
    m.load(SPARE + 0x1_0000, 4);
    m.store(LEVEL_3, 0).dsb(Ishst);
    m.tlbi(Tlb::Vaale1, (VA + 0x10_000) >> 12 & ((1 << 44) - 1)).dsb(Nsh).leave();
    assert!(m.so_far().contains(&(Grade::Suspect, Rule::Stale)), "{:?}", m.so_far());
}

/// A CPU comes back to tables that it has stored to itself, with no barrier.
#[test]
fn own_stores_to_tables_that_were_loaded_before() {
    for is_right in [true, false] {
        let mut m = Machine::new(Core::WEAK, 1);
        m.process(SPARE).load(SPARE, 3).msr(Register::Ttbr0, EMPTY).isb();
        m.store(SPARE + 0x3008, page(0x9000_0000, 0) | NOT_GLOBAL | USER);
        if is_right {
            m.dsb(Ishst);
        }
        m.load(SPARE, 3);
        assert_eq!(m.so_far().contains(&(Grade::Breach, Rule::Unfilled)), !is_right);
    }
}
