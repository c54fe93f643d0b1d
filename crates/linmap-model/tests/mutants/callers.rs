//! Several callers at once: what one has stored and not invalidated yet, what is pinned, and readers without a lock.

use linmap::Attributes;
use linmap::arch::Leaf;
use linmap_model::{Barrier::*, Core, Event, Tlb::*};

use crate::scene::{K4, Plan, READ_ONLY, Scene};

/// Two CPUs and a table full of pages. CPU 0 acts.
fn full() -> Scene {
    Scene::full_table(&[Core::STRONG; 2])
}

/// CPU 1 makes page 3 read-only, up to its store.
fn stored_by_cpu_1(s: &mut Scene) {
    let to = s.with(3, READ_ONLY);
    let change = s.change(3..4, Some(to));
    s.cpu(1).begin("protect", [change]).put(3, to).cpu(0);
}

/// CPU 1 invalidates page 3, and returns.
fn flushed_by_cpu_1(s: &mut Scene) -> &mut Scene {
    s.cpu(1).flush(3..4).done().cpu(0)
}

/// CPU 0 protects page 3, and finds that it is done.
fn finds_it_done(s: &mut Scene) -> &mut Scene {
    s.begin("protect", [s.change(3..4, Some(s.with(3, READ_ONLY)))]).done()
}

pub(crate) fn returns_before_the_tlbi_of_another(wrong: bool) -> Scene {
    let mut s = full();
    stored_by_cpu_1(&mut s);
    s.in_order(!wrong, flushed_by_cpu_1, finds_it_done);
    s
}

pub(crate) fn returns_before_the_dsb_of_another(wrong: bool) -> Scene {
    let mut s = full();
    stored_by_cpu_1(&mut s);
    s.cpu(1).dsb(Ishst).tlbi(Vaae1is, 3).cpu(0);
    s.in_order(!wrong, |s| s.cpu(1).dsb(Ish).isb().done().cpu(0), finds_it_done);
    s
}

/// Page 3 was read-only, and CPU 1 makes it as all others are, up to its store.
fn uniform_but_for_the_tlbi() -> Scene {
    let mut s = full();
    s.protect(3);
    let (to, change) = (s.leaf(3), s.change(3..4, Some(s.leaf(3))));
    s.cpu(1).begin("protect", [change]).put(3, to).cpu(0);
    s
}

/// CPU 0 collapses the table, and gives it back.
fn collapsed(s: &mut Scene) -> &mut Scene {
    let (table, block) = (s.table(), s.block_above());
    s.begin("collapse", []).put_above(block).dsb(Ishst).tlbi_all(Vmalle1is).dsb(Ish).isb();
    s.free(table).done()
}

pub(crate) fn merged_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = uniform_but_for_the_tlbi();
    s.in_order(!wrong, flushed_by_cpu_1, collapsed);
    s
}

/// The table of 512 blocks becomes a block; CPU 1 has made the first of them a block before.
pub(crate) fn merged_before_the_tlbi_of_a_table(wrong: bool) -> Scene {
    let mut s = Plan { count: 512, ..Plan::blocks(&[Core::STRONG; 2]) }.scene();
    let (child, block) = (s.child(0), s.leaf(0));
    s.begin("split", []).link(0, child).flush(0..1).done();
    s.cpu(1).begin("collapse", []).put(0, block).cpu(0);
    s.in_order(!wrong, |s| s.cpu(1).flush(0..1).free(child).done().cpu(0), collapsed);
    s
}

pub(crate) fn run_formed_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = uniform_but_for_the_tlbi();
    s.cpu(1).dsb(Ishst).cpu(0);
    s.in_order(!wrong, flushed_by_cpu_1, |s| {
        s.begin("collapse", []);
        for i in 0..16 {
            s.put(i, Leaf { contiguous: true, ..s.leaf(i) });
        }
        s.flush(0..16).done()
    });
    s
}

pub(crate) fn retyped_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = full();
    let hole = s.change(3..4, None);
    s.cpu(1).begin("unmap", [hole]).clear(3).cpu(0);
    let device = s.with(3, Attributes::DEVICE);
    s.in_order(!wrong, flushed_by_cpu_1, |s| s.map(3, device));
    s
}

/// CPU 1 unmaps all pages of the table but the first, and CPU 0 that and the table.
pub(crate) fn freed_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let (table, holes) = (s.table(), s.change(1..32, None));
    s.cpu(1).begin("unmap", [holes]);
    for page in 1..32 {
        s.clear(page);
    }
    s.cpu(0);
    s.in_order(
        !wrong,
        |s| s.cpu(1).flush(1..32).done().cpu(0),
        |s| s.begin("unmap", [s.change(0..1, None)]).put_above(0).flush(0..1).free(table).done(),
    );
    s
}

/// CPU 0 makes page 3 what it says, and leaves the invalidation for later.
fn left_by_cpu_0(s: &mut Scene, to: Leaf) {
    let change = s.change(3..4, Some(to)).invalidated_later();
    s.begin("protect", [change]).put(3, to).publish().done();
}

/// CPU 0 flushes page 3.
fn flushed(s: &mut Scene, to: Leaf) -> &mut Scene {
    let change = s.change(3..4, Some(to));
    s.begin("flush", [change]).flush(3..4).done()
}

pub(crate) fn returns_before_what_was_left(wrong: bool) -> Scene {
    let mut s = full();
    let to = s.with(3, READ_ONLY);
    left_by_cpu_0(&mut s, to);
    s.cpu(1).in_order(!wrong, |s| flushed(s, s.with(3, READ_ONLY)), finds_it_done);
    s
}

/// Page 3 was read-only, and is as all others again.
fn uniform_but_for_what_was_left() -> Scene {
    let mut s = full();
    s.protect(3);
    let to = s.leaf(3);
    left_by_cpu_0(&mut s, to);
    s
}

pub(crate) fn merged_before_what_was_left(wrong: bool) -> Scene {
    let mut s = uniform_but_for_what_was_left();
    s.in_order(!wrong, |s| flushed(s, s.leaf(3)), collapsed);
    s
}

pub(crate) fn run_formed_before_what_was_left(wrong: bool) -> Scene {
    let mut s = uniform_but_for_what_was_left();
    s.cpu(1).in_order(
        !wrong,
        |s| flushed(s, s.leaf(3)),
        |s| {
            s.begin("collapse", []);
            for i in 0..16 {
                s.put(i, Leaf { contiguous: true, ..s.leaf(i) });
            }
            s.flush(0..16).done()
        },
    );
    s
}

/// Page 3 is invalid, and becomes a device's.
pub(crate) fn retyped_before_what_was_left(wrong: bool) -> Scene {
    let mut s = full();
    let kept = Leaf { valid: false, ..s.leaf(3) };
    left_by_cpu_0(&mut s, kept);
    let device = s.with(3, Attributes::DEVICE);
    s.in_order(!wrong, |s| flushed(s, kept), |s| s.map(3, device));
    s
}

fn begins_to_read(s: &mut Scene) -> &mut Scene {
    s.event(Event::ReadBegin { cpu: 1 })
}

fn has_read(s: &mut Scene) -> &mut Scene {
    s.event(Event::ReadEnd { cpu: 1 })
}

/// CPU 0 takes the table of pages out of the map, and invalidates.
fn unlinked(s: &mut Scene) -> &mut Scene {
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst).tlbi_all(Vmalle1is).dsb(Ish).isb()
}

/// Who begins to read when the table is out cannot come to it.
pub(crate) fn freed_under_a_reader(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let table = s.table();
    begins_to_read(&mut s);
    unlinked(&mut s);
    s.in_order(!wrong, |s| begins_to_read(has_read(s)), |s| s.free(table));
    has_read(&mut s).done();
    s
}

/// A page that was never in a tree can be given back at any time.
pub(crate) fn freed_under_a_nested_reader(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let (table, other) = (s.table(), s.alloc());
    begins_to_read(begins_to_read(&mut s)).free(other);
    unlinked(&mut s);
    has_read(&mut s).in_order(!wrong, has_read, |s| s.free(table)).done();
    s
}

pub(crate) fn written_under_a_reader(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let table = s.table();
    begins_to_read(&mut s);
    unlinked(&mut s).done();
    s.in_order(!wrong, has_read, |s| s.write(table, 0, 0, 512, 0));
    s.free(table);
    s
}

/// Where no CPU walks the tree there is nothing to invalidate, but CPU 1 will go on with its reading.
pub(crate) fn unlinked_while_parked_and_freed_under_a_reader(wrong: bool) -> Scene {
    let mut s = full();
    let (table, block) = (s.table(), s.block_above());
    begins_to_read(&mut s);
    s.begin("collapse", []).parked(&[0, 1], |s| s.put_above(block).dsb(Ishst)).isb();
    s.in_order(!wrong, has_read, |s| s.free(table)).done();
    s
}

/// A second tree with the same pages, to which both CPUs go over. Returns the first one.
fn switched(s: &mut Scene) -> Vec<u64> {
    let second = s.create(Plan { count: 512, announced: false, ..Plan::pages(&[]) });
    let first = std::mem::replace(&mut s.tree, second);
    s.parked(&[0, 1], |s| s);
    first.tables
}

pub(crate) fn old_tree_freed_under_a_reader(wrong: bool) -> Scene {
    let mut s = full();
    let first = switched(begins_to_read(&mut s));
    let free = |s: &mut Scene| first.iter().for_each(|&table| _ = s.free(table));
    if wrong {
        free(&mut s);
    }
    begins_to_read(has_read(&mut s));
    if !wrong {
        free(&mut s);
    }
    has_read(&mut s);
    s
}

pub(crate) fn ends_what_it_never_began(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    has_read(begins_to_read(&mut s));
    if wrong {
        has_read(&mut s);
    }
    s
}

pub(crate) fn reset_while_it_reads(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    begins_to_read(&mut s);
    s.in_order(!wrong, has_read, |s| s.event(Event::Reset { cpu: 1 }));
    s
}

/// Page 3 gets the bit by which it stays split, or loses it.
fn marked(s: &mut Scene, stays: bool) -> &mut Scene {
    let leaf = s.leaf(3);
    let attributes = match stays {
        true => leaf.attributes | Attributes::STAYS_SPLIT,
        false => leaf.attributes - Attributes::STAYS_SPLIT,
    };
    s.begin("pin", []).put(3, Leaf { attributes, ..leaf }).flush(3..4).done()
}

fn pin(s: &mut Scene) -> &mut Scene {
    marked(s, true)
}

fn unpin(s: &mut Scene) -> &mut Scene {
    marked(s, false)
}

pub(crate) fn pinned_and_merged(wrong: bool) -> Scene {
    let mut s = full();
    pin(&mut s).in_order(!wrong, unpin, collapsed);
    s
}

/// The next sixteen pages are not pinned, and a pinned block can be split.
pub(crate) fn pinned_and_made_a_run(wrong: bool) -> Scene {
    let mut s = full();
    pin(&mut s);
    s.begin("collapse", []);
    let first = if wrong { 0 } else { 16 };
    for i in first..first + 16 {
        s.put(i, Leaf { contiguous: true, ..s.leaf(i) });
    }
    s.flush(first..first + 16).done();
    s
}

pub(crate) fn pinned_and_merged_while_parked(wrong: bool) -> Scene {
    let mut s = full();
    let (table, block) = (s.table(), s.block_above());
    pin(&mut s).begin("collapse", []);
    s.parked(&[0, 1], |s| {
        let again = linmap::arch::Descriptor::table(linmap::Pa(table), K4).0;
        s.put_above(0).put_above(if wrong { block } else { again }).dsb(Ishst)
    });
    s.isb().done();
    unpin(&mut s);
    s
}

/// The tree has taken the place of the first, and nothing was announced of it.
pub(crate) fn pinned_after_a_repaint(wrong: bool) -> Scene {
    let mut s = full();
    let first = switched(&mut s);
    pin(&mut s);
    first.iter().for_each(|&table| _ = s.free(table));
    s.in_order(!wrong, unpin, collapsed);
    s
}
