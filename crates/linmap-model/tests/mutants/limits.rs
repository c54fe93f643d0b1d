//! Restrictions in table descriptors: they count as bits of the leaves below, and they do not change in use.

use linmap::Attributes;
use linmap::arch::{Leaf, TableLimits};
use linmap_model::{Access, Barrier::*, Core, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene};

/// A descriptor of a table with restrictions.
const fn link(table: u64, limits: TableLimits) -> u64 {
    table | 0b11 | limits.bits()
}

/// Block 0 becomes a table with restrictions, of the same leaves.
fn split(limits: TableLimits) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    let child = s.child(0);
    s.begin("split", []).put_bits(0, link(child, limits)).publish().done();
    s
}

/// All leaves are execute-never, and writable.
pub(crate) fn split_takes_more_than_the_block(wrong: bool) -> Scene {
    let never = TableLimits::PXN | TableLimits::UXN;
    split(if wrong { never | TableLimits::READ_ONLY } else { never })
}

pub(crate) fn restriction_of_another_state(wrong: bool) -> Scene {
    split(if wrong { TableLimits::NON_SECURE } else { TableLimits::NO_EL0 })
}

/// Pages are not executable because of their table alone, and become a block.
pub(crate) fn collapse_gives_more_than_the_table(wrong: bool) -> Scene {
    let block = Plan::blocks(&[Core::STRONG]);
    let mut s = Plan { leaf: Leaf { attributes: READ_ONLY, ..block.leaf }, ..block }.scene();
    let (child, text) = (s.alloc(), s.with(0, READ_ONLY - Attributes::PXN));
    s.fill_child(child, text).dsb(Ishst);
    s.begin("split", []).put_bits(0, link(child, TableLimits::PXN)).publish().done();
    let merged = if wrong { text } else { s.with(0, READ_ONLY) };
    s.begin("collapse", []).put(0, merged).dsb(Ishst).tlbi_all(Vmalle1is).dsb(Ish).isb().done().free(child);
    s
}

/// A table with pages gets a restriction that its pages have already.
pub(crate) fn restricted_in_place(wrong: bool) -> Scene {
    let mut s = Scene::full_table(&[Core::STRONG]);
    let new = link(s.table(), TableLimits::UXN);
    s.begin("restrict", []);
    if wrong {
        s.put_above(new);
    } else {
        s.parked(&[0], |s| s.put_above(new).dsb(Ishst));
    }
    s.flush(0..1).done();
    s
}

/// An empty table comes back with a restriction that it did not have.
pub(crate) fn linked_again_with_a_restriction(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    s.unmap(0);
    let child = s.alloc();
    s.write(child, 0, 0, s.g.entries(linmap::arch::Level::PAGE), 0).dsb(Ishst);
    s.begin("link", []).put_bits(0, link(child, TableLimits::empty())).publish().done();
    s.begin("restrict", []).clear(0);
    if !wrong {
        s.flush(0..1);
    }
    s.put_bits(0, link(child, TableLimits::PXN)).flush(0..1).done();
    s
}

/// Pages that are writable but for their table.
pub(crate) fn write_below_a_read_only_table(wrong: bool) -> Scene {
    let mut s = Scene::blocks(&[Core::STRONG]);
    s.unmap(0);
    let (child, new) = (s.child(0), s.with(0, READ_ONLY));
    s.begin("map", [s.change(0..1, Some(new))]);
    s.put_bits(0, link(child, TableLimits::READ_ONLY)).publish().done();
    s.access(if wrong { Access::Write } else { Access::Read }, 0);
    s
}
