//! Pages of data that are given to another owner: unmapped by then, for every CPU and every address.

use linmap::arch::Leaf;
use linmap_model::{Access, Barrier::*, Core, Event, Tlb::*};

use crate::scene::{Plan, Scene};

const PAGE: u64 = 4096;

/// The memory of some slots is given away.
fn give(s: &mut Scene, slot: usize, slots: u64) -> &mut Scene {
    let pa = s.leaf(slot).oa.0;
    s.event(Event::Give { cpu: 0, pa, bytes: slots * PAGE })
}

fn take(s: &mut Scene, slot: usize, slots: u64) -> &mut Scene {
    let pa = s.leaf(slot).oa.0;
    s.event(Event::Take { cpu: 0, pa, bytes: slots * PAGE })
}

/// Page 0 is unmapped, and given away after so many of the steps that invalidate it.
fn given_after(cores: &[Core], steps: usize) -> Scene {
    let mut s = Scene::pages(cores);
    s.begin("unmap", [s.change(0..1, None)]).clear(0);
    let all: [&dyn Fn(&mut Scene); 4] =
        [&|s| _ = s.dsb(Ishst), &|s| _ = s.tlbi(Vaae1is, 0), &|s| _ = s.dsb(Ish), &|s| _ = s.isb()];
    all[..steps].iter().for_each(|step| step(&mut s));
    give(&mut s, 0, 1);
    all[steps..].iter().for_each(|step| step(&mut s));
    s.done();
    s
}

pub(crate) fn before_the_tlbi(wrong: bool) -> Scene {
    given_after(&[Core::STRONG; 2], if wrong { 1 } else { 4 })
}

pub(crate) fn before_the_dsb(wrong: bool) -> Scene {
    given_after(&[Core::STRONG; 2], if wrong { 2 } else { 4 })
}

pub(crate) fn before_the_isb(wrong: bool) -> Scene {
    given_after(&[Core::STRONG; 2], if wrong { 3 } else { 4 })
}

pub(crate) fn after_a_local_tlbi(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst);
    s.tlbi(if wrong { Vaae1 } else { Vaae1is }, 0).dsb(Ish).isb();
    give(&mut s, 0, 1).done();
    s
}

pub(crate) fn without_a_dsb_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(if wrong { Nsh } else { Ishst });
    s.tlbi(Vaae1is, 0).dsb(Ish).isb();
    give(&mut s, 0, 1).done();
    s
}

/// Slot 40 has the same page.
pub(crate) fn mapped_a_second_time(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.map(40, s.leaf(0));
    s.unmap(0);
    if !wrong {
        s.unmap(40);
    }
    give(&mut s, 0, 1);
    s
}

/// A tree of the lower half has the page, too.
pub(crate) fn mapped_in_another_tree(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG; 2]);
    let mut s = plan.scene();
    s.unmap(0);
    s.tree = s.create(Plan { va: Some(0), ..plan });
    s.cpu(1).load().cpu(0);
    if !wrong {
        s.unmap(0);
    }
    give(&mut s, 0, 1);
    s
}

/// The middle of a block.
pub(crate) fn within_a_block(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    s.unmap(if wrong { 1 } else { 0 });
    let pa = s.leaf(0).oa.0 + 5 * PAGE;
    s.event(Event::Give { cpu: 0, pa, bytes: 3 * PAGE });
    s
}

/// Page 3 of a run becomes a hole, and the others are members for a while.
pub(crate) fn while_its_run_is_one(wrong: bool) -> Scene {
    let mut s = Scene::runs(&[Core::STRONG]);
    s.begin("unmap", [s.change(3..4, None)]).clear(3).flush(3..4);
    s.in_order(
        !wrong,
        |s| {
            for i in (0..16).filter(|&i| i != 3) {
                s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
            }
            s.flush(0..16)
        },
        |s| give(s, 3, 1),
    );
    s.done();
    s
}

/// The page goes with its table, of which TLBs have leaves.
pub(crate) fn with_its_table(wrong: bool) -> Scene {
    let mut s = Scene::full_table(&[Core::STRONG]);
    let table = s.table();
    s.begin("unmap", [s.change(0..512, None)]).put_above(0).dsb(Ishst);
    // One for walk caches, or one for each page.
    s.tlbi(Vaae1is, 0);
    for page in 1..if wrong { 7 } else { 512 } {
        s.tlbi(Vaae1is, page);
    }
    s.dsb(Ish).isb();
    give(&mut s, 7, 1);
    s.tlbi_all(Vmalle1is).dsb(Ish).isb().done().free(table);
    s
}

pub(crate) fn mapped_before_it_is_taken_back(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.unmap(0);
    give(&mut s, 0, 1);
    if !wrong {
        take(&mut s, 0, 1);
    }
    s.map(40, s.leaf(0));
    s
}

/// Three pages go, and two of them come back.
pub(crate) fn mapped_with_one_that_is_not_taken_back(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    s.unmap(0);
    give(&mut s, 0, 3);
    take(&mut s, 0, if wrong { 2 } else { 3 });
    s.map(0, s.leaf(0));
    s
}

/// A tree that no CPU has loaded until then.
pub(crate) fn loaded_before_it_is_taken_back(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG; 2]);
    let mut s = plan.scene();
    s.unmap(0);
    give(&mut s, 0, 1);
    s.tree = s.create(Plan { va: Some(0), ..plan });
    s.in_order(!wrong, |s| take(s, 0, 1), |s| s.load());
    s
}

pub(crate) fn table_page_in_use(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let table = s.alloc();
    s.in_order(!wrong, |s| s.free(table), |s| s.event(Event::Give { cpu: 0, pa: table, bytes: PAGE }));
    s
}

pub(crate) fn given_twice(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.unmap(0).unmap(1);
    give(&mut s, 0, 1);
    give(&mut s, if wrong { 0 } else { 1 }, 1);
    s
}

pub(crate) fn taken_and_not_given(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.unmap(0).unmap(1);
    give(&mut s, 0, 1);
    take(&mut s, 0, if wrong { 2 } else { 1 });
    s
}

/// CPU 1 turns its MMU off and writes to a page by its physical address.
pub(crate) fn written_with_translation_off(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.unmap(0);
    give(&mut s, 0, 1);
    let va = s.leaf(if wrong { 0 } else { 1 }).oa.0;
    s.cpu(1).off().event(Event::Access { cpu: 1, va, how: Access::Write });
    s
}
