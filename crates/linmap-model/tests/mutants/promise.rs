//! The promise of an operation: its pages become what was announced, the others stay.

use linmap::arch::{Leaf, Level};
use linmap::{Attributes as A, Pa};
use linmap_model::{Barrier::*, Core, Event, Tlb::*};

use crate::scene::{K4_48, K4_LPA2, Plan, READ_ONLY, Scene};

/// Block 0 becomes a table that says the same, but for so many pages from page 5 on.
fn split_but_for(pages: usize, change: impl Fn(Leaf) -> Leaf) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, block) = (s.alloc(), s.leaf(0));
    let page = change(Leaf { oa: Pa(block.oa.0 + 5 * 4096), ..block });
    s.fill_child(child, block);
    if pages != 0 {
        s.fill(child, Level::PAGE, 5..5 + pages, page);
    }
    s.dsb(Ishst).begin("split", []).link(0, child).publish().done();
    s
}

pub(crate) fn child_with_another_output_address(wrong: bool) -> Scene {
    split_but_for(usize::from(wrong), |page| Leaf { oa: Pa(page.oa.0 + 4096), ..page })
}

pub(crate) fn child_with_another_memory_type(wrong: bool) -> Scene {
    split_but_for(usize::from(wrong), |page| Leaf { attributes: A::DEVICE, ..page })
}

pub(crate) fn child_with_another_permission(wrong: bool) -> Scene {
    split_but_for(usize::from(wrong), |page| Leaf { attributes: READ_ONLY, ..page })
}

pub(crate) fn child_with_a_hole(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, block) = (s.alloc(), s.leaf(0));
    s.fill_child(child, block);
    if wrong {
        s.write(child, 5, 0, 1, 0);
    }
    s.dsb(Ishst).begin("split", []).link(0, child).publish().done();
    s
}

/// Page 5 of a block becomes read-only; its child says that of page 6, too.
pub(crate) fn neighbour_protected_in_a_child(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, block) = (s.alloc(), s.leaf(0));
    let page = Leaf { oa: Pa(block.oa.0 + 5 * 4096), attributes: READ_ONLY, ..block };
    s.fill_child(child, block);
    s.fill(child, Level::PAGE, 5..if wrong { 7 } else { 6 }, page).dsb(Ishst);
    let change = s.change_at(s.va(0) + 5 * 4096, 4096, Some(page));
    s.begin("protect", [change]).link(0, child).flush(0..1).done();
    s
}

/// The operation names page 3.
pub(crate) fn another_page_protected(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let (i, new) = (if wrong { 4 } else { 3 }, s.with(3, READ_ONLY));
    s.begin("protect", [s.change(3..4, Some(new))]).put_as(i, READ_ONLY).flush(i..i + 1).done();
    s
}

pub(crate) fn another_page_mapped(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let i = if wrong { 41 } else { 40 };
    s.begin("map", [s.change(40..41, Some(s.leaf(40)))]).put_as(i, A::RAM).publish().done();
    s
}

/// The operation names page 3.
pub(crate) fn another_page_unmapped(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let i = if wrong { 4 } else { 3 };
    s.begin("unmap", [s.change(3..4, None)]).clear(i).flush(i..i + 1).done();
    s
}

pub(crate) fn one_page_of_two_protected(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.begin("protect", [s.change(0..2, Some(s.with(0, READ_ONLY)))]);
    for i in 0..if wrong { 1 } else { 2 } {
        s.put_as(i, READ_ONLY);
    }
    s.flush(0..2).done();
    s
}

pub(crate) fn hole_where_the_leaf_should_be_kept(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let kept = Leaf { valid: false, ..s.leaf(0) };
    s.begin("invalidate", [s.change(0..1, Some(kept))]);
    if wrong {
        s.clear(0);
    } else {
        s.put(0, kept);
    }
    s.flush(0..1).done();
    s
}

pub(crate) fn leaf_kept_where_a_hole_should_be(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let kept = Leaf { valid: false, ..s.leaf(0) };
    let bits = if wrong { s.bits(kept) } else { 0 };
    s.begin("unmap", [s.change(0..1, None)]).put_bits(0, bits).flush(0..1).done();
    s
}

pub(crate) fn changed_outside_of_an_operation(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let new = s.with(0, READ_ONLY);
    if !wrong {
        s.begin("protect", [s.change(0..1, Some(new))]);
    }
    s.put(0, new).flush(0..1).done();
    s
}

/// One CPU announces a change and another one stores it; then the first is refused.
pub(crate) fn refused_with_a_change_by_another_cpu(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let to = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(to))]);
    s.cpu(1).put(0, to).flush(0..1);
    s.cpu(0);
    if wrong {
        s.refused()
    } else {
        s.isb().done()
    };
    s
}

pub(crate) fn refused_with_a_change_left(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let new = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..2, Some(new))]).put(0, new).flush(0..1);
    if !wrong {
        s.put(0, s.leaf(0)).flush(0..1);
    }
    s.refused();
    s
}

pub(crate) fn read_only_but_dirty_managed(wrong: bool) -> Scene {
    let pages = Plan::pages(&[Core::STRONG]);
    let old = Leaf { attributes: A::RAM | A::DIRTY_MANAGED, ..pages.leaf };
    let mut s = Plan { leaf: old, ..pages }.scene();
    let left = if wrong { A::DIRTY_MANAGED } else { A::empty() };
    s.begin("protect", [s.change(0..1, Some(s.with(0, READ_ONLY)))]);
    s.put_as(0, READ_ONLY | left).flush(0..1).done();
    s
}

/// A block that is kept but not valid becomes a table of such pages.
pub(crate) fn kept_block_split_into_valid_pages(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, kept) = (s.alloc(), Leaf { valid: false, ..s.leaf(0) });
    s.begin("invalidate", [s.change(0..1, Some(kept))]).put(0, kept).flush(0..1).done();
    s.fill_child(child, Leaf { valid: wrong, ..kept }).dsb(Ishst);
    s.begin("split", []).link(0, child).publish().done();
    s
}

/// A table full of pages, of which page 5 is this one, becomes a block.
fn collapse(page: impl Fn(&Scene) -> Leaf) -> Scene {
    let mut s = Scene::full_table(&[Core::STRONG]);
    let (table, page, block) = (s.table(), page(&s), s.block_above());
    s.unmap(5).map(5, page);
    s.begin("collapse", []).put_above(block).dsb(Ishst).tlbi_all(Vmalle1is).dsb(Ish).isb().done().free(table);
    s
}

pub(crate) fn collapse_of_a_page_elsewhere(wrong: bool) -> Scene {
    collapse(|s| s.leaf(if wrong { 6 } else { 5 }))
}

pub(crate) fn collapse_of_a_read_only_page(wrong: bool) -> Scene {
    collapse(|s| s.with(5, if wrong { READ_ONLY } else { A::RAM }))
}

/// The operation maps a page in a hole.
pub(crate) fn mapped_to_another_output_address(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let page = s.leaf(if wrong { 41 } else { 40 });
    s.begin("map", [s.change(40..41, Some(s.leaf(40)))]).put(40, page).publish().done();
    s
}

/// With DS=1 the bits of the shareability are bits 51:50 of the address.
pub(crate) fn shareability_in_the_address(wrong: bool) -> Scene {
    let mut s = Plan { geometry: K4_LPA2, ..Plan::pages(&[Core::STRONG]) }.scene();
    let (page, shareable) = (s.leaf(40), if wrong { A::INNER_SHAREABLE.bits() } else { 0 });
    let bits = s.bits(page) | shareable;
    s.begin("map", [s.change(40..41, Some(page))]).put_bits(40, bits).publish().done();
    s
}

/// CPU 0 has read page 0; CPU 1 makes it read-only; CPU 0 makes it guarded.
pub(crate) fn update_lost(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.cpu(1).protect(0);
    let was = s.with(0, if wrong { A::RAM } else { READ_ONLY });
    let new = Leaf { attributes: was.attributes | A::GUARDED, ..was };
    let guarded = s.change(0..1, Some(s.with(0, READ_ONLY | A::GUARDED)));
    s.cpu(0).begin("guard", [guarded]);
    s.put_over(0, was, new).flush(0..1).done();
    s
}

/// The first 512G, in the root, which must be tables.
pub(crate) fn block_at_a_level_without(wrong: bool) -> Scene {
    let mut s = Plan { geometry: K4_48, level: 1, count: 512, ..Plan::blocks(&[Core::STRONG]) }.scene();
    let table = s.table();
    s.begin("collapse", []);
    if wrong {
        s.put_above(s.bits(s.leaf(0)));
    } else {
        s.put_above(table | 0b11);
    }
    s.publish().done();
    s
}

pub(crate) fn page_without_bit_1(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let new = s.leaf(40);
    let bits = if wrong { s.bits(new) & !0b10 } else { s.bits(new) };
    s.begin("map", [s.change(40..41, Some(new))]).put_bits(40, bits).publish().done();
    s
}

/// A leaf is mapped, and perhaps has a bit more.
fn mapped_with(plan: Plan<'_>, bit: u64) -> Scene {
    let mut s = plan.scene();
    let new = s.leaf(40);
    let bits = s.bits(new) | bit;
    s.begin("map", [s.change(40..41, Some(new))]).put_bits(40, bits).publish().done();
    s
}

pub(crate) fn bit_below_the_address_of_a_block(wrong: bool) -> Scene {
    mapped_with(Plan::blocks(&[Core::STRONG]), if wrong { 1 << 17 } else { 0 })
}

pub(crate) fn bit_above_the_address_of_a_page(wrong: bool) -> Scene {
    mapped_with(Plan::pages(&[Core::STRONG]), if wrong { 1 << 48 } else { 0 })
}

pub(crate) fn run_of_the_largest_blocks(wrong: bool) -> Scene {
    let plan = Plan { geometry: K4_LPA2, level: 0, ..Plan::blocks(&[Core::STRONG]) };
    mapped_with(plan, if wrong { 1 << 52 } else { 0 })
}

pub(crate) fn guarded_as_a_page_is(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let link = s.child(0) | 0b11;
    s.begin("split", []).put_bits(0, if wrong { link | 1 << 50 } else { link }).publish().done();
    s
}

pub(crate) fn returns_from_what_it_did_not_begin(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.begin("nothing", []).cpu(if wrong { 1 } else { 0 }).done();
    s
}

pub(crate) fn cpu_that_is_not_there(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.event(Event::Isb { cpu: if wrong { 2 } else { 1 } });
    s
}
