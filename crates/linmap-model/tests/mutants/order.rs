//! The order in which walkers see stores, and walks that find the old entry of one level and the new one of another.

use linmap::arch::{Descriptor, Level};
use linmap::{Attributes, Pa};
use linmap_model::{Barrier::*, Core, Register, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene};

/// The table of pages of a scene is replaced by another with the same contents, by the CPU that acts.
fn replaced(s: &mut Scene) -> u64 {
    let (new, pages) = (s.alloc(), s.leaf(0));
    s.write(new, 0, 0, 512, 0).fill(new, Level::PAGE, 0..32, pages).dsb(Ishst);
    let link = Descriptor::table(Pa(new), s.g).0;
    s.begin("replace", []).put_above(link);
    new
}

/// Walk caches lead to the old table, in which there is a hole where a page was mapped since.
pub(crate) fn mapped_past_a_walk_cache(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let (old, new) = (s.table(), replaced(&mut s));
    let page = s.leaf(40);
    if wrong {
        s.publish();
    } else {
        s.flush(0..1);
    }
    s.done();
    s.begin("map", [s.change(40..41, Some(page))]);
    s.write(new, 40, s.bits(page), 1, 0).publish().done();
    s.flush(0..1).free(old);
    s
}

/// The same, and it is another CPU that maps the page: it does not know of the store that walkers may miss.
pub(crate) fn mapped_below_an_unseen_table(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let (old, new) = (s.table(), replaced(&mut s));
    let page = s.leaf(40);
    if !wrong {
        s.dsb(Ishst);
    }
    // Whichever CPU invalidates.
    s.cpu(1).tlbi(Vaae1is, 0).dsb(Ish).isb();
    s.begin("map", [s.change(40..41, Some(page))]);
    s.write(new, 40, s.bits(page), 1, 0).publish().done();
    s.cpu(0).flush(0..1).done().free(old);
    s
}

/// A table is replaced by a block, which maps what was a hole in it.
pub(crate) fn hole_becomes_part_of_a_block(wrong: bool) -> Scene {
    let mut s = Plan { count: 511, ..Plan::pages(&[Core::STRONG]) }.scene();
    let (table, block) = (s.table(), s.block_above());
    s.begin("map", [s.change(511..512, Some(s.leaf(511)))]).put_above(block).dsb(Ishst);
    s.tlbi(Vaae1is, 0).dsb(Ish);
    if !wrong {
        s.isb();
    }
    s.done().isb().free(table);
    s
}

/// A table goes with the table above it. The level hint leaves the way to the upper one in walk caches.
pub(crate) fn freed_while_the_table_above_is_walked(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, parent) = (s.child(0), s.table());
    s.begin("split", []).link(0, child).publish().done();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst);
    let hint = if wrong { s.hint(3) } else { 0 };
    s.tlbi_with(Vaae1is, s.address(0) | hint).dsb(Ish).isb().free(child);
    s.tlbi_all(Vmalle1is).dsb(Ish).isb().free(parent).done();
    s
}

/// The same in one batch: the invalidation of the lower table may act first.
pub(crate) fn freed_after_both_at_once(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, parent) = (s.child(0), s.table());
    s.begin("split", []).link(0, child).publish().done();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst).tlbi(Vaae1is, 1);
    if !wrong {
        s.dsb(Ish).isb();
    }
    s.tlbi_with(Vaae1is, s.address(0) | s.hint(3)).dsb(Ish).isb().free(child);
    s.tlbi_all(Vmalle1is).dsb(Ish).isb().free(parent).done();
    s
}

/// A table of pages moves to other addresses, and another CPU protects a page there.
pub(crate) fn changed_after_it_was_moved(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG; 2]);
    let child = s.child(0);
    s.begin("split", []).link(0, child).publish().done();
    let read_only = s.with(0, READ_ONLY);
    let page = s.change_at(s.va(32), 4096, Some(read_only));
    s.begin("move", [s.change(0..1, None), s.change(32..33, Some(s.leaf(0)))]);
    s.cpu(1).begin("protect", [page]).cpu(0).clear(0).link(32, child);
    if !wrong {
        s.flush(0..1);
    }
    let value = Descriptor::leaf(read_only, s.g, Level::PAGE).0;
    s.cpu(1).write(child, 0, value, 1, 0).dsb(Ishst);
    s.cpu(0).dsb(Ishst).tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    s.cpu(1).tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    s
}

/// A page is protected in the old table and in the new one. The store into the old one may not be seen yet, and walk
/// caches lead there.
pub(crate) fn old_page_seen_in_the_old_table(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let (old, new, pages, page) = (s.table(), s.alloc(), s.leaf(0), s.with(0, READ_ONLY));
    s.write(new, 0, 0, 512, 0).fill(new, Level::PAGE, 0..32, pages).dsb(Ishst);
    let (link, value) = (Descriptor::table(Pa(new), s.g).0, s.bits(page));
    s.begin("protect", [s.change(0..1, Some(page))]);
    s.cpu(1).put(0, page);
    if !wrong {
        s.dsb(Ishst);
    }
    s.cpu(0).put_above(link).write(new, 0, value, 1, 0);
    s.dsb(Ishst).tlbi(Vaale1is, 0).dsb(Ish).isb().done();
    s.flush(0..1).free(old);
    s
}

/// Two tables, which another CPU has filled, are linked at once into a tree that no CPU is on.
pub(crate) fn linked_in_a_row_before_they_are_seen(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG; 2]);
    let (root, empty) = (s.tree.tables[0], s.empty);
    for cpu in [0, 1] {
        s.cpu(cpu).msr(Register::Ttbr1, empty).isb().forget();
    }
    let (first, second) = (s.alloc(), s.alloc());
    assert_eq!(second - first, 4096, "side by side");
    s.cpu(1).write(first, 0, 0, 512, 0).write(second, 0, 0, 512, 0);
    if !wrong {
        s.dsb(Ishst);
    }
    let link = Descriptor::table(Pa(first), s.g).0;
    s.cpu(0).write(root, 8, link, 2, 4096).dsb(Ishst).forget().load();
    s
}

/// A page has its access flag set, without which it faulted.
pub(crate) fn access_flag_set_without_an_isb(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.map(40, s.with(40, Attributes::RAM - Attributes::ACCESSED));
    let page = s.leaf(40);
    s.begin("set", [s.change(40..41, Some(page))]).put(40, page).dsb(Ishst);
    if !wrong {
        s.isb();
    }
    s.done();
    s
}

/// A table is replaced, and then a page is protected by a TLBI of one ASID, with which table entries need not be cached.
pub(crate) fn protected_by_asid_past_an_old_table(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let (old, new) = (s.table(), replaced(&mut s));
    let page = s.with(0, READ_ONLY);
    s.publish().done();
    let value = s.bits(page);
    s.begin("protect", [s.change(0..1, Some(page))]).write(new, 0, value, 1, 0).dsb(Ishst);
    s.tlbi(if wrong { Vae1is } else { Vaae1is }, 0).dsb(Ish).isb().done();
    s.flush(0..1).free(old);
    s
}

/// A page is unmapped without a DSB in a table that goes. The TLBI for the page, of one CPU, may act before that of another
/// CPU for the way to the table, and the page comes back by that way.
pub(crate) fn page_dropped_before_the_way_to_it(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 3]);
    let table = s.table();
    s.begin("unmap", [s.change(0..32, None)]).cpu(2).clear(0).cpu(0).put_above(0).dsb(Ishst);
    let pages = s.range(32);
    s.in_order(
        !wrong,
        |s| s.cpu(1).tlbi(Vaae1is, 1).dsb(Ish).isb().cpu(0),
        |s| s.tlbi_with(Rvaale1is, pages),
    );
    s.dsb(Ish).isb().done().free(table);
    s
}
