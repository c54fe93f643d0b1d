//! RAM that is removed goes to another owner: no TLB may lead to it, whatever leaf it was in.

use linmap::arch::Leaf;
use linmap_model::{Barrier::*, Core, Event, Tlb::*};

use crate::scene::Scene;

const PAGE: u64 = 4096;

fn give(s: &mut Scene, leaf: Leaf, bytes: u64) -> &mut Scene {
    s.event(Event::Give { cpu: 0, pa: leaf.oa.0, bytes })
}

/// The second half of a block goes: a table with holes replaces the block, whose entry the TLBs still have.
pub(crate) fn removed_from_within_a_block(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG; 2]);
    let (leaf, table, below) = (s.leaf(0), s.alloc(), s.tree.level.next());
    let (half, bytes) = (s.g.entries(below) / 2, s.g.level_size(s.tree.level) / 2);
    s.fill(table, below, 0..half, leaf).write(table, half, 0, half, 0).dsb(Ishst);
    s.begin("hot-remove", [s.change_at(s.tree.va + bytes, bytes, None)]).link(0, table).dsb(Ishst);
    s.tlbi(Vaae1is, usize::from(wrong)).dsb(Ish).isb();
    let gone = Leaf { oa: linmap::Pa(leaf.oa.0 + bytes), ..leaf };
    give(&mut s, gone, bytes).done();
    s
}

/// A block and the first page after it go. That page was split out of the next block before.
pub(crate) fn removed_with_a_block_and_a_page(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG; 2]);
    let (block, next, table) = (s.leaf(0), s.leaf(1), s.child(1));
    s.begin("split", []).link(1, table).publish().done();
    let bytes = s.g.level_size(s.tree.level);
    s.begin("hot-remove", [s.change_at(s.tree.va, bytes + PAGE, None)]).clear(0);
    s.write(table, 0, 0, 1, 0).dsb(Ishst).tlbi(Vaae1is, 0);
    if !wrong {
        s.tlbi(Vaae1is, 1);
    }
    s.dsb(Ish).isb();
    give(&mut s, block, bytes);
    give(&mut s, next, PAGE).done();
    s
}

/// RAM is added that belongs to someone else until the event after it.
pub(crate) fn added_while_it_is_another_owners(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let (leaf, bytes) = (s.leaf(0), s.g.level_size(s.tree.level));
    s.unmap(0);
    give(&mut s, leaf, bytes);
    s.in_order(
        !wrong,
        |s| s.event(Event::Take { cpu: 0, pa: leaf.oa.0, bytes }),
        |s| s.begin("hot-add", [s.change(0..1, Some(leaf))]).put(0, leaf).publish().done(),
    );
    s
}
