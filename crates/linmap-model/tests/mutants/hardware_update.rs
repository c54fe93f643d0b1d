//! Walkers that store: they set the access flag, and make writable-clean entries writable-dirty.

use linmap::arch::{Descriptor, Leaf, Level};
use linmap::{Attributes, Pa};
use linmap_model::{Core, Update};

use crate::scene::{Plan, READ_ONLY, Scene};

const UPDATES: Core = Core { hardware_access_flag: true, hardware_dirty_state: true, ..Core::STRONG };
const NOT_ACCESSED: Attributes = Attributes::RAM.difference(Attributes::ACCESSED);
const CLEAN: Attributes = READ_ONLY.union(Attributes::DIRTY_MANAGED);
const DIRTY: Attributes = Attributes::RAM.union(Attributes::DIRTY_MANAGED);

/// Two CPUs with a page, in slot 40.
fn with_page(cores: &[Core; 2], attributes: Attributes) -> Scene {
    let mut s = Scene::pages(cores);
    s.map(40, s.with(40, attributes));
    s
}

/// An operation changes the page by one store, plain or atomic.
fn changes(s: &mut Scene, from: Attributes, to: Option<Attributes>, atomic: bool) {
    let (was, new) = (s.bits(s.with(40, from)), to.map(|a| s.with(40, a)));
    let value = new.map_or(0, |leaf| s.bits(leaf));
    s.begin("change", [s.change(40..41, new)]);
    if atomic {
        s.cas(40, was, value)
    } else {
        s.put_bits(40, value)
    };
    s.flush(40..41).done();
}

pub(crate) fn plain_store_over_a_page_without_access_flag(wrong: bool) -> Scene {
    let mut s = with_page(&[Core::STRONG, UPDATES], NOT_ACCESSED);
    changes(&mut s, NOT_ACCESSED, Some(NOT_ACCESSED | Attributes::READ_ONLY), !wrong);
    s
}

pub(crate) fn plain_store_over_a_clean_page(wrong: bool) -> Scene {
    let mut s = with_page(&[Core::STRONG, UPDATES], CLEAN);
    changes(&mut s, CLEAN, None, !wrong);
    s
}

/// A page becomes read-only for good by a plain store, and no walker makes it writable-dirty, or one does.
pub(crate) fn plain_store_where_walkers_update(wrong: bool) -> Scene {
    let other = Core { hardware_dirty_state: wrong, ..UPDATES };
    let mut s = with_page(&[Core::STRONG, other], CLEAN);
    changes(&mut s, CLEAN, Some(READ_ONLY), false);
    s
}

/// Between a read and a store of CPU 0 the walker of CPU 1 makes the page writable-dirty.
pub(crate) fn made_dirty_after_it_was_read(wrong: bool) -> Scene {
    let mut s = with_page(&[Core::STRONG, UPDATES], CLEAN);
    let (read, new) = (s.with(40, if wrong { CLEAN } else { DIRTY }), s.with(40, READ_ONLY));
    s.begin("protect", [s.change(40..41, Some(new))]);
    s.cpu(1).update(40, Update::Dirty).cpu(0).put_over(40, read, new).flush(40..41).done();
    s
}

/// A compare and swap fails, and is repeated with what is there now, or not.
pub(crate) fn failed_swap_not_repeated(wrong: bool) -> Scene {
    let mut s = with_page(&[Core::STRONG, UPDATES], CLEAN);
    let [clean, dirty, new] = [CLEAN, DIRTY, READ_ONLY].map(|a| s.bits(s.with(40, a)));
    s.begin("protect", [s.change(40..41, Some(s.with(40, READ_ONLY)))]);
    s.cpu(1).update(40, Update::Dirty).cpu(0).cas(40, clean, new);
    if !wrong {
        s.cas(40, dirty, new);
    }
    s.flush(40..41).done();
    s
}

/// A page moves in place to an entry without access flag, which no CPU can hold, or which a walker may set at once.
pub(crate) fn moved_without_access_flag(wrong: bool) -> Scene {
    let updates = Core { hardware_access_flag: wrong, ..Core::STRONG };
    let mut s = with_page(&[Core::STRONG, updates], Attributes::RAM);
    let moved = Leaf { oa: Pa(s.leaf(40).oa.0 + 0x10_0000), ..s.with(40, NOT_ACCESSED) };
    s.begin("move", [s.change(40..41, Some(moved))]).put(40, moved).flush(40..41).done();
    s
}

/// A writable-dirty page becomes writable-clean again, and a write by way of the old entry would leave it so.
pub(crate) fn made_clean_without_a_tlbi(wrong: bool) -> Scene {
    let mut s = with_page(&[UPDATES; 2], DIRTY);
    let [dirty, clean] = [DIRTY, CLEAN].map(|a| s.with(40, a));
    let (was, value) = (s.bits(dirty), s.bits(clean));
    s.begin("make clean", [s.change(40..41, Some(clean))]).cas(40, was, value);
    if wrong { s.publish() } else { s.flush(40..41) }.done();
    s
}

/// A block is split, and three of its pages become writable-clean without a TLBI. All are left to a later one, or all but
/// the one in the middle.
pub(crate) fn made_clean_and_left(wrong: bool) -> Scene {
    let blocks = Plan::blocks(&[UPDATES; 2]);
    let mut s = Plan { leaf: Leaf { attributes: DIRTY, ..blocks.leaf }, ..blocks }.scene();
    let (start, child, block) = (s.va(0), s.child(0), s.leaf(0));
    let clean = |page: u64| Leaf { oa: Pa(block.oa.0 + page * 4096), attributes: CLEAN, ..block };
    let changes = [1, 2, 3].map(|page| {
        let change = s.change_at(start + page * 4096, 4096, Some(clean(page)));
        if wrong && page == 2 { change } else { change.invalidated_later() }
    });
    s.begin("split and make clean", changes).link(0, child).publish();
    for page in 1..=3 {
        let bits = Descriptor::leaf(clean(page), s.g, Level::PAGE).0;
        s.write(child, page as usize, bits, 1, 0);
    }
    s.publish().done();
    s
}

pub(crate) fn access_flag_by_a_cpu_without(wrong: bool) -> Scene {
    let mut s = with_page(&[Core::STRONG, UPDATES], NOT_ACCESSED);
    s.cpu(if wrong { 0 } else { 1 }).update(40, Update::Accessed);
    s
}

pub(crate) fn dirty_without_dbm(wrong: bool) -> Scene {
    let mut s = with_page(&[UPDATES; 2], if wrong { READ_ONLY } else { CLEAN });
    s.update(40, Update::Dirty);
    s
}

pub(crate) fn update_of_a_hole(wrong: bool) -> Scene {
    let mut s = with_page(&[UPDATES; 2], NOT_ACCESSED);
    s.update(if wrong { 41 } else { 40 }, Update::Accessed);
    s
}

/// A block is split in place by a plain store: one that no walker updates, or one whose access flag a walker may set.
pub(crate) fn split_of_a_block_without_access_flag(wrong: bool) -> Scene {
    let attributes = if wrong { NOT_ACCESSED } else { Attributes::RAM };
    let blocks = Plan::blocks(&[UPDATES; 2]);
    let mut s = Plan { leaf: Leaf { attributes, ..blocks.leaf }, ..blocks }.scene();
    let child = s.child(0);
    s.begin("split", []).link(0, child).publish().done();
    s
}

/// The same with a read-only block that a walker may make writable, and one that it may not.
pub(crate) fn split_of_a_clean_block(wrong: bool) -> Scene {
    let blocks = Plan::blocks(&[UPDATES; 2]);
    let attributes = if wrong { CLEAN } else { READ_ONLY };
    let mut s = Plan { leaf: Leaf { attributes, ..blocks.leaf }, ..blocks }.scene();
    let child = s.child(0);
    s.begin("split", []).link(0, child).publish().done();
    s
}
