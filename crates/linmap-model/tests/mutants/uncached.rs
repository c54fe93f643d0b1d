//! Tables that are written with the MMU off.

use std::ops::Range;

use linmap_model::{Barrier, Barrier::*, CacheOp, Core, Event};

use crate::scene::{Plan, Scene};

impl Scene {
    /// Cache lines of a table are maintained, from one slot to another.
    fn maintain(&mut self, op: CacheOp, table: u64, slots: Range<u64>) -> &mut Self {
        let cpu = self.acting();
        for slot in slots.step_by(8) {
            self.event(Event::Cache { cpu, op, pa: table + 8 * slot });
        }
        self
    }
}

/// The maintenance of a table that CPU 1 fills with its MMU off, and that CPU 0 publishes.
struct Maintenance {
    before: Option<CacheOp>,
    dsb: Option<Barrier>,
    after: Option<CacheOp>,
    slots: u64,
    last: Option<Barrier>,
}

const RIGHT: Maintenance = Maintenance {
    before: Some(CacheOp::DcIvac),
    dsb: Some(Ish),
    after: Some(CacheOp::DcIvac),
    slots: 512,
    last: Some(Ish),
};

fn filled(wrong: bool, mistake: Maintenance) -> Scene {
    let how = if wrong { mistake } else { RIGHT };
    let mut s = Scene::blocks(&[Core::STRONG; 2]);
    let (child, block) = (s.alloc(), s.leaf(0));
    s.cpu(1).off();
    if let Some(op) = how.before {
        s.maintain(op, child, 0..512).dsb(Ish);
    }
    s.fill_child(child, block);
    if let Some(kind) = how.dsb {
        s.dsb(kind);
    }
    if let Some(op) = how.after {
        s.maintain(op, child, 0..how.slots);
    }
    if let Some(kind) = how.last {
        s.dsb(kind);
    }
    s.cpu(0).begin("split", []).link(0, child).publish().done();
    s
}

pub(crate) fn line_may_be_modified(wrong: bool) -> Scene {
    filled(wrong, Maintenance { before: None, ..RIGHT })
}

pub(crate) fn no_maintenance(wrong: bool) -> Scene {
    filled(wrong, Maintenance { after: None, ..RIGHT })
}

/// A clean leaves the line in the cache.
pub(crate) fn cleaned_alone(wrong: bool) -> Scene {
    filled(wrong, Maintenance { after: Some(CacheOp::DcCvac), ..RIGHT })
}

/// To the point of unification.
pub(crate) fn cleaned_as_code(wrong: bool) -> Scene {
    filled(wrong, Maintenance { after: Some(CacheOp::DcCvau), ..RIGHT })
}

pub(crate) fn without_the_last_line(wrong: bool) -> Scene {
    filled(wrong, Maintenance { slots: 504, ..RIGHT })
}

/// DC IVAC may come before the stores, which the DSB for stores does not prevent.
pub(crate) fn dsb_for_stores_before_it(wrong: bool) -> Scene {
    filled(wrong, Maintenance { dsb: Some(Ishst), ..RIGHT })
}

pub(crate) fn no_dsb_after_it(wrong: bool) -> Scene {
    filled(wrong, Maintenance { last: None, ..RIGHT })
}

/// CPU 1 maps a page, its MMU off, in a table that CPU 0 walks.
pub(crate) fn live_table(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let (table, new) = (s.table(), s.leaf(40));
    s.cpu(1).off().maintain(CacheOp::DcCivac, table, 40..41).dsb(Ish);
    s.begin("map", [s.change(40..41, Some(new))]).put(40, new).dsb(Ish);
    if !wrong {
        s.maintain(CacheOp::DcCivac, table, 40..41).dsb(Ish);
    }
    s.done();
    s
}

/// The CPU writes the tables of a map, then turns its MMU on.
pub(crate) fn own_tables(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG]);
    let mut s = plan.scene();
    let (table, new) = (s.table(), s.leaf(40));
    s.off().forget().maintain(CacheOp::DcIvac, table, 40..41).dsb(Ish);
    s.begin("map", [s.change(40..41, Some(new))]).put(40, new).dsb(Ish);
    if !wrong {
        s.maintain(CacheOp::DcIvac, table, 40..41).dsb(Ish);
    }
    s.done().on();
    s
}

/// A CPU with caches stores to a line that another has written past them.
pub(crate) fn stored_through_a_cache_as_well(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let table = s.alloc();
    s.cpu(1).off().maintain(CacheOp::DcIvac, table, 0..512).dsb(Ish);
    s.write(table, 0, 0, 512, 0).dsb(Ish);
    if !wrong {
        s.maintain(CacheOp::DcIvac, table, 0..512).dsb(Ish);
    }
    s.cpu(0).write(table, 3, 0, 1, 0).free(table);
    s
}

pub(crate) fn entry_replaced(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    let table = s.table();
    s.cpu(1);
    if wrong {
        s.off();
    }
    s.maintain(CacheOp::DcCivac, table, 0..1).dsb(Ish);
    s.begin("unmap", [s.change(0..1, None)]).clear(0).flush(0..1).done();
    s
}
