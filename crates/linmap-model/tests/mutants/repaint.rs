//! A map is made anew, in pages beside the block that it was in, and CPUs go from one tree to the other.

use linmap::Pa;
use linmap::arch::{Descriptor, Level};
use linmap_model::{Barrier::*, Core, CpuId, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene, Tree};

/// One block of 2M, on two CPUs of which the second may abort.
const BLOCK: Plan<'static> = Plan { count: 1, ..Plan::blocks(&[Core::STRONG, Core::WEAK]) };
/// The same in pages. Nothing is announced of it: its translations are those of the block.
const PAGES: Plan<'static> = Plan { level: 3, count: 512, announced: false, ..BLOCK };

/// The CPUs go over to the second tree, parked meanwhile. The first one.
fn switch(s: &mut Scene, second: Tree, cpus: &[CpuId]) -> Tree {
    let first = std::mem::replace(&mut s.tree, second);
    s.parked(cpus, |s| s);
    first
}

fn free(s: &mut Scene, tree: &Tree) {
    for &table in &tree.tables {
        s.free(table);
    }
}

pub(crate) fn freed_before_all_have_left(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    let first = switch(&mut s, second, if wrong { &[0] } else { &[0, 1] });
    free(&mut s, &first);
    s
}

/// CPU 1 goes on in the block while a page of it changes.
pub(crate) fn changed_before_all_have_left(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    let first = switch(&mut s, second, if wrong { &[0] } else { &[0, 1] });
    s.protect(3);
    if !wrong {
        free(&mut s, &first);
    }
    s
}

/// CPU 1 comes back on the tree that it was parked off.
pub(crate) fn one_comes_back_on_the_old_tree(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    for cpu in [0, 1] {
        s.cpu(cpu).park().forget();
    }
    let first = std::mem::replace(&mut s.tree, second);
    s.cpu(0).load().unpark().cpu(1);
    if wrong {
        let second = std::mem::replace(&mut s.tree, first.clone());
        s.load();
        s.tree = second;
    } else {
        s.load();
    }
    s.unpark().cpu(0).protect(3);
    free(&mut s, &first);
    s
}

pub(crate) fn never_given_back(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    let first = switch(&mut s, second, &[0, 1]);
    if !wrong {
        free(&mut s, &first);
    }
    s
}

/// The root and what is below it but one table.
pub(crate) fn given_back_but_for_a_table(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    let mut first = switch(&mut s, second, &[0, 1]);
    if wrong {
        first.tables.pop();
    }
    free(&mut s, &first);
    s
}

/// A page became read-only when the second tree had been built.
pub(crate) fn without_the_last_change(wrong: bool) -> Scene {
    let mut s = Plan { count: 32, ..Plan::pages(BLOCK.cores) }.scene();
    let second = s.create(Plan { announced: false, ..Plan::pages(BLOCK.cores) });
    s.protect(3);
    let first = switch_with(&mut s, second, |s| if wrong { s } else { s.put_as(3, READ_ONLY).dsb(Ishst) });
    free(&mut s, &first);
    s
}

fn switch_with(s: &mut Scene, second: Tree, last: impl FnOnce(&mut Scene) -> &mut Scene) -> Tree {
    let first = std::mem::replace(&mut s.tree, second);
    last(s);
    s.parked(&[0, 1], |s| s);
    first
}

pub(crate) fn with_a_page_missing(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    let first = switch_with(&mut s, second, |s| if wrong { s.clear(5).dsb(Ishst) } else { s });
    free(&mut s, &first);
    s
}

pub(crate) fn without_a_dsb(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    let page = s.leaf(0);
    let first = switch_with(&mut s, second, |s| {
        s.put(0, page);
        if wrong { s } else { s.dsb(Ishst) }
    });
    free(&mut s, &first);
    s
}

/// TLBs drop the block before the pages come.
pub(crate) fn with_the_block_in_the_tlb(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    for cpu in [0, 1] {
        s.cpu(cpu).park();
        if !(wrong && cpu == 1) {
            s.forget();
        }
    }
    let first = std::mem::replace(&mut s.tree, second);
    for cpu in [0, 1] {
        s.cpu(cpu).load().unpark();
    }
    free(s.cpu(0), &first);
    s
}

/// Stores the entry of the second tree's root into the first, which stays where it is.
fn store_root(s: &mut Scene, second: &Tree) {
    let (root, index) = (s.tree.tables[0], s.g.index(s.tree.va, s.g.root()));
    s.write(root, index, Descriptor::table(Pa(second.tables[1]), s.g).0, 1, 0);
}

/// The old tree is the second root and all but the first one from here on.
fn end_in_place(s: &mut Scene, second: Tree) {
    let first = std::mem::replace(&mut s.tree.tables, second.tables);
    let unused = std::mem::replace(&mut s.tree.tables[0], first[0]);
    s.free(unused);
    for &table in &first[1..] {
        s.free(table);
    }
}

/// The root stays; CPUs that park are away while its entry is stored.
fn in_place(plan: Plan<'_>, second: Plan<'_>, parked: &[CpuId]) -> Scene {
    let mut s = plan.scene();
    let second = s.create(second);
    s.begin("repaint", []);
    s.parked(parked, |s| {
        store_root(s, &second);
        s.dsb(Ishst)
    });
    s.tlbi_all(Vmalle1is).dsb(Ish).isb();
    end_in_place(&mut s, second);
    s.done();
    s
}

/// CPU 0 never aborts and stays on the map.
pub(crate) fn in_place_under_a_cpu_that_may_abort(wrong: bool) -> Scene {
    in_place(BLOCK, PAGES, if wrong { &[] } else { &[1] })
}

/// A root with a block of 1G.
pub(crate) fn in_place_of_a_leaf_of_the_root(wrong: bool) -> Scene {
    let block = Plan { level: 1, ..BLOCK };
    let second = Plan { level: 2, count: 512, announced: false, ..block };
    in_place(block, second, if wrong { &[0] } else { &[0, 1] })
}

/// CPU 1 keeps what its TLB has, and comes back to the root that it left.
pub(crate) fn in_place_with_the_block_in_the_tlb(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    s.begin("repaint", []);
    for cpu in [0, 1] {
        s.cpu(cpu).park();
        if !(wrong && cpu == 1) {
            s.forget();
        }
    }
    store_root(s.cpu(0), &second);
    s.dsb(Ishst);
    for cpu in [0, 1] {
        s.cpu(cpu).load().unpark();
    }
    end_in_place(s.cpu(0), second);
    s.done();
    s
}

/// CPU 1 comes back, and its walker may not see the store.
pub(crate) fn in_place_released_before_the_dsb(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    s.begin("repaint", []);
    for cpu in [0, 1] {
        s.cpu(cpu).park().forget();
    }
    store_root(s.cpu(0), &second);
    s.in_order(!wrong, |s| s.dsb(Ishst), |s| s.cpu(1).load().unpark().cpu(0));
    s.load().unpark();
    end_in_place(&mut s, second);
    s.done();
    s
}

/// A CPU that never aborts stays, and nothing drops what it knows of the old tables.
pub(crate) fn in_place_without_a_tlbi(wrong: bool) -> Scene {
    let mut s = Plan { cores: &[Core::STRONG], ..BLOCK }.scene();
    let second = s.create(PAGES);
    s.begin("repaint", []);
    store_root(&mut s, &second);
    s.dsb(Ishst);
    if !wrong {
        s.tlbi_all(Vmalle1is);
    }
    s.dsb(Ish).isb();
    end_in_place(&mut s, second);
    s.done();
    s
}

/// The entries of the new tables are stored, and walkers may not see them when the root leads there.
pub(crate) fn in_place_before_the_tables_are_visible(wrong: bool) -> Scene {
    let mut s = BLOCK.scene();
    let second = s.create(PAGES);
    let page = s.leaf(0);
    let bits = Descriptor::leaf(page, s.g, Level::PAGE).0;
    s.begin("repaint", []).write(second.tables[2], 0, bits, 1, 0);
    s.parked(&[0, 1], |s| {
        if !wrong {
            s.dsb(Ishst);
        }
        store_root(s, &second);
        s.dsb(Ishst)
    });
    end_in_place(&mut s, second);
    s.done();
    s
}
