//! What a host does for its guests: it takes memory back, and goes from one guest to another.

use linmap_model::{Barrier::*, Core, Event, Tlb::*};

use crate::regimes::{flush_ipa, guest};
use crate::scene::{Plan, Scene};

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
