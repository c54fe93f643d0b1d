//! Parking, and TTBR: who is off the map, and how one leaves it and comes back.

use linmap::arch::Leaf;
use linmap::{Attributes as A, Pa};
use linmap_model::{Barrier::*, Core, Event, Register, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene};

pub(crate) fn allocated_while_parked(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::WEAK]);
    let (mut child, block) = (0, s.leaf(0));
    s.begin("split", []);
    s.in_order(!wrong, |s| s.taking(&mut child), |s| s.park().forget());
    s.fill_child(child, block).dsb(Ishst).link(0, child).publish().load().unpark().done();
    s
}

/// The table that a block replaces is given back.
pub(crate) fn freed_while_parked(wrong: bool) -> Scene {
    let mut s = Scene::full_table(&[Core::WEAK]);
    let (table, block) = (s.table(), s.block_above());
    s.begin("collapse", []).park().forget();
    s.put_above(block).dsb(Ishst).tlbi_all(Vmalle1is).dsb(Ish).isb();
    s.in_order(!wrong, |s| s.load().unpark(), |s| s.free(table)).done();
    s
}

/// By a CPU that is not parked itself.
pub(crate) fn allocated_while_another_is_parked(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::WEAK; 2]);
    let parked: &[u8] = if wrong { &[1] } else { &[] };
    let mut table = 0;
    s.parked(parked, |s| s.taking(&mut table)).free(table);
    s
}

/// Page 0 moves while the CPU is parked, by break-before-make.
pub(crate) fn back_before_the_new_entry(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::WEAK]);
    let new = s.leaf(100);
    s.begin("move", [s.change(0..1, Some(new))]).park().forget().clear(0).flush(0..1);
    s.in_order(!wrong, |s| s.put(0, new).publish(), |s| s.load().unpark()).done();
    s
}

pub(crate) fn back_without_its_map(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::WEAK]);
    s.park().forget();
    if !wrong {
        s.load();
    }
    s.unpark();
    s
}

/// CPU 1 parks while CPU 0 moves a page; it had the old one in its TLB.
pub(crate) fn back_with_a_stale_entry(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let new = s.leaf(100);
    s.begin("move", [s.change(0..1, Some(new))]);
    s.cpu(1).park();
    if !wrong {
        s.forget();
    }
    s.cpu(0).park().forget();
    s.clear(0).dsb(Ishst).tlbi(Vaae1, 0).dsb(Nsh).isb().put(0, new).publish();
    s.load().unpark().cpu(1).load().unpark().cpu(0).done();
    s
}

/// The CPU's walker leaves the map with the ISB, so what came before that may be refilled.
pub(crate) fn left_without_an_isb(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let new = s.leaf(100);
    s.begin("move", [s.change(0..1, Some(new))]).event(Event::Park { cpu: 0 });
    s.msr(Register::Ttbr1, s.empty);
    if !wrong {
        s.isb();
    }
    s.forget().put(0, new).publish().load().unpark().done();
    s
}

/// CPU 1 is parked while a page becomes read-only, which CPU 0 invalidates for itself alone.
pub(crate) fn back_with_a_stale_permission(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let new = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(new))]);
    s.cpu(1).park();
    if !wrong {
        s.forget();
    }
    s.cpu(0).put(0, new).dsb(Ishst).tlbi(Vaae1, 0).dsb(Nsh).isb();
    s.cpu(1).load().unpark().cpu(0).done();
    s
}

/// The operation has returned when the CPU that was parked comes back.
pub(crate) fn back_late_with_a_stale_permission(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.cpu(1).park();
    if !wrong {
        s.forget();
    }
    let change = s.change(0..1, Some(s.with(0, READ_ONLY)));
    s.cpu(0).begin("protect", [change]);
    s.put_as(0, READ_ONLY).dsb(Ishst).tlbi(Vaae1, 0).dsb(Nsh).isb().done();
    s.cpu(1).load().unpark();
    s
}

pub(crate) fn away_without_parking(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let empty = s.empty;
    s.cpu(1).msr(Register::Ttbr1, empty).isb();
    if !wrong {
        s.tlbi_all(Vmalle1).dsb(Nsh).isb();
    }
    let change = s.change(0..1, Some(s.with(0, READ_ONLY)));
    s.cpu(0).begin("protect", [change]);
    s.put_as(0, READ_ONLY).dsb(Ishst).tlbi(Vaae1, 0).dsb(Nsh).isb().done();
    s.cpu(1).load();
    s
}

/// From one address space of the lower half to another; the ASID is that of the first, or its own.
fn switch_lower(attributes: A, own_asid: bool) -> Scene {
    let page = Plan::pages(&[Core::STRONG]);
    let leaf = Leaf { oa: Pa(0x8000_0000), attributes, ..page.leaf };
    let plan = Plan { va: Some(0x8000_0000), leaf, ..page };
    let mut s = plan.scene();
    let second = s.create(Plan { leaf: s.leaf(100), ..plan });
    let asid = if own_asid { 1 << 48 } else { 0 };
    s.msr(Register::Ttbr0, second.tables[0] | asid).isb();
    s
}

pub(crate) fn switched_with_the_same_asid(wrong: bool) -> Scene {
    switch_lower(A::RAM | A::NOT_GLOBAL, !wrong)
}

pub(crate) fn switched_with_global_pages(wrong: bool) -> Scene {
    switch_lower(if wrong { A::RAM } else { A::RAM | A::NOT_GLOBAL }, true)
}

/// From one map to another that says something else: by way of the empty one, or not.
fn switch(by_way_of_the_empty_one: bool, right_order: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG]);
    let mut s = plan.scene();
    s.tree = s.create(Plan { leaf: s.leaf(100), ..plan });
    s.event(Event::Park { cpu: 0 });
    if by_way_of_the_empty_one {
        s.msr(Register::Ttbr1, s.empty);
    }
    s.in_order(right_order, |s| s.isb(), |s| s.tlbi_all(Vmalle1).dsb(Nsh)).isb().load().unpark();
    s
}

pub(crate) fn switched_without_the_empty_table(wrong: bool) -> Scene {
    switch(!wrong, true)
}

pub(crate) fn switched_with_the_tlbi_before_the_isb(wrong: bool) -> Scene {
    switch(true, !wrong)
}

/// Tables 0 to 31 are written through pages 0 to 31; the page of one is taken away.
pub(crate) fn table_written_through_a_hole(wrong: bool) -> Scene {
    let (mut s, table, page) = tables_mapped(wrong);
    s.unmap(page).write(table, 0, 0, 512, 0).free(table);
    s
}

pub(crate) fn table_written_through_a_read_only_page(wrong: bool) -> Scene {
    let (mut s, table, page) = tables_mapped(wrong);
    s.protect(page).write(table, 0, 0, 512, 0).free(table);
    s
}

/// A table, and the page that it is written through, or the page after that.
fn tables_mapped(its_own: bool) -> (Scene, u64, usize) {
    let plan = Plan::pages(&[Core::STRONG]);
    let oa = Pa(0x1000_0000);
    let mut s = Plan { leaf: Leaf { oa, ..plan.leaf }, tables_mapped: true, ..plan }.scene();
    let table = s.alloc();
    let page = ((table - oa.0) / 4096) as usize;
    (s, table, if its_own { page } else { page + 1 })
}

/// The address of the tables is in the half that the map translates, or below it.
pub(crate) fn table_written_below_the_half(wrong: bool) -> Scene {
    let (mut s, table, _) = tables_mapped(true);
    if wrong {
        s.setup.table_offset = s.setup.table_offset.map(|offset| offset - (1 << 39));
    }
    s.write(table, 0, 0, 512, 0).free(table);
    s
}

/// Parked, the CPU writes tables through its 1:1 map, if it has them there.
pub(crate) fn table_written_without_a_one_to_one_map(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::WEAK]);
    let oa = Pa(0x1000_0000);
    let plan = Plan { leaf: Leaf { oa, ..plan.leaf }, tables_mapped: true, ..plan };
    let mut s = plan.scene();
    let one_to_one = s.create(Plan { va: Some(oa.0), ..plan });
    let new = s.leaf(100);
    if !wrong {
        s.msr(Register::Ttbr0, one_to_one.tables[0]).isb();
    }
    s.begin("move", [s.change(31..32, Some(new))]);
    s.parked(&[0], |s| s.clear(31).flush(31..32).put(31, new).publish()).done();
    s
}

pub(crate) fn table_not_in_the_one_to_one_map(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::WEAK]);
    let oa = Pa(0x1000_0000);
    let plan = Plan { leaf: Leaf { oa, ..plan.leaf }, tables_mapped: true, ..plan };
    let mut s = plan.scene();
    let same = Pa(if wrong { oa.0 + 32 * 4096 } else { oa.0 });
    let low = Plan { va: Some(same.0), leaf: Leaf { oa: same, ..plan.leaf }, ..plan };
    let one_to_one = s.create(low);
    let new = s.leaf(100);
    s.msr(Register::Ttbr0, one_to_one.tables[0]).isb();
    s.begin("move", [s.change(31..32, Some(new))]);
    s.parked(&[0], |s| s.clear(31).flush(31..32).put(31, new).publish()).done();
    s
}

pub(crate) fn unparked_without_parking(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    if !wrong {
        s.event(Event::Park { cpu: 0 });
    }
    s.unpark();
    s
}
