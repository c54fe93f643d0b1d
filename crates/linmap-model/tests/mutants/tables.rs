//! Table pages: taken, linked, unlinked, given back.

use linmap::Pa;
use linmap::arch::{Descriptor, Leaf};
use linmap_model::{Barrier::*, Core, Register, Tlb::*};

use crate::scene::{Plan, Scene};

/// The table of pages is taken out of the map, and walkers know.
fn unlinked() -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst);
    s
}

pub(crate) fn freed_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = unlinked();
    let table = s.table();
    s.in_order(!wrong, |s| s.tlbi_all(Vmalle1is).dsb(Ish).isb(), |s| s.free(table)).done();
    s
}

pub(crate) fn freed_before_the_dsb(wrong: bool) -> Scene {
    let mut s = unlinked();
    let table = s.table();
    s.tlbi_all(Vmalle1is);
    s.in_order(!wrong, |s| s.dsb(Ish).isb(), |s| s.free(table)).done();
    s
}

pub(crate) fn freed_after_a_last_level_tlbi(wrong: bool) -> Scene {
    let mut s = unlinked();
    let (table, op) = (s.table(), if wrong { Rvaale1is } else { Rvaae1is });
    s.tlbi_with(op, s.range(32)).dsb(Ish).isb().free(table).done();
    s
}

pub(crate) fn freed_after_a_local_tlbi(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let table = s.table();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst);
    s.tlbi_all(if wrong { Vmalle1 } else { Vmalle1is }).dsb(Ish).isb().free(table).done();
    s
}

pub(crate) fn freed_while_reachable(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let table = s.table();
    s.begin("unmap", [s.change(0..32, None)]);
    if wrong {
        for i in 0..32 {
            s.clear(i);
        }
    } else {
        s.put_above(0);
    }
    s.flush(0..32).free(table).done();
    s
}

pub(crate) fn reused_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = unlinked();
    let table = s.table();
    s.in_order(!wrong, |s| s.tlbi_all(Vmalle1is).dsb(Ish).isb(), |s| s.write(table, 0, 0, 512, 0));
    s.done().free(table);
    s
}

/// The table that a block replaced.
pub(crate) fn collapsed_table_freed_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = Scene::full_table(&[Core::STRONG]);
    let (table, block) = (s.table(), s.block_above());
    s.begin("collapse", []).put_above(block).dsb(Ishst);
    if !wrong {
        s.tlbi(Vaae1is, 0).dsb(Ish);
    }
    s.isb().free(table).done();
    s
}

pub(crate) fn freed_twice(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let table = s.alloc();
    s.free(table);
    if wrong {
        s.free(table);
    }
    s
}

pub(crate) fn written_after_it_was_freed(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let table = s.alloc();
    s.in_order(!wrong, |s| s.write(table, 0, 0, 512, 0), |s| s.free(table));
    s
}

pub(crate) fn not_given_back(wrong: bool) -> Scene {
    let mut s = unlinked();
    let table = s.table();
    s.tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    if !wrong {
        s.free(table);
    }
    s
}

/// Two tables go at once; the TLBI is for the addresses of the first.
pub(crate) fn freed_after_the_tlbi_of_another(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (first, second, parent) = (s.child(0), s.child(1), s.table());
    s.begin("split", []).link(0, first).link(1, second).publish().done();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst);
    if wrong {
        s.tlbi(Vaae1is, 0);
    } else {
        s.tlbi(Vaae1is, 0).tlbi(Vaae1is, 1);
    }
    s.dsb(Ish).isb().free(first).free(second).free(parent);
    s.tlbi_all(Vmalle1is).dsb(Ish).isb().done();
    s
}

/// The 1:1 map is given back: the CPU has loaded another table, and nothing of it is in the TLB.
pub(crate) fn freed_while_loaded(wrong: bool) -> Scene {
    let page = Plan::pages(&[Core::STRONG]);
    let leaf = Leaf { oa: Pa(0x8000_0000), ..page.leaf };
    let mut s = Plan { va: Some(0x8000_0000), leaf, ..page }.scene();
    if !wrong {
        s.msr(Register::Ttbr0, s.empty).isb();
    }
    s.forget();
    for table in s.tree.tables.clone() {
        s.free(table);
    }
    s
}

/// Many stores in one event, into a table that no CPU has loaded yet.
pub(crate) fn stored_in_a_row_into_a_live_table(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).unloaded();
    let (table, page) = (s.table(), s.bits(s.leaf(32)));
    s.begin("map", [s.change(32..64, Some(s.leaf(32)))]);
    s.in_order(!wrong, |s| s.write(table, 32, page, 32, 4096).dsb(Ishst), |s| s.load()).isb().done();
    s
}

/// A table below two slots: the model has one place for each.
pub(crate) fn linked_twice(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (first, second) = (s.child(0), s.child(1));
    s.begin("split", []).link(0, first).link(1, if wrong { first } else { second }).publish().done();
    s
}

/// A tree that no CPU has loaded is announced, and one of its tables is there twice.
pub(crate) fn twice_in_a_tree_that_is_not_loaded(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let [root, child] = [s.alloc(), s.alloc()];
    let table = Descriptor::table(Pa(child), s.g).0;
    s.begin_at(root, "announce", []).write(child, 0, 0, 512, 0).write(root, 0, 0, 512, 0);
    s.write(root, 7, table, if wrong { 2 } else { 1 }, 0).dsb(Ishst).isb().done();
    s.free(root).free(child);
    s
}
