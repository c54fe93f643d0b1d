//! Pages with two addresses that have one memory type: write-back memory is not mapped as anything else meanwhile.

use linmap::arch::Leaf;
use linmap::{Attributes as A, MemoryType};
use linmap_model::{Barrier::*, Core, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene};

/// The slot of the second address of page 0.
const SECOND: usize = 40;
const NON_CACHEABLE: A = A::RAM.of_type(MemoryType::NORMAL_NC);

/// Page 0 with other attributes, at the second address.
fn second(s: &mut Scene, attributes: A) -> &mut Scene {
    s.map(SECOND, s.with(0, attributes))
}

/// A page is mapped a second time; with the same type, or after the first mapping has gone.
fn mapped_as(attributes: A, unmapped: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    if unmapped {
        s.unmap(0);
    }
    second(&mut s, attributes);
    s
}

pub(crate) fn ram_as_a_device(wrong: bool) -> Scene {
    mapped_as(if wrong { A::DEVICE } else { READ_ONLY }, false)
}

pub(crate) fn ram_as_not_cacheable(wrong: bool) -> Scene {
    mapped_as(NON_CACHEABLE, !wrong)
}

/// With allocation tags or without is one type.
pub(crate) fn ram_with_another_shareability(wrong: bool) -> Scene {
    let other = if wrong { A::RAM - A::INNER_SHAREABLE } else { A::KERNEL_DATA };
    mapped_as(other, false)
}

/// The page is unmapped, and mapped elsewhere after so many of the steps that invalidate it.
fn mapped_after(cores: &[Core], op: linmap_model::Tlb, steps: usize) -> Scene {
    let mut s = Scene::pages(cores);
    let other = s.with(0, NON_CACHEABLE);
    s.begin("remap", [s.change(0..1, None), s.change(SECOND..SECOND + 1, Some(other))]).clear(0);
    let all: [&dyn Fn(&mut Scene); 4] =
        [&|s| _ = s.dsb(Ishst), &|s| _ = s.tlbi(op, 0), &|s| _ = s.dsb(Ish), &|s| _ = s.isb()];
    all[..steps].iter().for_each(|step| step(&mut s));
    s.put(SECOND, other);
    all[steps..].iter().for_each(|step| step(&mut s));
    s.publish().done();
    s
}

pub(crate) fn mapped_before_the_tlbi(wrong: bool) -> Scene {
    mapped_after(&[Core::STRONG], Vaae1is, if wrong { 1 } else { 4 })
}

pub(crate) fn mapped_before_the_dsb(wrong: bool) -> Scene {
    mapped_after(&[Core::STRONG; 2], Vaae1is, if wrong { 2 } else { 4 })
}

pub(crate) fn mapped_after_a_local_tlbi(wrong: bool) -> Scene {
    mapped_after(&[Core::STRONG; 2], if wrong { Vaae1 } else { Vaae1is }, 4)
}

/// The page is not cacheable elsewhere for a while, and then cacheable again.
pub(crate) fn cacheable_again_too_early(wrong: bool) -> Scene {
    let mut s = mapped_as(NON_CACHEABLE, true);
    s.in_order(!wrong, |s| s.unmap(SECOND), |s| s.map(0, s.leaf(0)));
    s
}

/// The tree of the lower half has pages of a block.
pub(crate) fn in_another_tree(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG; 2]);
    let mut s = Scene::blocks(plan.cores);
    let attributes = if wrong { NON_CACHEABLE } else { A::RAM };
    s.tree = s.create(Plan { va: Some(0), leaf: Leaf { attributes, ..plan.leaf }, ..plan });
    s.load();
    s
}

/// Device registers by two types of device, or RAM so.
pub(crate) fn device_by_two_types(wrong: bool) -> Scene {
    let mut s = mapped_as(A::DEVICE, true);
    let other = if wrong { A::RAM } else { A::DEVICE.of_type(MemoryType::DEVICE_NGNRNE) };
    s.map(SECOND + 1, s.with(0, other));
    s
}
