//! Pages that were announced to be nowhere writable: not by another address either, from the operation's return on.

use linmap::Attributes as A;
use linmap::arch::Leaf;
use linmap_model::{Barrier::*, Core, Expected, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene};

/// The second address of page 0.
const SECOND: usize = 40;

/// The page is mapped a second time with these attributes.
fn mapped_twice(cores: &[Core], attributes: A) -> Scene {
    let mut s = Scene::pages(cores);
    s.map(SECOND, s.with(0, attributes));
    s
}

/// Page 0, read-only here and elsewhere.
fn read_only(s: &Scene) -> Expected {
    s.change(0..1, Some(s.with(0, READ_ONLY))).nowhere_writable()
}

/// Page 0 becomes read-only with the promise.
fn protect(s: &mut Scene) -> &mut Scene {
    let to = read_only(s);
    s.begin("protect", [to]).put_as(0, READ_ONLY).flush(0..1).done()
}

pub(crate) fn mapped_twice_in_one_area(wrong: bool) -> Scene {
    let mut s = mapped_twice(&[Core::STRONG], if wrong { A::RAM } else { READ_ONLY });
    protect(&mut s);
    s
}

pub(crate) fn mapped_in_another_tree(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG; 2]);
    let mut s = plan.scene();
    let upper = s.tree.clone();
    let attributes = if wrong { A::RAM } else { READ_ONLY };
    s.tree = s.create(Plan { va: Some(0), leaf: Leaf { attributes, ..plan.leaf }, ..plan });
    s.cpu(1).load().cpu(0);
    s.tree = upper;
    protect(&mut s);
    s
}

/// The second address becomes read-only in the same operation, and its TLBI follows; or it does not.
pub(crate) fn other_address_not_invalidated(wrong: bool) -> Scene {
    let mut s = mapped_twice(&[Core::STRONG; 2], A::RAM);
    let other = s.with(0, READ_ONLY);
    let change = s.change(SECOND..SECOND + 1, Some(other));
    s.cpu(1).begin("other", [change]).put(SECOND, other).dsb(Ishst);
    s.in_order(
        !wrong,
        |s| s.flush(SECOND..SECOND + 1),
        |s| {
            s.cpu(0);
            protect(s).cpu(1)
        },
    );
    s.done();
    s
}

pub(crate) fn other_address_invalidated_locally(wrong: bool) -> Scene {
    let mut s = mapped_twice(&[Core::STRONG; 2], A::RAM);
    let op = if wrong { Vaae1 } else { Vaae1is };
    let (first, other) = (read_only(&s), s.with(0, READ_ONLY));
    let change = s.change(SECOND..SECOND + 1, Some(other));
    s.cpu(1).begin("other", [change]).put(SECOND, other);
    s.dsb(Ishst).tlbi(op, SECOND).dsb(Ish).isb();
    s.cpu(0).begin("protect", [first]).put_as(0, READ_ONLY).flush(0..1).done();
    s.cpu(1).flush(SECOND..SECOND + 1).done();
    s
}

/// A second address is made later.
pub(crate) fn mapped_writable_later(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    protect(&mut s);
    s.map(SECOND, s.with(0, if wrong { A::RAM } else { READ_ONLY }));
    s
}

/// It is writable before the operation begins that gives up the promise, or after.
pub(crate) fn mapped_writable_before_the_promise_is_lifted(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    protect(&mut s);
    let lift = |s: &mut Scene| {
        let writable = s.leaf(0);
        let change = s.change(0..1, Some(writable));
        s.begin("make writable", [change]).put(0, writable).flush(0..1).done();
    };
    let map = |s: &mut Scene| _ = s.map(SECOND, s.leaf(0));
    let order: [&dyn Fn(&mut Scene); 2] = if wrong { [&map, &lift] } else { [&lift, &map] };
    order.iter().for_each(|step| step(&mut s));
    s
}

/// Hardware makes it writable on the first write.
pub(crate) fn dirty_managed_elsewhere(wrong: bool) -> Scene {
    let dirty = if wrong { A::DIRTY_MANAGED } else { A::empty() };
    let mut s = mapped_twice(&[Core::STRONG], READ_ONLY | dirty);
    protect(&mut s);
    s
}

/// A CPU comes to a tree in which the page is writable.
pub(crate) fn loaded_with_a_writable_page(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG; 2]);
    let mut s = plan.scene();
    protect(&mut s);
    let attributes = if wrong { A::RAM } else { READ_ONLY };
    s.tree = s.create(Plan { va: Some(0), leaf: Leaf { attributes, ..plan.leaf }, ..plan });
    s.cpu(1).load();
    s
}

pub(crate) fn announced_and_writable(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let to = s.with(0, if wrong { A::RAM | A::GUARDED } else { READ_ONLY });
    s.begin("protect", [s.change(0..1, Some(to)).nowhere_writable()]).put(0, to).flush(0..1).done();
    s
}
