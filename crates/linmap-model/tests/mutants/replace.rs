//! Entries that may only be replaced by way of an invalid entry, and addresses in use meanwhile.

use linmap::arch::Leaf;
use linmap::{Attributes as A, Pa};
use linmap_model::{Core, CpuId};

use crate::scene::{Plan, READ_ONLY, Scene};

/// Page 0 becomes something else: in place, or after it was unmapped.
fn replace(old: A, new: Leaf, in_place: bool) -> Scene {
    let page = Plan::pages(&[Core::STRONG]);
    let mut s = Plan { leaf: Leaf { attributes: old, ..page.leaf }, ..page }.scene();
    if !in_place {
        s.unmap(0);
    }
    s.begin("replace", [s.change(0..1, Some(new))]).put(0, new).flush(0..1).done();
    s
}

/// The first page of RAM, with other attributes.
fn page(attributes: A) -> Leaf {
    Leaf { attributes, ..Plan::pages(&[]).leaf }
}

pub(crate) fn output_address_in_place(wrong: bool) -> Scene {
    replace(A::RAM, Leaf { oa: Pa(0x4000_0000), ..page(A::RAM) }, wrong)
}

pub(crate) fn memory_type_in_place(wrong: bool) -> Scene {
    replace(A::RAM, page(A::DEVICE), wrong)
}

pub(crate) fn shareability_in_place(wrong: bool) -> Scene {
    replace(A::RAM, page(A::RAM - A::INNER_SHAREABLE), wrong)
}

/// Not cacheable, or merely without tags.
pub(crate) fn cacheability_in_place(wrong: bool) -> Scene {
    let uncached = A::KERNEL_DATA | A::from_bits_retain(2 << 2);
    replace(A::KERNEL_DATA, page(if wrong { uncached } else { A::RAM }), true)
}

pub(crate) fn local_to_global_in_place(wrong: bool) -> Scene {
    replace(A::RAM | A::NOT_GLOBAL, page(A::RAM), wrong)
}

/// One way round it takes break-before-make, the other way not.
pub(crate) fn local_to_global_not_the_other_way(wrong: bool) -> Scene {
    let local = A::RAM | A::NOT_GLOBAL;
    if wrong { replace(local, page(A::RAM), true) } else { replace(A::RAM, page(local), true) }
}

/// Page 0 moves by break-before-make, while these CPUs are parked.
fn broken(cores: &[Core], parked: &[CpuId]) -> Scene {
    let mut s = Scene::pages(cores);
    let new = s.leaf(100);
    s.begin("move", [s.change(0..1, Some(new))]);
    s.parked(parked, |s| s.clear(0).flush(0..1).put(0, new).publish()).done();
    s
}

pub(crate) fn broken_in_use(wrong: bool) -> Scene {
    broken(&[Core::WEAK], if wrong { &[] } else { &[0] })
}

pub(crate) fn broken_with_one_cpu_at_work(wrong: bool) -> Scene {
    broken(&[Core::WEAK; 3], if wrong { &[0, 2] } else { &[0, 1, 2] })
}

pub(crate) fn protected_by_breaking_it(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::WEAK]);
    let new = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(0..1, Some(new))]);
    if wrong {
        s.clear(0).flush(0..1);
    }
    s.put(0, new).flush(0..1).done();
    s
}

pub(crate) fn access_flag_cleared(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let flags = if wrong { READ_ONLY - A::ACCESSED } else { READ_ONLY };
    let new = s.with(0, flags);
    s.begin("protect", [s.change(0..1, Some(s.with(0, READ_ONLY)))]).put(0, new).flush(0..1).done();
    s
}
