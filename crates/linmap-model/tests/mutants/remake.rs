//! Pages that are remade: they go out, a step is done, and they come back as something else.

use linmap::arch::Leaf;
use linmap::{Attributes as A, MemoryType, Pa};
use linmap_model::{Access, Barrier::*, Core, CpuId, Event, Tlb::*};

use crate::scene::Scene;

const NON_CACHEABLE: A = A::RAM.of_type(MemoryType::NORMAL_NC);
/// The bit of an address by which memory is shared with a host.
const SHARED: u64 = 1 << 47;
/// The slot of the second address of page 0.
const SECOND: usize = 40;

/// Slots go out; TLBs keep them if the invalidation is left out.
fn out<'s>(s: &'s mut Scene, slots: &[usize], invalidates: bool) -> &'s mut Scene {
    let invalid = |s: &Scene, i: usize| Leaf { valid: false, ..s.leaf(if i == SECOND { 0 } else { i }) };
    let change = |s: &Scene, i: usize| {
        let change = s.change(i..i + 1, Some(invalid(s, i)));
        if invalidates { change } else { change.invalidated_later() }
    };
    let changes: Vec<_> = slots.iter().map(|&i| change(s, i)).collect();
    s.begin("take out", changes);
    for &i in slots {
        s.put(i, invalid(s, i));
    }
    if invalidates {
        s.dsb(Ishst);
        slots.iter().for_each(|&i| _ = s.tlbi(Vaae1is, i));
        s.dsb(Ish).isb();
    } else {
        s.publish();
    }
    s.done()
}

/// Slots come back as a leaf.
fn back<'s>(s: &'s mut Scene, slots: &[usize], leaf: Leaf) -> &'s mut Scene {
    let changes: Vec<_> = slots.iter().map(|&i| s.change(i..i + 1, Some(leaf))).collect();
    s.begin("bring back", changes);
    slots.iter().for_each(|&i| _ = s.put(i, leaf));
    s.publish().done()
}

pub(crate) fn old_type_still_cached(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    out(&mut s, &[0], !wrong);
    let leaf = s.with(0, NON_CACHEABLE);
    back(&mut s, &[0], leaf);
    s
}

pub(crate) fn tlbi_after_it_is_back(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let leaf = s.with(0, NON_CACHEABLE);
    out(&mut s, &[0], false);
    s.in_order(!wrong, |s| s.flush(0..1), |s| back(s, &[0], leaf));
    s
}

fn moved_by_a_bit(wrong: bool, set: u64, cleared: u64) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let leaf = |s: &Scene, bits: u64| Leaf { oa: Pa(s.leaf(0).oa.0 | bits), ..s.leaf(0) };
    out(&mut s, &[0], true);
    let (old, new) = (leaf(&s, cleared), leaf(&s, set));
    back(&mut s, &[0], old);
    if !wrong {
        let gone = Leaf { valid: false, ..old };
        s.begin("take out", [s.change(0..1, Some(gone))]).put(0, gone).flush(0..1).done();
    }
    back(&mut s, &[0], new);
    s
}

pub(crate) fn shared_without_a_break(wrong: bool) -> Scene {
    moved_by_a_bit(wrong, SHARED, 0)
}

pub(crate) fn private_without_a_break(wrong: bool) -> Scene {
    moved_by_a_bit(wrong, 0, SHARED)
}

/// The step gives the page to the host, and takes it back.
pub(crate) fn step_before_the_tlbi(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let (pa, bytes) = (s.leaf(0).oa.0, 4096);
    out(&mut s, &[0], !wrong);
    s.event(Event::Give { cpu: 0, pa, bytes }).event(Event::Take { cpu: 0, pa, bytes });
    let shared = Leaf { oa: Pa(pa | SHARED), ..s.leaf(0) };
    back(&mut s, &[0], shared);
    s
}

/// Page 0 has two addresses.
fn twice() -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.map(SECOND, s.leaf(0));
    s
}

pub(crate) fn alias_stays(wrong: bool) -> Scene {
    let (mut s, both) = (twice(), [0, SECOND]);
    let slots = if wrong { &both[..1] } else { &both };
    out(&mut s, slots, true);
    let leaf = s.with(0, NON_CACHEABLE);
    back(&mut s, slots, leaf);
    s
}

pub(crate) fn back_beside_a_cached_alias(wrong: bool) -> Scene {
    let mut s = twice();
    out(&mut s, &[SECOND], !wrong);
    out(&mut s, &[0], true);
    let leaf = s.with(0, NON_CACHEABLE);
    back(&mut s, &[0, SECOND], leaf);
    s
}

pub(crate) fn used_while_it_is_out(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let leaf = s.with(0, NON_CACHEABLE);
    out(&mut s, &[0], true);
    let other: CpuId = 1;
    let uses = |s: &mut Scene| _ = s.cpu(other).isb().access(Access::Read, 0).cpu(0);
    if wrong {
        uses(&mut s);
    }
    back(&mut s, &[0], leaf);
    uses(&mut s);
    s
}
