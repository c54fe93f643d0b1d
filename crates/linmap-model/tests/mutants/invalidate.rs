//! Invalidations: which, of what, between which barriers.

use linmap::arch::{Descriptor, Leaf, Level};
use linmap::{Attributes as A, Pa};
use linmap_model::{Barrier, Barrier::*, Core, CpuId, Tlb, Tlb::*};

use crate::scene::{K4_LPA2, K16, K64, Plan, READ_ONLY, Scene};

/// Leaf 0 becomes read-only; after the store it is the story's turn.
fn protecting(plan: Plan<'_>) -> Scene {
    let mut s = plan.scene();
    let new = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(new))]).put(0, new);
    s
}

/// The first run becomes read-only, all members of it.
fn protecting_run(plan: Plan<'_>) -> Scene {
    let mut s = plan.scene();
    let run = s.run();
    s.begin("protect", [s.change(0..run, Some(s.with(0, READ_ONLY)))]);
    for i in 0..run {
        s.put_as(i, READ_ONLY);
    }
    s
}

/// The end of it: this invalidation, between barriers.
fn with(mut s: Scene, op: Tlb, operand: u64) -> Scene {
    s.dsb(Ishst).tlbi_with(op, operand).dsb(Ish).isb().done();
    s
}

pub(crate) fn no_tlbi(wrong: bool) -> Scene {
    let mut s = protecting(Plan::pages(&[Core::STRONG]));
    s.dsb(Ishst);
    if !wrong {
        s.tlbi(Vaale1is, 0);
    }
    s.dsb(Ish).isb().done();
    s
}

pub(crate) fn unmapped_without_tlbi(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst);
    if !wrong {
        s.tlbi(Vaale1is, 0);
    }
    s.dsb(Ish).isb().done();
    s
}

pub(crate) fn local_only(wrong: bool) -> Scene {
    let s = protecting(Plan::pages(&[Core::STRONG; 2]));
    let address = s.address(0);
    with(s, if wrong { Vaale1 } else { Vaale1is }, address)
}

pub(crate) fn by_asid_alone(wrong: bool) -> Scene {
    with(protecting(Plan::pages(&[Core::STRONG])), if wrong { Aside1is } else { Vmalle1is }, 0)
}

pub(crate) fn of_another_page(wrong: bool) -> Scene {
    let s = protecting(Plan::pages(&[Core::STRONG]));
    let address = s.address(if wrong { 1 } else { 0 });
    with(s, Vaale1is, address)
}

pub(crate) fn of_the_other_half(wrong: bool) -> Scene {
    let oa = Pa(0x8000_0000);
    let page = Plan::pages(&[Core::STRONG]);
    let s = protecting(Plan { va: Some(oa.0), leaf: Leaf { oa, ..page.leaf }, ..page });
    let upper = if wrong { 0xff_ff80_0000_0000 >> 12 } else { 0 };
    let address = s.address(0) | upper;
    with(s, Vaale1is, address)
}

/// Two CPUs; the barriers are these.
fn between(before: Option<Barrier>, after: Option<Barrier>, isb: bool) -> Scene {
    let mut s = protecting(Plan::pages(&[Core::STRONG; 2]));
    if let Some(kind) = before {
        s.dsb(kind);
    }
    s.tlbi(Vaale1is, 0);
    if let Some(kind) = after {
        s.dsb(kind);
    }
    if isb {
        s.isb();
    }
    s.done();
    s
}

pub(crate) fn no_dsb_before_it(wrong: bool) -> Scene {
    between((!wrong).then_some(Ishst), Some(Ish), true)
}

/// CPU 0 has stored and invalidates; the barriers between and after are of these CPUs.
fn barriers_of(before: CpuId, after: CpuId) -> Scene {
    let mut s = protecting(Plan::pages(&[Core::STRONG; 2]));
    s.cpu(before).dsb(Ishst).cpu(0).tlbi(Vaale1is, 0).cpu(after).dsb(Ish).cpu(0).isb().done();
    s
}

pub(crate) fn dsb_before_it_of_another_cpu(wrong: bool) -> Scene {
    barriers_of(if wrong { 1 } else { 0 }, 0)
}

pub(crate) fn dsb_after_it_of_another_cpu(wrong: bool) -> Scene {
    barriers_of(0, if wrong { 1 } else { 0 })
}

pub(crate) fn before_the_store(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let new = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(new))]);
    s.in_order(!wrong, |s| s.put(0, new).dsb(Ishst), |s| s.tlbi(Vaale1is, 0).dsb(Ish)).isb().done();
    s
}

pub(crate) fn dsb_nshst_before_it(wrong: bool) -> Scene {
    between(Some(if wrong { Nshst } else { Ishst }), Some(Ish), true)
}

pub(crate) fn no_dsb_after_it(wrong: bool) -> Scene {
    between(Some(Ishst), (!wrong).then_some(Ish), true)
}

pub(crate) fn dsb_nsh_after_it(wrong: bool) -> Scene {
    between(Some(Ishst), Some(if wrong { Nsh } else { Ish }), true)
}

pub(crate) fn dsb_ishst_after_it(wrong: bool) -> Scene {
    between(Some(Ishst), Some(if wrong { Ishst } else { Ish }), true)
}

pub(crate) fn no_isb_after_it(wrong: bool) -> Scene {
    between(Some(Ishst), Some(Ish), !wrong)
}

pub(crate) fn not_repeated(wrong: bool) -> Scene {
    let mut s = protecting(Plan::pages(&[Core::STRONG, Core { repeat_tlbi: true, ..Core::STRONG }]));
    s.dsb(Ishst).tlbi(Vaale1is, 0).dsb(Ish);
    if !wrong {
        s.tlbi_all(Vale1is).dsb(Ish);
    }
    s.isb().done();
    s
}

/// The CPU that needs the TLBI twice invalidates everything by itself, between the two: that neither hastens the
/// second nor takes its place, as this CPU would need an ISB.
pub(crate) fn repeated_by_another_cpu_alone(wrong: bool) -> Scene {
    let mut s = protecting(Plan::pages(&[Core::STRONG, Core { repeat_tlbi: true, ..Core::STRONG }]));
    s.dsb(Ishst).tlbi(Vaale1is, 0).dsb(Ish);
    s.cpu(1).tlbi_all(Vmalle1is).dsb(Ish).cpu(0);
    if !wrong {
        s.tlbi_all(Vale1is).dsb(Ish);
    }
    s.isb().done();
    s
}

pub(crate) fn hint_of_a_page_for_a_block(wrong: bool) -> Scene {
    let s = protecting(Plan::blocks(&[Core::STRONG]));
    let operand = s.address(0) | s.hint(if wrong { 3 } else { 2 });
    with(s, Vaale1is, operand)
}

pub(crate) fn hint_of_a_page_after_a_split(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let child = s.alloc();
    let (block, page) = (s.leaf(0), s.with(0, READ_ONLY));
    s.fill_child(child, block).fill(child, Level::PAGE, 0..1, page).dsb(Ishst);
    s.begin("protect", [s.change_at(s.va(0), 4096, Some(page))]).link(0, child);
    let hint = if wrong { s.hint(3) } else { 0 };
    let operand = s.address(0) | hint;
    with(s, Vaae1is, operand)
}

/// The block was split before, and its TLBI may wait; now a page of it is protected.
pub(crate) fn hint_of_a_page_long_after_a_split(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, page) = (s.child(0), s.with(0, READ_ONLY));
    s.begin("split", []).link(0, child).publish().done();
    let bits = Descriptor::leaf(page, s.g, Level::PAGE).0;
    s.begin("protect", [s.change_at(s.va(0), 4096, Some(page))]).write(child, 0, bits, 1, 0);
    let hint = if wrong { s.hint(3) } else { 0 };
    let operand = s.address(0) | hint;
    with(s, Vaale1is, operand)
}

/// Pages became a block, and their TLBI may wait; now the block is protected.
pub(crate) fn hint_of_a_block_after_a_collapse(wrong: bool) -> Scene {
    let mut s = Scene::full_table(&[Core::STRONG]);
    let (table, block) = (s.table(), s.block_above());
    s.begin("collapse", []).put_above(block).publish().done();
    let change = s.change(0..512, Some(s.with(0, READ_ONLY)));
    s.begin("protect", [change]).put_above(block | READ_ONLY.bits());
    let hint = if wrong { 2 << 37 } else { 0 };
    let operand = s.range(512) | hint;
    let mut s = with(s, Rvaae1is, operand);
    s.free(table);
    s
}

/// 32 pages go with their table.
pub(crate) fn one_for_a_table_of_pages(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let table = s.table();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0);
    s.flush(0..if wrong { 1 } else { 32 }).done().free(table);
    s
}

pub(crate) fn hint_on_a_cpu_without(wrong: bool) -> Scene {
    let s = protecting(Plan::pages(&[Core { ttl: false, ..Core::STRONG }]));
    let hint = if wrong { s.hint(3) } else { 0 };
    let operand = s.address(0) | hint;
    with(s, Vaale1is, operand)
}

pub(crate) fn unmasked_address_as_asid(wrong: bool) -> Scene {
    let s = protecting(Plan::pages(&[Core::STRONG]));
    let operand = if wrong { s.va(0) >> 12 } else { s.address(0) };
    with(s, Vaale1is, operand)
}

/// The sign of the address is a hint of level 3 of 64K pages here.
pub(crate) fn unmasked_address_as_hint(wrong: bool) -> Scene {
    let s = protecting(Plan::pages(&[Core::STRONG]));
    let operand = if wrong { s.va(0) >> 12 } else { s.address(0) };
    with(s, Vale1is, operand)
}

pub(crate) fn address_not_shifted_by_12(wrong: bool) -> Scene {
    let mut s = protecting(Plan { geometry: K64, ..Plan::pages(&[Core::STRONG]) });
    let new = s.with(1, READ_ONLY);
    s.dsb(Ishst).tlbi(Vaale1is, 0).dsb(Ish).isb().done();
    s.begin("protect", [s.change(1..2, Some(new))]).put(1, new);
    let operand = if wrong { s.va(1) >> 16 & ((1 << 44) - 1) } else { s.address(1) };
    with(s, Vaale1is, operand)
}

/// A run becomes read-only, and so many of its members are invalidated.
fn run_with(plan: Plan<'_>, members: usize) -> Scene {
    let mut s = protecting_run(plan);
    s.flush(0..members).done();
    s
}

pub(crate) fn one_page_of_a_run(wrong: bool) -> Scene {
    run_with(Plan::runs(&[Core::WEAK]), if wrong { 1 } else { 16 })
}

pub(crate) fn run_of_128_pages_as_one_of_32(wrong: bool) -> Scene {
    run_with(Plan { geometry: K16, ..Plan::runs(&[Core::STRONG]) }, if wrong { 32 } else { 128 })
}

pub(crate) fn range_an_odd_page_short(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.begin("protect", [s.change(0..5, Some(s.with(0, READ_ONLY)))]);
    for i in 0..5 {
        s.put_as(i, READ_ONLY);
    }
    let operand = s.range(4);
    s.dsb(Ishst).tlbi_with(Rvaale1is, operand);
    if !wrong {
        s.tlbi(Vaale1is, 4);
    }
    s.dsb(Ish).isb().done();
    s
}

pub(crate) fn range_base_in_pages_under_lpa2(wrong: bool) -> Scene {
    let s = protecting_run(Plan { geometry: K4_LPA2, ..Plan::runs(&[Core::STRONG]) });
    let operand = s.range_of(1, s.va(0) >> if wrong { 12 } else { 16 }, 16);
    with(s, Rvaale1is, operand)
}

pub(crate) fn range_of_another_granule(wrong: bool) -> Scene {
    let s = protecting_run(Plan::runs(&[Core::STRONG]));
    let operand = s.range_of(if wrong { 2 } else { 1 }, s.va(0) >> 12, 16);
    with(s, Rvaale1is, operand)
}

pub(crate) fn range_with_a_hint_not_aligned(wrong: bool) -> Scene {
    let s = protecting(Plan::blocks(&[Core::STRONG]));
    let start = s.va(0) >> 12;
    let operand = s.range_of(1, if wrong { start | 1 } else { start }, 4) | 2 << 37;
    with(s, Rvaale1is, operand)
}

pub(crate) fn repeated_without_a_dsb(wrong: bool) -> Scene {
    let mut s = protecting(Plan::pages(&[Core::STRONG, Core { repeat_tlbi: true, ..Core::STRONG }]));
    s.dsb(Ishst).tlbi(Vaale1is, 0).dsb(Ish).tlbi_all(Vale1is);
    if !wrong {
        s.dsb(Ish);
    }
    s.isb().done();
    s
}

pub(crate) fn stale_writable_page_at_return(wrong: bool) -> Scene {
    let mut s = protecting(Plan::pages(&[Core::STRONG]));
    s.dsb(Ishst).tlbi(Vaale1is, 0);
    s.in_order(!wrong, |s| s.dsb(Ish).isb(), |s| s.done());
    s
}

/// The page belongs to one ASID, which is 0; the operand names 1.
pub(crate) fn of_another_asid(wrong: bool) -> Scene {
    let page = Plan::pages(&[Core::STRONG]);
    let local = A::RAM | A::NOT_GLOBAL;
    let mut s = Plan { leaf: Leaf { attributes: local, ..page.leaf }, ..page }.scene();
    let new = s.with(0, local | A::READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(new))]).put(0, new);
    let asid = if wrong { 1 << 48 } else { 0 };
    let operand = s.address(0) | asid;
    with(s, Vale1is, operand)
}

/// A global page becomes one of an ASID, in place.
pub(crate) fn made_local(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).scene();
    let new = s.with(0, A::RAM | A::NOT_GLOBAL);
    s.begin("protect", [s.change(0..1, Some(new))]).put(0, new).dsb(Ishst);
    if wrong {
        s.tlbi_with(Aside1is, 0);
    } else {
        s.tlbi(Vaale1is, 0);
    }
    s.dsb(Ish).isb().done();
    s
}
