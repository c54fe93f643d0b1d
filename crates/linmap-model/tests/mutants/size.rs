//! Sizes: a live block becomes a table, a table a block, pages a contiguous run, or the other way.

use linmap::arch::Leaf;
use linmap_model::{Barrier::*, Core, Tlb::*};

use crate::scene::{K4_LPA2, K16, K64, Plan, Scene};

/// The CPU that matters may abort, or it never does.
const fn core(weak: bool) -> Core {
    if weak { Core::WEAK } else { Core::STRONG }
}

/// Leaf 0 of this map becomes a table, in place.
fn split(plan: Plan<'_>) -> Scene {
    let mut s = plan.scene();
    let child = s.child(0);
    s.begin("split", []).link(0, child).publish().done();
    s
}

/// All members of the first run lose the contiguous bit, in place.
fn dissolve(plan: Plan<'_>) -> Scene {
    let mut s = plan.scene();
    let leaf = |i| Leaf { contiguous: false, ..s.leaf(i) };
    let pages: Vec<Leaf> = (0..s.run()).map(leaf).collect();
    s.begin("dissolve", []);
    for (i, &page) in pages.iter().enumerate() {
        s.put(i, page);
    }
    s.publish().done();
    s
}

pub(crate) fn split_on_a_weak_cpu(wrong: bool) -> Scene {
    split(Plan::blocks(&[core(wrong)]))
}

pub(crate) fn split_where_one_cpu_is_weak(wrong: bool) -> Scene {
    split(Plan::blocks(&[Core::STRONG, core(wrong), Core::STRONG]))
}

pub(crate) fn split_of_512g_at_level_0(wrong: bool) -> Scene {
    split(Plan { geometry: K4_LPA2, level: 0, ..Plan::blocks(&[core(wrong)]) })
}

pub(crate) fn split_of_1g_at_level_1(wrong: bool) -> Scene {
    split(Plan { level: 1, ..Plan::blocks(&[core(wrong)]) })
}

pub(crate) fn split_of_32m_at_16k(wrong: bool) -> Scene {
    split(Plan { geometry: K16, ..Plan::blocks(&[core(wrong)]) })
}

pub(crate) fn split_of_512m_at_64k(wrong: bool) -> Scene {
    split(Plan { geometry: K64, ..Plan::blocks(&[core(wrong)]) })
}

pub(crate) fn run_dissolved_on_a_weak_cpu(wrong: bool) -> Scene {
    dissolve(Plan::runs(&[core(wrong)]))
}

pub(crate) fn run_of_128_pages_dissolved(wrong: bool) -> Scene {
    dissolve(Plan { geometry: K16, ..Plan::runs(&[Core::STRONG, core(wrong)]) })
}

pub(crate) fn run_formed_on_a_weak_cpu(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[core(wrong)]);
    s.begin("form", []);
    for i in 0..16 {
        s.put(i, Leaf { contiguous: true, ..s.leaf(i) });
    }
    s.publish().done();
    s
}

pub(crate) fn collapse_on_a_weak_cpu(wrong: bool) -> Scene {
    let mut s = Scene::full_table(&[core(wrong)]);
    let table = s.table();
    let block = s.block_above();
    s.begin("collapse", []).put_above(block).dsb(Ishst).tlbi_all(Vmalle1is).dsb(Ish).isb().done().free(table);
    s
}

/// The CPU is parked, so the table may be put in the block's place, if its TLB is empty.
pub(crate) fn split_comes_back_to_a_stale_block(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::WEAK]);
    let child = s.child(0);
    s.begin("split", []).park();
    if !wrong {
        s.forget();
    }
    s.link(0, child).dsb(Ishst).load().unpark().done();
    s
}
