//! Permissions relaxed without a TLBI: the caller handles the faults of TLBs that keep the stricter ones.

use linmap::Attributes as A;
use linmap::arch::Leaf;
use linmap_model::{Core, Expected};

use crate::scene::{Plan, READ_ONLY, Scene};

/// 32 pages that can be read only.
fn read_only_pages(cores: &[Core]) -> Scene {
    let pages = Plan::pages(cores);
    Plan { leaf: Leaf { attributes: READ_ONLY, ..pages.leaf }, ..pages }.scene()
}

/// The change of page 0, whose users handle spurious faults.
fn handled(s: &Scene, attributes: A) -> Expected {
    s.change(0..1, Some(s.with(0, attributes))).spurious_faults()
}

/// Page 0 changes without a TLBI.
fn without_tlbi(s: &mut Scene, change: Expected, attributes: A) -> &mut Scene {
    s.begin("relax", [change]).put_as(0, attributes).publish().done()
}

pub(crate) fn without_a_handler(wrong: bool) -> Scene {
    let mut s = read_only_pages(&[Core::STRONG; 2]);
    let mut change = handled(&s, A::RAM);
    change.spurious_faults = !wrong;
    without_tlbi(&mut s, change, A::RAM);
    s
}

/// A page becomes executable, or one that is executable ceases to be.
pub(crate) fn made_stricter(wrong: bool) -> Scene {
    let pages = Plan::pages(&[Core::STRONG]);
    let executable = READ_ONLY - A::PXN;
    let (old, new) = if wrong { (executable, READ_ONLY) } else { (READ_ONLY, executable) };
    let mut s = Plan { leaf: Leaf { attributes: old, ..pages.leaf }, ..pages }.scene();
    let change = handled(&s, new);
    without_tlbi(&mut s, change, new);
    s
}

/// Writable, and executable no more if it was.
pub(crate) fn relaxed_and_made_stricter(wrong: bool) -> Scene {
    let pages = Plan::pages(&[Core::STRONG]);
    let old = if wrong { READ_ONLY - A::PXN } else { READ_ONLY };
    let mut s = Plan { leaf: Leaf { attributes: old, ..pages.leaf }, ..pages }.scene();
    let change = handled(&s, A::RAM);
    without_tlbi(&mut s, change, A::RAM);
    s
}

/// Writable, and guarded: what a branch may land on is no permission that a handler can give.
pub(crate) fn relaxed_and_guarded(wrong: bool) -> Scene {
    let mut s = read_only_pages(&[Core::STRONG]);
    let new = if wrong { A::RAM | A::GUARDED } else { A::RAM };
    let change = handled(&s, new);
    without_tlbi(&mut s, change, new);
    s
}

/// EL0 may access the page from now on, and under PAN EL1 may not.
pub(crate) fn relaxed_for_el0(wrong: bool) -> Scene {
    let mut s = read_only_pages(&[Core::STRONG]);
    let new = if wrong { A::RAM | A::USER } else { A::RAM };
    let change = handled(&s, new);
    without_tlbi(&mut s, change, new);
    s
}

/// Two pages are relaxed, and the handler is for one.
pub(crate) fn beside_what_is_handled(wrong: bool) -> Scene {
    let mut s = read_only_pages(&[Core::STRONG]);
    let second = s.change(1..2, Some(s.with(1, A::RAM)));
    let second = if wrong { second } else { second.spurious_faults() };
    s.begin("relax", [handled(&s, A::RAM), second]).put_as(0, A::RAM).put_as(1, A::RAM).publish().done();
    s
}

/// A page is relaxed, and then made stricter.
pub(crate) fn stricter_afterwards(wrong: bool) -> Scene {
    let mut s = read_only_pages(&[Core::STRONG; 2]);
    let (relax, restrict) = (handled(&s, A::RAM), handled(&s, READ_ONLY));
    without_tlbi(&mut s, relax, A::RAM);
    s.begin("restrict", [restrict]).put_as(0, READ_ONLY);
    if wrong {
        s.publish();
    } else {
        s.flush(0..1);
    }
    s.done();
    s
}

/// A page is relaxed; the next operation has no handler, and must invalidate the old entry, too.
pub(crate) fn handled_no_more(wrong: bool) -> Scene {
    let mut s = read_only_pages(&[Core::STRONG; 2]);
    let (relax, same) = (handled(&s, A::RAM), s.change(0..1, Some(s.with(0, A::RAM))));
    without_tlbi(&mut s, relax, A::RAM);
    let same = if wrong { same } else { same.spurious_faults() };
    s.begin("nothing", [same]).done();
    s
}
