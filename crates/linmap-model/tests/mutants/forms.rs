//! Forms of invalidations and of the DSBs that complete them: the outer shareable domain, and the nXS qualifier.

use linmap::Attributes as A;
use linmap::arch::Leaf;
use linmap_model::{Barrier::*, Core, Tlb, Tlb::*};

use crate::scene::{K4_LPA2, Plan, READ_ONLY, Scene};

/// Two CPUs; a page becomes read-only, and its address is invalidated by this form, with its DSB.
fn protected_with(cores: &[Core], (op, after): (Tlb, linmap_model::Barrier)) -> Scene {
    let mut s = Scene::pages(cores);
    let new = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(new))]).put(0, new).dsb(Ishst);
    s.tlbi(op, 0).dsb(after).isb().done();
    s
}

const TWO: [Core; 2] = [Core::STRONG; 2];

pub(crate) fn outer_on_a_cpu_without(wrong: bool) -> Scene {
    let cores = [Core { outer_tlbi: false, ..Core::STRONG }; 2];
    protected_with(&cores, (if wrong { Vaale1os } else { Vaale1is }, Osh))
}

pub(crate) fn outer_with_a_dsb_of_this_cpu(wrong: bool) -> Scene {
    protected_with(&TWO, (Vaale1os, if wrong { Nsh } else { Osh }))
}

pub(crate) fn outer_with_a_dsb_for_stores(wrong: bool) -> Scene {
    protected_with(&TWO, (Vaale1os, if wrong { Oshst } else { Ish }))
}

/// A form of EL2 for a page of EL1.
pub(crate) fn of_el2(wrong: bool) -> Scene {
    protected_with(&TWO, (if wrong { Vale2is } else { Vale1is }, Ish))
}

pub(crate) fn of_stage_2(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    let new = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(new))]).put(0, new).dsb(Ishst);
    s.tlbi_with(
        if wrong { Ipas2e1is } else { Vaale1is },
        if wrong { s.va(0) >> 12 & 0xf_ffff } else { s.address(0) },
    );
    s.dsb(Ish).isb().done();
    s
}

pub(crate) fn nxs_on_a_cpu_without(wrong: bool) -> Scene {
    let cores = [Core { xs: false, ..Core::STRONG }; 2];
    protected_with(&cores, (if wrong { Vaale1isnxs } else { Vaale1is }, Ish))
}

pub(crate) fn dsb_nxs_on_a_cpu_without(wrong: bool) -> Scene {
    let cores = [Core { xs: false, ..Core::STRONG }; 2];
    protected_with(&cores, (Vaale1is, if wrong { Ishnxs } else { Ish }))
}

/// The DSB completes only TLBIs that have the qualifier.
pub(crate) fn dsb_nxs_after_another_tlbi(wrong: bool) -> Scene {
    protected_with(&TWO, (if wrong { Vaale1is } else { Vaale1isnxs }, Ishnxs))
}

/// Registers of a device go, whose accesses may take long.
pub(crate) fn nxs_for_a_device(wrong: bool) -> Scene {
    let page = Plan::pages(&TWO);
    let mut s = Plan { leaf: Leaf { attributes: A::DEVICE, ..page.leaf }, ..page }.scene();
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst);
    s.tlbi(if wrong { Vaale1isnxs } else { Vaale1is }, 0).dsb(Ish).isb().done();
    s
}

/// Without a hint it may start at any 64K; with one, at a block.
pub(crate) fn range_with_a_hint_under_lpa2(wrong: bool) -> Scene {
    let plan = Plan { geometry: K4_LPA2, ..Plan::runs(&TWO) };
    let mut s = Plan { va: Some(K4_LPA2.base(linmap::Half::Upper) + (1 << 16)), ..plan }.scene();
    let run = s.run();
    s.begin("protect", [s.change(0..run, Some(s.with(0, READ_ONLY - A::INNER_SHAREABLE)))]);
    for i in 0..run {
        s.put_as(i, READ_ONLY - A::INNER_SHAREABLE);
    }
    let hint = if wrong { 2 << 37 } else { 0 };
    let operand = s.range(16) | hint;
    s.dsb(Ishst).tlbi_with(Rvaale1is, operand).dsb(Ish).isb().done();
    s
}
