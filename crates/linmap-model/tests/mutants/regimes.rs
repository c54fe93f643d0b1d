//! Translation regimes: stage 2 and its VMIDs, EL2 and EL2&0.

use linmap::arch::Leaf;
use linmap::{Attributes as A, Pa};
use linmap_model::{Barrier::*, Core, CpuId, Event, Register, Tlb, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene};

/// Memory of a guest, by stage 2: read-write, inner shareable, accessed, MemAttr 0b0111.
pub(crate) const GUEST: A = A::from_bits_retain(0b0111 << 2 | 0b11 << 6 | 0b11 << 8 | 1 << 10);
/// The highest bit of MemAttr.
const OUTER: u64 = 1 << 5;
pub(crate) const VMID_1: u64 = 1 << 48;
pub(crate) const VMID_2: u64 = 2 << 48;
/// HCR_EL2.E2H and TGE.
pub(crate) const E2H: u64 = 1 << 34;
pub(crate) const TGE: u64 = 1 << 27;

const TWO: [Core; 2] = [Core::STRONG; 2];

/// A plan for a tree that translates addresses from 1G on.
pub(crate) const fn from_1g(plan: Plan<'_>, attributes: A) -> Plan<'_> {
    Plan { va: Some(1 << 30), leaf: Leaf { attributes, ..plan.leaf }, ..plan }
}

/// All CPUs load the tree into a register, with these bits.
pub(crate) fn loaded(plan: Plan<'_>, hcr: u64, register: Register, more: u64) -> Scene {
    let mut s = plan.unloaded();
    for cpu in 0..plan.cores.len() as CpuId {
        s.cpu(cpu);
        if cpu != 0 {
            s.event(Event::Report { cpu });
        }
        let root = s.tree.tables[0] | more;
        s.msr(Register::Hcr, hcr).isb().msr(register, root).isb();
    }
    s.cpu(0);
    s
}

/// A guest with 32 pages, on all CPUs.
pub(crate) fn guest(plan: Plan<'_>) -> Scene {
    loaded(from_1g(plan, GUEST), 0, Register::Vttbr, VMID_1)
}

/// The IPA of a slot, for an operand.
fn ipa(s: &Scene, i: usize) -> u64 {
    s.va(i) >> 12
}

/// A page of a guest is taken away; what comes after the store and its DSB is the story's.
fn taken_away() -> Scene {
    let mut s = guest(Plan::pages(&TWO));
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst);
    s
}

pub(crate) fn flush_ipa(s: &mut Scene, op: Tlb) -> &mut Scene {
    let operand = ipa(s, 0);
    s.tlbi_with(op, operand)
}

pub(crate) fn ipa_alone(wrong: bool) -> Scene {
    let mut s = taken_away();
    flush_ipa(&mut s, Ipas2e1is).dsb(Ish);
    if !wrong {
        s.tlbi_all(Vmalle1is).dsb(Ish);
    }
    s.isb().done();
    s
}

pub(crate) fn stage_1_first(wrong: bool) -> Scene {
    let mut s = taken_away();
    s.in_order(!wrong, |s| flush_ipa(s, Ipas2e1is).dsb(Ish), |s| s.tlbi_all(Vmalle1is).dsb(Ish)).isb().done();
    s
}

pub(crate) fn no_dsb_between(wrong: bool) -> Scene {
    let mut s = taken_away();
    flush_ipa(&mut s, Ipas2e1is);
    if !wrong {
        s.dsb(Ish);
    }
    s.tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    s
}

/// The IPA's own address need not be the one by which the guest uses it.
pub(crate) fn by_an_address_of_the_guest(wrong: bool) -> Scene {
    let mut s = taken_away();
    flush_ipa(&mut s, Ipas2e1is).dsb(Ish);
    if wrong {
        flush_ipa(&mut s, Vaale1is);
    } else {
        s.tlbi_all(Vmalle1is);
    }
    s.dsb(Ish).isb().done();
    s
}

pub(crate) fn stage_1_alone(wrong: bool) -> Scene {
    let mut s = taken_away();
    s.tlbi_all(if wrong { Vmalle1is } else { Vmalls12e1is }).dsb(Ish).isb().done();
    s
}

pub(crate) fn another_ipa(wrong: bool) -> Scene {
    let mut s = taken_away();
    let operand = ipa(&s, if wrong { 1 } else { 0 });
    s.tlbi_with(Ipas2le1is, operand).dsb(Ish).tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    s
}

/// CPU 0 has gone over to another guest when it invalidates.
pub(crate) fn another_vmid(wrong: bool) -> Scene {
    let mut s = taken_away();
    let other = s.empty | if wrong { VMID_2 } else { VMID_1 };
    s.msr(Register::Vttbr, other).isb().tlbi_all(Vmalls12e1is).dsb(Ish).isb().done();
    s
}

/// With HCR_EL2.TGE and E2H, the TLBIs of EL1 are for the host's own regime.
pub(crate) fn by_a_host_that_keeps_tge(wrong: bool) -> Scene {
    let mut s = loaded(from_1g(Plan::pages(&TWO), GUEST), E2H | TGE, Register::Vttbr, VMID_1);
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst);
    if !wrong {
        s.msr(Register::Hcr, E2H).isb();
    }
    flush_ipa(&mut s, Ipas2e1is).dsb(Ish).tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    s
}

/// Pages of a guest go with their table.
pub(crate) fn table_after_a_last_level_tlbi(wrong: bool) -> Scene {
    let mut s = guest(Plan::pages(&TWO));
    let table = s.table();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst);
    for i in 0..32 {
        let operand = ipa(&s, i);
        s.tlbi_with(if wrong { Ipas2le1is } else { Ipas2e1is }, operand);
    }
    s.dsb(Ish).tlbi_all(Vmalle1is).dsb(Ish).isb().free(table).done();
    s
}

/// Pages of a guest go with their table; none that combined them is left.
pub(crate) fn pages_of_a_table_by_ipa_alone(wrong: bool) -> Scene {
    let mut s = guest(Plan::pages(&TWO));
    let table = s.table();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst);
    for i in 0..32 {
        let operand = ipa(&s, i);
        s.tlbi_with(Ipas2e1is, operand);
    }
    s.dsb(Ish);
    if !wrong {
        s.tlbi_all(Vmalle1is).dsb(Ish);
    }
    s.isb().free(table).done();
    s
}

/// CPU 0 goes from one guest to another.
pub(crate) fn vmid_of_another_guest(wrong: bool) -> Scene {
    let plan = from_1g(Plan::pages(&[Core::STRONG]), GUEST);
    let mut s = loaded(plan, 0, Register::Vttbr, VMID_1);
    let second = s.create(plan);
    let root = second.tables[0] | if wrong { VMID_1 } else { VMID_2 };
    s.msr(Register::Vttbr, root).isb();
    s
}

/// A VMID has been another guest's before.
pub(crate) fn vmid_used_again(wrong: bool) -> Scene {
    let plan = from_1g(Plan::pages(&[Core::STRONG]), GUEST);
    let mut s = loaded(plan, 0, Register::Vttbr, VMID_1);
    let second = s.create(plan);
    let empty = s.empty | VMID_2;
    s.msr(Register::Vttbr, empty).isb().tlbi_all(if wrong { Vmalls12e1is } else { Alle1is }).dsb(Ish).isb();
    s.msr(Register::Vttbr, second.tables[0] | VMID_1).isb();
    s
}

/// A guest's page is replaced by another leaf.
fn moved(wrong: bool, bits: impl Fn(u64) -> u64, leaf: Leaf) -> Scene {
    let mut s = guest(Plan::pages(&TWO));
    let value = bits(s.bits(leaf));
    s.begin("move", [s.change(0..1, Some(leaf))]);
    if !wrong {
        s.clear(0).dsb(Ishst);
        flush_ipa(&mut s, Ipas2e1is).dsb(Ish).tlbi_all(Vmalle1is).dsb(Ish).isb();
    }
    s.put_bits(0, value).dsb(Ishst);
    flush_ipa(&mut s, Ipas2e1is).dsb(Ish).tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    s
}

/// A guest waits in EL2 for the page, so it may be broken while the guest runs.
pub(crate) fn output_address_in_place(wrong: bool) -> Scene {
    let leaf = from_1g(Plan::pages(&TWO), GUEST).leaf;
    moved(wrong, |bits| bits, Leaf { oa: Pa(leaf.oa.0 + (1 << 30)), ..leaf })
}

/// Bit 5 is the highest of MemAttr.
pub(crate) fn memory_type_in_place(wrong: bool) -> Scene {
    let leaf = from_1g(Plan::pages(&TWO), GUEST).leaf;
    let attributes = leaf.attributes | A::from_bits_retain(OUTER);
    moved(wrong, |bits| bits | OUTER, Leaf { attributes, ..leaf })
}

/// A block of a guest is split while the guest runs.
pub(crate) fn split_on_a_weak_cpu(wrong: bool) -> Scene {
    let cores = [Core::STRONG, if wrong { Core::WEAK } else { Core::STRONG }];
    let mut s = guest(Plan::blocks(&cores));
    let child = s.child(0);
    s.begin("split", []).link(0, child).dsb(Ishst).isb().done();
    s
}

/// A page of EL2 becomes read-only.
fn of_el2(hcr: u64, register: Register, plan: Plan<'_>, flush: impl Fn(&mut Scene, u64)) -> Scene {
    let mut s = loaded(plan, hcr, register, 0);
    let to = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(to))]).put(0, to).dsb(Ishst);
    let operand = s.address(0);
    flush(&mut s, operand);
    s.dsb(Ish).isb().done();
    s
}

pub(crate) fn page_of_el2_by_the_form_of_el1(wrong: bool) -> Scene {
    let plan = from_1g(Plan::pages(&TWO), A::RAM);
    of_el2(0, Register::Ttbr0El2, plan, |s, operand| {
        s.tlbi_with(if wrong { Vae1is } else { Vae2is }, operand);
    })
}

/// A host in EL2&0 uses the forms of EL1, which are its own while TGE is 1.
pub(crate) fn page_of_el2_and_0_without_tge(wrong: bool) -> Scene {
    of_el2(E2H | TGE, Register::Ttbr1El2, Plan::pages(&TWO), |s, operand| {
        s.msr(Register::Hcr, if wrong { E2H } else { E2H | TGE }).isb().tlbi_with(Vaale1is, operand);
    })
}

pub(crate) fn upper_half_of_el2_without_e2h(wrong: bool) -> Scene {
    loaded(Plan::pages(&TWO), if wrong { 0 } else { E2H }, Register::Ttbr1El2, 0)
}

pub(crate) fn local_page_of_el2_without_e2h(wrong: bool) -> Scene {
    let plan = from_1g(Plan::pages(&TWO), A::RAM | A::NOT_GLOBAL);
    loaded(plan, if wrong { 0 } else { E2H }, Register::Ttbr0El2, 0)
}

/// The tables of EL1 would go on with the VMID of the next guest.
pub(crate) fn vmid_under_a_tree_of_el1(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let empty = s.empty;
    if !wrong {
        s.msr(Register::Ttbr1, empty).isb();
    }
    let guest = s.alloc();
    s.write(guest, 0, 0, s.g.entries(s.g.root()), 0).dsb(Ishst);
    s.msr(Register::Vttbr, guest | VMID_2).isb();
    s
}
