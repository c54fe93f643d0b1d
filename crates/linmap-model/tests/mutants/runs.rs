//! Contiguous runs: whole, uniform, and with one output range.

use linmap::arch::Leaf;
use linmap_model::{Barrier, Core, Tlb};

use crate::scene::{Plan, READ_ONLY, Scene};

/// Pages 0 to 3 of a run become read-only.
pub(crate) fn partly_changed(wrong: bool) -> Scene {
    let mut s = Scene::runs(&[Core::STRONG]);
    let new = Leaf { contiguous: wrong, ..s.with(0, READ_ONLY) };
    s.begin("protect", [s.change(0..4, Some(new))]);
    if !wrong {
        for i in 0..16 {
            s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
        }
        s.dsb(Barrier::Ishst);
    }
    for i in 0..4 {
        s.put(i, Leaf { oa: s.leaf(i).oa, ..new });
    }
    s.flush(0..4).done();
    s
}

/// A run is dissolved, and page 3 becomes read-only: after a DSB, or before the walkers of the other CPU are sure to
/// see that there is no run any more.
pub(crate) fn changed_before_it_is_seen_dissolved(wrong: bool) -> Scene {
    let mut s = Scene::runs(&[Core::STRONG, Core::STRONG]);
    let page = Leaf { contiguous: false, ..s.with(3, READ_ONLY) };
    s.begin("protect", [s.change(3..4, Some(page))]);
    for i in 0..16 {
        s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
    }
    // A barrier for this CPU alone orders nothing for the walkers of the other one.
    s.dsb(if wrong { Barrier::Nsh } else { Barrier::Ishst });
    s.put(3, page).flush(3..4).done();
    s
}

/// The page changes, and then the run is dissolved.
pub(crate) fn changed_before_it_is_dissolved(wrong: bool) -> Scene {
    let mut s = Scene::runs(&[Core::STRONG]);
    let page = Leaf { contiguous: false, ..s.with(3, READ_ONLY) };
    s.begin("protect", [s.change(3..4, Some(page))]);
    s.in_order(
        !wrong,
        |s| {
            for i in (0..16).filter(|&i| i != 3) {
                s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
            }
            s.put(3, Leaf { contiguous: false, ..s.leaf(3) }).dsb(Barrier::Ishst)
        },
        |s| s.put(3, page),
    );
    s.flush(3..4).done();
    s
}

/// A page becomes like the others, and all of them a run, with a DSB in between or without.
pub(crate) fn joined_before_all_say_the_same(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.protect(3);
    let like_others = s.leaf(3);
    s.begin("join", [s.change(3..4, Some(like_others))]).put(3, like_others);
    if !wrong {
        s.dsb(Barrier::Ishst);
    }
    for i in 0..16 {
        s.put(i, Leaf { contiguous: true, ..s.leaf(i) });
    }
    s.flush(0..16).done();
    s
}

/// A CPU protects a page, and another one gives a page far from it the contiguous bit.
pub(crate) fn member_stored_by_another_cpu(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let new = s.with(14, READ_ONLY);
    s.begin("protect", [s.change(14..15, Some(new))]).put(14, new);
    s.cpu(1);
    s.put(0, Leaf { contiguous: wrong, ..s.leaf(0) });
    s.cpu(0).flush(14..15).done();
    s
}

/// The same, and the page becomes a hole: the member's translation is allowed until the operation returns.
pub(crate) fn member_stored_beside_a_hole(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.begin("unmap", [s.change(14..15, None)]).clear(14);
    s.cpu(1);
    s.put(0, Leaf { contiguous: wrong, ..s.leaf(0) });
    s.cpu(0).flush(14..15).done();
    s
}

/// A page is mapped far from others, and no operation that returns is about its run.
pub(crate) fn member_among_holes(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let new = Leaf { contiguous: wrong, ..s.leaf(40) };
    s.begin("map", [s.change(40..41, Some(new))]).put(40, new);
    s.cpu(1).protect(0);
    s.cpu(0).publish().done();
    s
}

/// Another operation is about to change a page of the run, but it will not be what this one says.
pub(crate) fn member_beside_an_open_operation(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let new = Leaf { contiguous: wrong, ..s.with(2, READ_ONLY) };
    s.cpu(1);
    s.begin("unmap", [s.change(0..1, None)]);
    s.cpu(0);
    s.begin("protect", [s.change(2..3, Some(new))]).put(2, new).flush(2..3).done();
    s.cpu(1).clear(0).flush(0..1).done();
    s
}

/// A run is dissolved by one operation while another changes one of its pages; that one may return.
pub(crate) fn dissolved_beside_another_operation(wrong: bool) -> Scene {
    let mut s = Scene::runs(&[Core::STRONG; 2]);
    s.cpu(1).begin("dissolve", []);
    for i in 0..8 {
        s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
    }
    s.cpu(0);
    s.begin("nothing", [s.change(14..15, Some(s.leaf(14)))]).done();
    s.cpu(1);
    for i in 8..if wrong { 15 } else { 16 } {
        s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
    }
    s.publish().done();
    s
}

/// A block of a run becomes a table: the others are a run no more.
pub(crate) fn block_of_a_run_split(wrong: bool) -> Scene {
    let mut s = Plan { level: 2, ..Plan::runs(&[Core::STRONG]) }.scene();
    let child = s.child(3);
    s.begin("split", []);
    for i in 0..if wrong { 0 } else { 16 } {
        s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
    }
    s.link(3, child).publish().done();
    s
}

/// One page of a run becomes a hole, or all do.
pub(crate) fn partly_unmapped(wrong: bool) -> Scene {
    let mut s = Scene::runs(&[Core::STRONG]);
    let holes = if wrong { 1 } else { 16 };
    s.begin("unmap", [s.change(0..holes, None)]);
    for i in 0..holes {
        s.clear(i);
    }
    s.flush(0..16).done();
    s
}

/// The bit is cleared in one member, or in all.
pub(crate) fn dissolved_in_part(wrong: bool) -> Scene {
    let mut s = Scene::runs(&[Core::STRONG]);
    s.begin("dissolve", []);
    for i in 0..if wrong { 1 } else { 16 } {
        s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
    }
    s.flush(0..16).done();
    s
}

/// Behind the others, slots 32 to 47 are mapped so.
fn mapped_after(mut s: Scene, page: impl Fn(&Scene, usize) -> Leaf) -> Scene {
    let pages: Vec<(usize, Leaf)> = (32..48).map(|i| (i, page(&s, i))).collect();
    let changes = pages.iter().map(|&(i, page)| s.change(i..i + 1, Some(page)));
    s.begin("map", changes.collect::<Vec<_>>());
    for (i, page) in pages {
        s.put(i, page);
    }
    s.publish().done();
    s
}

/// The second half goes elsewhere; that is fine if the pages are no run.
pub(crate) fn of_two_output_ranges(wrong: bool) -> Scene {
    let page = |s: &Scene, i: usize| s.leaf(if i < 40 { i } else { i + 100 });
    mapped_after(Scene::runs(&[Core::STRONG]), |s, i| Leaf { contiguous: wrong, ..page(s, i) })
}

pub(crate) fn one_member_without_the_bit(wrong: bool) -> Scene {
    let last = if wrong { 47 } else { 48 };
    mapped_after(Scene::runs(&[Core::WEAK]), |s, i| Leaf { contiguous: i < last, ..s.leaf(i) })
}

/// The output does not start at a multiple of 64K.
pub(crate) fn output_not_aligned(wrong: bool) -> Scene {
    mapped_after(Scene::runs(&[Core::STRONG]), |s, i| s.leaf(if wrong { i + 1 } else { i }))
}

/// All but one lose the contiguous bit, and all addresses are invalidated.
fn dissolve_but(s: &mut Scene, but: usize) -> &mut Scene {
    for i in (0..16).filter(|&i| i != but) {
        s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
    }
    s.flush(0..16)
}

/// A CPU unmaps a block of a run, and another one maps pages elsewhere in its place; the run is dissolved before that, or
/// afterwards.
pub(crate) fn block_moved_beside_its_run(wrong: bool) -> Scene {
    let mut s = Plan { level: 2, ..Plan::runs(&[Core::STRONG; 2]) }.scene();
    let elsewhere = Leaf { contiguous: false, ..s.leaf(100) };
    let child = s.alloc();
    s.fill_child(child, elsewhere).dsb(Barrier::Ishst);
    let (map, unmap) = (s.change(3..4, Some(elsewhere)), s.change(3..4, None));
    s.begin("map", [map]).cpu(1).begin("unmap", [unmap]);
    s.clear(3).flush(3..4);
    s.in_order(!wrong, |s| dissolve_but(s.cpu(1), 3), |s| s.cpu(0).link(3, child));
    s.cpu(0).flush(0..16);
    s.cpu(1).flush(0..16).done();
    s.cpu(0).publish().done();
    s
}

/// A page goes, and then the table with the other members of its run, which TLBs may have taken for its address since.
pub(crate) fn table_unlinked_with_a_hole_in_a_run(wrong: bool) -> Scene {
    let mut s = Plan { count: 512, ..Plan::runs(&[Core::STRONG]) }.scene();
    let table = s.table();
    s.begin("unmap", [s.change(0..512, None)]).clear(3).flush(3..4);
    s.put_above(0).dsb(Barrier::Ishst);
    for page in (0..512).filter(|&page| !wrong || page != 3) {
        s.tlbi(Tlb::Vaae1is, page);
    }
    s.dsb(Barrier::Ish).isb().done().free(table);
    s
}
