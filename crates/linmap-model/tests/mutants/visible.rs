//! Stores become visible to walkers: tables before they are reachable, entries before the operation returns.

use linmap::arch::{Leaf, Level};
use linmap_model::{Barrier, Barrier::*, Core, Event};

use crate::scene::{Plan, Scene};

pub(crate) fn published_before_it_is_filled(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, block) = (s.alloc(), s.leaf(0));
    s.begin("split", []);
    s.in_order(!wrong, |s| s.fill_child(child, block).dsb(Ishst), |s| s.link(0, child).publish()).done();
    s
}

/// A child is filled, then this barrier, then it is published.
fn filled_with(barrier: Option<Barrier>) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG; 2]);
    let (child, block) = (s.alloc(), s.leaf(0));
    s.begin("split", []).fill_child(child, block);
    if let Some(kind) = barrier {
        s.dsb(kind);
    }
    s.link(0, child).publish().done();
    s
}

pub(crate) fn no_dsb_before_it_is_published(wrong: bool) -> Scene {
    filled_with((!wrong).then_some(Ishst))
}

pub(crate) fn dsb_nshst_before_it_is_published(wrong: bool) -> Scene {
    filled_with(Some(if wrong { Nshst } else { Ishst }))
}

pub(crate) fn dsb_by_another_cpu(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG; 2]);
    let (child, block) = (s.alloc(), s.leaf(0));
    s.cpu(1).fill_child(child, block);
    s.cpu(if wrong { 0 } else { 1 }).dsb(Ishst);
    s.cpu(0).begin("split", []).link(0, child).publish().done();
    s
}

pub(crate) fn filled_in_part(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (child, block, below) = (s.alloc(), s.leaf(0), Level::PAGE);
    s.fill(child, below, 0..if wrong { 511 } else { 512 }, block).dsb(Ishst);
    s.begin("split", []).link(0, child).publish().done();
    s
}

/// A page is mapped in a hole after the others; the story does the rest.
fn mapping() -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let new = s.leaf(40);
    s.begin("map", [s.change(40..41, Some(new))]).put(40, new);
    s
}

pub(crate) fn no_dsb_after_mapping(wrong: bool) -> Scene {
    let mut s = mapping();
    if !wrong {
        s.dsb(Ishst);
    }
    s.isb().done();
    s
}

pub(crate) fn dsb_nshst_after_mapping(wrong: bool) -> Scene {
    let mut s = mapping();
    s.dsb(if wrong { Nshst } else { Ishst }).isb().done();
    s
}

pub(crate) fn no_isb_after_mapping(wrong: bool) -> Scene {
    let mut s = mapping();
    s.dsb(Ishst);
    if !wrong {
        s.isb();
    }
    s.done();
    s
}

pub(crate) fn isb_before_the_dsb(wrong: bool) -> Scene {
    let mut s = mapping();
    s.in_order(!wrong, |s| s.dsb(Ishst), |s| s.isb()).done();
    s
}

/// A block is out, and is cut so that all of its pages are out. Nothing has to synchronise, unless one of them becomes valid.
pub(crate) fn no_isb_after_a_cut(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG; 2]);
    let (child, block) = (s.alloc(), s.leaf(0));
    let out = Leaf { valid: false, ..block };
    s.begin("set invalid", [s.change(0..1, Some(out))]).put(0, out).flush(0..1).done();
    let page = wrong.then(|| s.change_at(s.va(0), 4096, Some(block)));
    s.begin("cut", Vec::from_iter(page)).fill_child(child, out);
    if wrong {
        s.fill(child, Level::PAGE, 0..1, block);
    }
    s.dsb(Ishst).link(0, child).dsb(Ishst).done();
    s
}

pub(crate) fn loaded_with_unseen_writes(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).unloaded();
    let new = s.leaf(40);
    s.begin("map", [s.change(40..41, Some(new))]).put(40, new);
    if !wrong {
        s.dsb(Ishst);
    }
    s.load().dsb(Ishst).isb().done();
    s
}

/// CPU 0 is alone when it maps a page; then CPU 1 comes.
pub(crate) fn dsb_nshst_before_another_cpu_comes(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG; 2]).unloaded();
    let new = s.leaf(40);
    s.load();
    s.begin("map", [s.change(40..41, Some(new))]);
    s.put(40, new).dsb(if wrong { Nshst } else { Ishst }).isb().done();
    s.cpu(1).event(Event::Report { cpu: 1 }).load();
    s
}

pub(crate) fn loaded_before_it_reported(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG, Core::WEAK]).unloaded();
    s.cpu(1);
    s.in_order(!wrong, |s| s.event(Event::Report { cpu: 1 }), |s| s.load());
    s
}
