//! A CPU uses an address that may fault for it, or that permits something else.

use linmap::arch::{Descriptor, Leaf, Level};
use linmap::cpu::Registers;
use linmap::{Attributes, MemoryType, Pa};
use linmap_model::{Access::*, Barrier::*, CacheOp, Core, Event, Register, Tlb};

use crate::scene::{Plan, READ_ONLY, Scene};

const TWO: [Core; 2] = [Core::STRONG; 2];
const ETS2: Core = Core { ets2: true, ..Core::STRONG };
const TEXT: Attributes = Attributes::KERNEL_TEXT;

pub(crate) fn of_a_page_that_was_unmapped(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    s.unmap(0);
    s.cpu(1).access(Read, if wrong { 0 } else { 1 });
    s
}

pub(crate) fn of_a_page_that_is_being_unmapped(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    s.begin("unmap", [s.change(0..1, None)]);
    s.in_order(!wrong, |s| s.cpu(1).access(Read, 0).cpu(0), |s| s.clear(0)).flush(0..1).done();
    s
}

pub(crate) fn before_the_dsb_of_a_map(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    let new = s.leaf(40);
    s.begin("map", [s.change(40..41, Some(new))]).put(40, new);
    let uses = |s: &mut Scene| {
        s.cpu(1).isb().access(Read, 40).cpu(0);
    };
    if wrong {
        uses(&mut s);
    }
    s.publish();
    if !wrong {
        uses(&mut s);
    }
    s.done();
    s
}

pub(crate) fn while_parked(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    s.parked(&[1], |s| if wrong { s.cpu(1).access(Read, 0) } else { s.access(Read, 0) });
    s
}

/// CPU 0 maps a page, and CPU 1 uses it, after an ISB or without.
fn mapped(cores: &[Core; 2], attributes: Attributes, isb: bool, how: linmap_model::Access) -> Scene {
    let mut s = Scene::pages(cores);
    s.map(40, s.with(40, attributes)).cpu(1);
    if isb {
        s.isb();
    }
    s.access(how, 40);
    s
}

pub(crate) fn read_without_an_isb(wrong: bool) -> Scene {
    mapped(&TWO, Attributes::RAM, !wrong, Read)
}

pub(crate) fn read_without_an_isb_or_ets2(wrong: bool) -> Scene {
    mapped(if wrong { &TWO } else { &[ETS2; 2] }, Attributes::RAM, false, Read)
}

pub(crate) fn executed_without_an_isb(wrong: bool) -> Scene {
    mapped(&[ETS2; 2], TEXT, !wrong, Execute)
}

pub(crate) fn mapped_below_a_new_table(wrong: bool) -> Scene {
    let mut s = Plan { count: 1, ..Plan::blocks(&TWO) }.scene();
    let (child, new) = (s.alloc(), s.leaf(1));
    s.begin("map", [s.change(1..2, Some(new))]).fill_child(child, new).dsb(Ishst);
    s.link(1, child).publish().done().cpu(1);
    if !wrong {
        s.isb();
    }
    s.access(Write, 1);
    s
}

pub(crate) fn write_to_a_read_only_page(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    s.protect(0);
    s.cpu(1).access(if wrong { Write } else { Read }, 0);
    s
}

/// DBM lets a page be written on a CPU that manages the dirty state.
pub(crate) fn write_to_a_clean_page(wrong: bool) -> Scene {
    let manages = Core { hardware_access_flag: true, hardware_dirty_state: !wrong, ..Core::STRONG };
    let mut s = Scene::pages(&[manages]);
    s.map(40, s.with(40, READ_ONLY | Attributes::DIRTY_MANAGED)).access(Write, 40);
    s
}

/// CPU 0 makes a page writable, and CPU 1 writes before its TLB has dropped the old entry, or then.
pub(crate) fn write_before_the_tlbi_is_complete(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    let new = s.leaf(0);
    s.protect(0);
    s.begin("make writable", [s.change(0..1, Some(new))]).put(0, new);
    s.dsb(Ishst).tlbi(Tlb::Vaae1is, 0);
    s.in_order(!wrong, |s| s.dsb(Ish), |s| s.cpu(1).access(Write, 0).cpu(0)).isb().done();
    s
}

/// The same on the CPU itself, whose accesses need an ISB besides.
pub(crate) fn write_before_the_isb_of_the_tlbi(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    let new = s.leaf(0);
    s.protect(0);
    s.begin("make writable", [s.change(0..1, Some(new))]).put(0, new);
    s.dsb(Ishst).tlbi(Tlb::Vaae1is, 0).dsb(Ish);
    s.in_order(!wrong, |s| s.isb(), |s| s.access(Write, 0)).isb().done();
    s
}

pub(crate) fn write_to_a_run_that_becomes_read_only(wrong: bool) -> Scene {
    let mut s = Scene::runs(&TWO);
    let (members, read_only) = (s.run(), s.with(0, READ_ONLY));
    s.begin("protect", [s.change(0..members, Some(read_only))]).put_as(0, READ_ONLY).cpu(1);
    s.access(Write, if wrong { 5 } else { members }).cpu(0);
    for i in 1..members {
        s.put_as(i, READ_ONLY);
    }
    s.flush(0..members).done();
    s
}

pub(crate) fn execution_of_data(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    s.map(40, s.with(40, if wrong { Attributes::KERNEL_RODATA } else { TEXT }));
    s.access(Execute, 40);
    s
}

pub(crate) fn execution_of_what_a_user_writes(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    let user = TEXT | Attributes::USER;
    let writable = if wrong { Attributes::READ_ONLY } else { Attributes::empty() };
    s.map(40, s.with(40, user.difference(writable))).access(Execute, 40);
    s
}

/// Memory that is writable and executable is executed, on a CPU that sets SCTLR_EL1.WXN or on one that does not.
pub(crate) fn execution_of_writable_memory_with_wxn(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG]);
    let attributes = TEXT.difference(Attributes::READ_ONLY);
    let mut s = Plan { leaf: Leaf { attributes, ..plan.leaf }, ..plan }.unloaded();
    s.setup.allow_write_execute = true;
    let wxn = if wrong { 1 << 19 } else { 0 };
    s.msr(Register::Sctlr, Registers::SCTLR_ON | wxn).isb().load().access(Execute, 0);
    s
}

/// The line of code that a page starts with is stored, maintained and executed by its virtual address.
pub(crate) fn execution_of_a_line_without_ic_ivau(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let (text, pa) = (s.with(40, TEXT), s.leaf(40).oa.0);
    s.event(Event::Code { cpu: 0, pa }).event(Event::Cache { cpu: 0, op: CacheOp::DcCvau, pa }).dsb(Ish);
    if !wrong {
        s.event(Event::Cache { cpu: 0, op: CacheOp::IcIvau, pa });
    }
    s.dsb(Ish).isb().map(40, text).access(Execute, 40);
    s
}

pub(crate) fn access_flag_clear(wrong: bool) -> Scene {
    let sets = Core { hardware_access_flag: !wrong, ..Core::STRONG };
    let mut s = Scene::pages(&[sets]);
    s.map(40, s.with(40, Attributes::RAM.difference(Attributes::ACCESSED))).access(Read, 40);
    s
}

pub(crate) fn tags_of_memory_without(wrong: bool) -> Scene {
    let mut s = Scene::pages(&TWO);
    s.map(40, s.with(40, if wrong { Attributes::KERNEL_DATA } else { Attributes::RAM })).access(Tag, 40);
    s
}

pub(crate) fn tags_on_a_cpu_without(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG, Core { mte: false, ..Core::STRONG }]);
    s.cpu(if wrong { 1 } else { 0 }).access(Tag, 0);
    s
}

/// Memory becomes Tagged in place, and CPU 1 uses its tags before its TLB has dropped the old entry, or then.
pub(crate) fn tags_before_the_tlbi(wrong: bool) -> Scene {
    let plain = Attributes::RAM.of_type(MemoryType::NORMAL);
    let plan = Plan::pages(&TWO);
    let mut s = Plan { leaf: Leaf { attributes: plain, ..plan.leaf }, ..plan }.scene();
    let tagged = s.with(0, Attributes::RAM);
    s.begin("make tagged", [s.change(0..1, Some(tagged))]).put(0, tagged);
    s.in_order(!wrong, |s| s.flush(0..1), |s| s.cpu(1).access(Tag, 0).cpu(0)).flush(0..1).done();
    s
}

/// An empty table gives way to a block, and walk caches may lead to it.
pub(crate) fn by_way_of_an_old_table(wrong: bool) -> Scene {
    let mut s = Plan { count: 1, ..Plan::blocks(&TWO) }.scene();
    let (child, new) = (s.alloc(), s.leaf(1));
    s.write(child, 0, 0, s.g.entries(Level::PAGE), 0)
        .dsb(Ishst)
        .begin("make a table", [])
        .link(1, child)
        .publish();
    s.done();
    s.begin("map", [s.change(1..2, Some(new))]).put(1, new).publish();
    s.cpu(1).isb().cpu(0);
    s.in_order(!wrong, |s| s.flush(1..2), |s| s.cpu(1).access(Read, 1).cpu(0)).flush(1..2).free(child).done();
    s
}

/// A page is made valid in a table, and a block takes the table's place. Walk caches lead to the table, where the store may
/// not be seen.
pub(crate) fn by_way_of_an_unseen_store(wrong: bool) -> Scene {
    let mut s = Plan { count: 511, ..Plan::pages(&TWO) }.scene();
    let (table, block, page) = (s.table(), s.block_above(), s.leaf(511));
    s.begin("map", [s.change(511..512, Some(page))]).cpu(1).put(511, page);
    if !wrong {
        s.dsb(Ishst);
    }
    s.isb().cpu(0).put_above(block).dsb(Ishst).cpu(1).isb().access(Read, 511);
    s.cpu(0).flush(0..1).free(table).done();
    s
}

/// A page is made valid in a table that goes, and the store is not seen by then. The table's page is used again for another
/// table in its place.
pub(crate) fn by_way_of_a_table_that_is_used_again(wrong: bool) -> Scene {
    let mut s = Plan { count: 511, ..Plan::pages(&TWO) }.scene();
    let (table, page) = (s.table(), s.leaf(511));
    let (link, value) = (Descriptor::table(Pa(table), s.g).0, s.bits(page));
    let changes = [s.change(511..512, Some(page)), s.change(0..511, None)];
    s.cpu(1).begin("map", [changes[0]]).put(511, page);
    s.cpu(0).begin("unmap", [changes[1]]).put_above(0).dsb(Ishst);
    s.tlbi_all(Tlb::Vmalle1is).dsb(Ish).isb().free(table).done();
    s.event(Event::Alloc { cpu: 0, table }).write(table, 0, 0, 512, 0).write(table, 511, value, 1, 0);
    s.dsb(Ishst).put_above(link);
    s.in_order(!wrong, |s| s.publish(), |s| s.access(Read, 511));
    s.cpu(1).publish().done();
    s
}
