//! Pages of RAM that are mapped a second time, elsewhere: what becomes of them and of their aliases in the linear map.

use linmap::Attributes;
use linmap::arch::Leaf;
use linmap_model::{Barrier, Barrier::*, Core, Tlb};

use crate::scene::{Plan, READ_ONLY, Scene};

/// The slot of the page, which has the memory of slot 0 of the linear map.
const PAGE: usize = 40;

/// A linear map of pages on these CPUs, and one of them mapped a second time.
fn mapped_twice(cores: &[Core]) -> Scene {
    let mut s = Plan { linear: true, ..Plan::pages(cores) }.scene();
    s.map(PAGE, s.leaf(0));
    s
}

/// The new attributes of both.
fn begin<'s>(s: &'s mut Scene, name: &str, attributes: Attributes) -> &'s mut Scene {
    let to = Some(s.with(0, attributes));
    s.begin(name, [s.change(0..1, to), s.change(PAGE..PAGE + 1, to)])
}

/// The page alone changes.
fn page(s: &mut Scene, attributes: Attributes) -> &mut Scene {
    let to = s.with(0, attributes);
    s.put(PAGE, to)
}

pub(crate) fn area_before_alias(wrong: bool) -> Scene {
    let mut s = mapped_twice(&[Core::STRONG]);
    begin(&mut s, "protect", READ_ONLY);
    let alias = |s: &mut Scene| _ = s.put_as(0, READ_ONLY).flush(0..1);
    let area = |s: &mut Scene| _ = page(s, READ_ONLY).flush(PAGE..PAGE + 1);
    let order: [&dyn Fn(&mut Scene); 2] = if wrong { [&area, &alias] } else { [&alias, &area] };
    order.iter().for_each(|step| step(&mut s));
    s.done();
    s
}

pub(crate) fn alias_forgotten(wrong: bool) -> Scene {
    let mut s = mapped_twice(&[Core::STRONG]);
    if !wrong {
        s.protect(0);
    }
    let to = s.with(0, READ_ONLY);
    s.begin("protect", [s.change(PAGE..PAGE + 1, Some(to))]).put(PAGE, to).flush(PAGE..PAGE + 1).done();
    s
}

/// The alias becomes read-only; then, after these steps, the page.
fn alias_then(cores: &[Core], steps: impl FnOnce(&mut Scene)) -> Scene {
    let mut s = mapped_twice(cores);
    begin(&mut s, "protect", READ_ONLY).put_as(0, READ_ONLY).dsb(Ishst);
    steps(&mut s);
    page(&mut s, READ_ONLY).flush(PAGE..PAGE + 1).flush(0..1);
    if cores.iter().any(|c| c.repeat_tlbi) {
        s.tlbi(Tlb::Vaae1is, 0).dsb(Ish).isb();
    }
    s.done();
    s
}

/// An invalidation of the alias.
fn of_alias(s: &mut Scene, op: Tlb, kind: Barrier) {
    s.tlbi(op, 0).dsb(kind).isb();
}

pub(crate) fn alias_not_invalidated(wrong: bool) -> Scene {
    alias_then(&[Core::STRONG; 2], |s| {
        if !wrong {
            of_alias(s, Tlb::Vaae1is, Ish);
        }
    })
}

pub(crate) fn alias_not_complete(wrong: bool) -> Scene {
    alias_then(&[Core::STRONG; 2], |s| of_alias(s, Tlb::Vaae1is, if wrong { Ishst } else { Ish }))
}

pub(crate) fn alias_invalidated_locally(wrong: bool) -> Scene {
    let op = if wrong { Tlb::Vaae1 } else { Tlb::Vaae1is };
    alias_then(&[Core::STRONG; 2], |s| of_alias(s, op, Ish))
}

pub(crate) fn alias_not_repeated(wrong: bool) -> Scene {
    let repeats = Core { repeat_tlbi: true, ..Core::STRONG };
    alias_then(&[Core::STRONG, repeats], |s| {
        of_alias(s, Tlb::Vaae1is, Ish);
        if !wrong {
            of_alias(s, Tlb::Vaae1is, Ish);
        }
    })
}

pub(crate) fn hardware_may_write_the_alias(wrong: bool) -> Scene {
    let mut s = mapped_twice(&[Core::STRONG]);
    let dirty = if wrong { Attributes::DIRTY_MANAGED } else { Attributes::empty() };
    let (alias, to) = (s.with(0, READ_ONLY | dirty), s.with(0, READ_ONLY));
    s.begin("protect", [s.change(0..1, Some(alias)), s.change(PAGE..PAGE + 1, Some(to))]);
    s.put(0, alias).flush(0..1).put(PAGE, to).flush(PAGE..PAGE + 1).done();
    s
}

/// Both are read-only.
fn both_read_only() -> Scene {
    alias_then(&[Core::STRONG; 2], |s| of_alias(s, Tlb::Vaae1is, Ish))
}

pub(crate) fn alias_writable_first(wrong: bool) -> Scene {
    let mut s = both_read_only();
    begin(&mut s, "protect", Attributes::RAM);
    let alias = |s: &mut Scene| _ = s.put_as(0, Attributes::RAM).flush(0..1);
    let area = |s: &mut Scene| _ = page(s, Attributes::RAM).flush(PAGE..PAGE + 1);
    let order: [&dyn Fn(&mut Scene); 2] = if wrong { [&alias, &area] } else { [&area, &alias] };
    order.iter().for_each(|step| step(&mut s));
    s.done();
    s
}

pub(crate) fn page_not_invalidated(wrong: bool) -> Scene {
    let mut s = both_read_only();
    page(begin(&mut s, "protect", Attributes::RAM), Attributes::RAM);
    if !wrong {
        s.flush(PAGE..PAGE + 1);
    }
    s.put_as(0, Attributes::RAM).flush(PAGE..PAGE + 1).flush(0..1).done();
    s
}

pub(crate) fn mapped_read_only(wrong: bool) -> Scene {
    let mut s = Plan { linear: true, ..Plan::pages(&[Core::STRONG]) }.scene();
    if !wrong {
        s.protect(0);
    }
    s.map(PAGE, s.with(0, READ_ONLY));
    s
}

/// Blocks of which one is a table of pages, which goes; and another block of the same memory becomes read-only.
pub(crate) fn alias_in_an_unlinked_table(wrong: bool) -> Scene {
    let mut s = Plan { linear: true, ..Plan::blocks(&[Core::STRONG]) }.scene();
    let (child, block, to) = (s.child(0), s.leaf(0), s.with(0, READ_ONLY));
    s.begin("split", []).link(0, child).publish().done();
    s.map(PAGE, block);
    s.begin("unmap and protect", [s.change(0..1, None), s.change(PAGE..PAGE + 1, Some(to))]);
    s.clear(0).dsb(Ishst);
    let flush = |s: &mut Scene| {
        for page in 0..512 {
            s.tlbi_with(Tlb::Vaae1is, s.address(0) + page);
        }
        s.dsb(Ish).isb();
    };
    if !wrong {
        flush(&mut s);
    }
    s.put(PAGE, to).flush(PAGE..PAGE + 1);
    flush(&mut s);
    s.done().free(child);
    s
}

/// The alias is unmapped and invalidated, and the others of its run answer for its address until they are members no more.
pub(crate) fn alias_in_the_run_of_others(wrong: bool) -> Scene {
    let mut s = Plan { linear: true, ..Plan::runs(&[Core::STRONG]) }.scene();
    let (writable, to) = (s.with(3, Attributes::RAM), s.with(3, READ_ONLY));
    let [writable, to] = [writable, to].map(|leaf| Leaf { contiguous: false, ..leaf });
    s.map(PAGE, writable);
    s.begin("unmap and protect", [s.change(3..4, None), s.change(PAGE..PAGE + 1, Some(to))]);
    s.clear(3).flush(3..4);
    let dissolve = |s: &mut Scene| {
        for i in (0..16).filter(|&i| i != 3) {
            s.put(i, Leaf { contiguous: false, ..s.leaf(i) });
        }
        s.flush(0..16);
    };
    let protect = |s: &mut Scene| _ = s.put(PAGE, to).flush(PAGE..PAGE + 1);
    let order: [&dyn Fn(&mut Scene); 2] = if wrong { [&protect, &dissolve] } else { [&dissolve, &protect] };
    order.iter().for_each(|step| step(&mut s));
    s.done();
    s
}
