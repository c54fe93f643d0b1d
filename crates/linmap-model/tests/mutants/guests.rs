//! The work of a host for its guests: it takes memory back, and goes from one guest to another.

use linmap::arch::Descriptor;
use linmap::{Attributes as A, Pa};
use linmap_model::{Barrier::*, Core, Event, Register::*, Tlb::*};

use crate::regimes::{E2H, GUEST, TGE, VMID_1, VMID_2, flush_ipa, from_1g, guest, loaded};
use crate::scene::{Plan, READ_ONLY, Scene};

const TWO: [Core; 2] = [Core::STRONG; 2];

/// The steps by which a page leaves a guest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Unmap,
    Ipa,
    Combined,
}

/// A page of a guest is given away after some steps.
fn given_without(step: Option<Step>) -> Scene {
    let mut s = guest(Plan::pages(&TWO));
    let is_taken = |wanted: Step| Some(wanted) != step;
    s.begin("unmap", [s.change(0..1, None)]);
    if is_taken(Step::Unmap) {
        s.clear(0).dsb(Ishst);
    }
    if is_taken(Step::Ipa) {
        flush_ipa(&mut s, Ipas2e1is).dsb(Ish);
    }
    if is_taken(Step::Combined) {
        s.tlbi_all(Vmalle1is).dsb(Ish).isb();
    }
    let pa = s.leaf(0).oa.0;
    s.event(Event::Give { cpu: 0, pa, bytes: 4096 }).done();
    s
}

pub(crate) fn given_while_mapped(wrong: bool) -> Scene {
    given_without(wrong.then_some(Step::Unmap))
}

pub(crate) fn given_before_the_ipa_is_invalidated(wrong: bool) -> Scene {
    given_without(wrong.then_some(Step::Ipa))
}

pub(crate) fn given_before_what_combines_both_is_invalidated(wrong: bool) -> Scene {
    given_without(wrong.then_some(Step::Combined))
}

/// CPU 0 was on another guest, and goes over to this one for its TLBI.
pub(crate) fn tlbi_before_the_vmid_is_in_force(wrong: bool) -> Scene {
    let mut s = loaded_by_another();
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst);
    let root = s.tree.tables[0] | VMID_1;
    s.msr(Vttbr, root);
    if !wrong {
        s.isb();
    }
    s.tlbi_all(Vmalls12e1is).dsb(Ish).isb().done();
    s
}

/// CPU 1 runs the guest, and CPU 0 is on an empty one.
fn loaded_by_another() -> Scene {
    let mut s = from_1g(Plan::pages(&TWO), GUEST).unloaded();
    let (root, other) = (s.tree.tables[0] | VMID_1, s.empty | VMID_2);
    s.msr(Vttbr, other).isb().cpu(1).event(Event::Report { cpu: 1 }).msr(Vttbr, root).isb().cpu(0);
    s
}

/// A host in EL2&0 clears TGE, so that the TLBIs of EL1 are for its guest.
pub(crate) fn tlbi_before_tge_is_cleared(wrong: bool) -> Scene {
    let mut s = from_1g(Plan::pages(&TWO), GUEST).unloaded();
    let root = s.tree.tables[0] | VMID_1;
    s.msr(Hcr, E2H | TGE).isb().msr(Vttbr, root).isb();
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst);
    flush_ipa(&mut s, Ipas2e1is).dsb(Ish).msr(Hcr, E2H);
    if !wrong {
        s.isb();
    }
    s.tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    s
}

/// A CPU of the guest is reset, and comes back to it.
pub(crate) fn guest_after_a_reset(wrong: bool) -> Scene {
    let mut s = guest(Plan::pages(&TWO));
    let root = s.tree.tables[0] | VMID_1;
    s.event(Event::Reset { cpu: 1 });
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst).tlbi_all(Vmalls12e1).dsb(Nsh).isb().done();
    s.cpu(1).tlbi_all(if wrong { Vmalle1 } else { Alle1 }).dsb(Nsh).isb().msr(Vttbr, root).isb();
    s
}

/// The trees of EL2 as well.
pub(crate) fn el2_after_a_reset(wrong: bool) -> Scene {
    let mut s = from_1g(Plan::pages(&TWO), A::RAM).unloaded();
    let root = s.tree.tables[0];
    s.event(Event::Reset { cpu: 0 }).tlbi_all(if wrong { Alle1 } else { Alle2 }).dsb(Nsh).isb();
    s.msr(Ttbr0El2, root).isb();
    s
}

/// A kernel that has started in EL1 goes over to EL2&0 with its tree, and protects a page.
pub(crate) fn tree_of_el1_goes_to_el2(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).unloaded();
    let (root, empty) = (s.tree.tables[0], s.empty);
    s.msr(Ttbr1, root).isb().msr(Ttbr1, empty).isb().tlbi_all(Alle1is).dsb(Ish).isb();
    s.msr(Hcr, E2H | TGE).isb().msr(Ttbr1El2, root).isb();
    let to = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(to))]).put(0, to).dsb(Ishst);
    s.msr(Hcr, if wrong { E2H } else { E2H | TGE }).isb();
    s.tlbi(Vaale1is, 0).dsb(Ish).isb().done();
    s
}

/// CPUs may share an empty tree, but it is filled in one regime.
pub(crate) fn empty_tree_of_two_vmids_is_filled(wrong: bool) -> Scene {
    let mut s = from_1g(Plan::pages(&TWO), A::RAM).unloaded();
    for table in s.tree.tables.clone() {
        s.free(table);
    }
    let (empty, guest) = (s.empty, s.alloc());
    s.write(guest, 0, 0, 512, 0).dsb(Ishst).msr(Ttbr1, empty).isb();
    s.cpu(1).event(Event::Report { cpu: 1 });
    s.msr(Vttbr, guest | if wrong { VMID_1 } else { 0 }).isb().msr(Ttbr1, empty).isb();
    let table = s.alloc();
    s.write(table, 0, 0, 512, 0).dsb(Ishst);
    s.write(empty, 0, Descriptor::table(Pa(table), s.g).0, 1, 0).dsb(Ishst).isb();
    s
}

/// A page that a guest may read gets other permissions, and the guest's faults are handled.
pub(crate) fn permissions_without_a_tlbi(wrong: bool) -> Scene {
    let access = |s2ap: u64| A::from_bits_retain(GUEST.bits() & !(0b11 << 6) | s2ap << 6);
    let mut s = loaded(from_1g(Plan::pages(&TWO), access(0b01)), 0, Vttbr, VMID_1);
    let to = s.with(0, access(if wrong { 0b00 } else { 0b11 }));
    let change = s.change(0..1, Some(to)).spurious_faults();
    s.begin("permit", [change]).put(0, to).publish().done();
    s
}
