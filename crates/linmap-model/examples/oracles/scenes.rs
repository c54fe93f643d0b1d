//! The scenes: operations of the library, each with what the oracles must say of it.

use linmap::{Aliased, Attributes, Change, Granule, OaFormat, Policy, Rodata, Va};
use linmap_model::{Barrier, Core, Event, Rule};

use crate::stage::{Machine, PAGES, Stage};

/// The mistakes in a scene that casemate sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sees {
    /// Every barrier and TLBI that is missing between an entry that becomes invalid and its next use.
    Reuse,
    /// Nothing: entries stay valid, or are not used again.
    Nothing,
    /// A false alarm.
    FalseAlarm(&'static FalseAlarm),
    /// The trace cannot be written.
    Refused,
}

/// A false alarm of casemate, and its reason.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct FalseAlarm {
    pub(crate) text: &'static str,
    pub(crate) reason: &'static str,
}

/// All of them: each has a scene.
pub(crate) const FALSE_ALARMS: &[FalseAlarm] = &[
    FalseAlarm {
        text: "BBM valid->valid",
        reason: "it does not know CPUs that never abort on a live change of size (BBM level 2)",
    },
    FalseAlarm {
        text: "BBM write table descriptor with unclean children",
        reason: "it wants a DSB, a TLBI and a DSB for the entries of a table, and then once more for the table",
    },
];

/// A run of the library.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) machine: Machine,
    pub(crate) policy: Policy,
    pub(crate) run: fn(&Stage<'_>),
    /// The operation that is judged by herd7, and which is also judged without each of its steps: from 0.
    pub(crate) operation: usize,
    /// True if herd7 is asked about the publication of a table, false if about the return.
    pub(crate) publication: bool,
    pub(crate) casemate: Sees,
}

impl Scene {
    /// Returns true if herd7 can see what a missing step breaks.
    pub(crate) fn herd_sees(&self, rule: Option<Rule>, removed: &Event) -> bool {
        // How a table is filled, and what two addresses of a page permit at a time, are other questions. And herd7's
        // CPUs are not those that need a TLBI twice.
        let other_question = match rule {
            Some(Rule::Unfilled) => !self.publication,
            rule => rule == Some(Rule::WritableAlias),
        };
        // In a litmus test a write of a table base register has a DSB, and an ISB or DSB after it is made up for later.
        let made_up_for = self.policy == Policy::Park && !matches!(removed, Event::Tlbi { .. });
        let repeats = self.machine.cores.iter().any(|c| c.repeat_tlbi);
        !(other_question
            || made_up_for
            || repeats && matches!(removed, Event::Dsb { kind: Barrier::Ish, .. }))
    }
}

const fn scene(name: &'static str, machine: Machine, run: fn(&Stage<'_>), casemate: Sees) -> Scene {
    let policy = Policy::Live;
    Scene { name, machine, policy, run, operation: 0, publication: false, casemate }
}

const READ_ONLY: Attributes = Attributes::RAM.union(Attributes::READ_ONLY);
const K4: Machine = Machine::new(Granule::K4, 48);
const K4_39: Machine = Machine::new(Granule::K4, 39);
const K16: Machine = Machine::new(Granule::K16, 47);
const K64: Machine = Machine::new(Granule::K64, 42);
const LPA2: Machine = Machine { format: OaFormat::Lpa2, ..Machine::new(Granule::K4, 52) };
const LPA: Machine = Machine { format: OaFormat::Lpa, ..Machine::new(Granule::K64, 52) };
const ALIASED: Machine = Machine { aliased: true, ..K4 };
const ALONE: Machine = Machine { cores: &[Core::WEAK], ..K4 };
const REPEATS: Machine = Machine { cores: &[Core { repeat_tlbi: true, ..Core::STRONG }; 2], ..K4 };
const NO_RANGES: Machine = Machine { cores: &[Core { range_tlbi: false, ..Core::STRONG }; 4], ..K4 };

const LIVE_SIZE: Sees = Sees::FalseAlarm(&FALSE_ALARMS[0]);
const TABLE_GOES: Sees = Sees::FalseAlarm(&FALSE_ALARMS[1]);

/// All scenes.
pub(crate) const SCENES: &[Scene] = &[
    scene("map a page", K4, map_page, Sees::Nothing),
    scene("map a page, 39 bits", K4_39, map_page, Sees::Nothing),
    scene("map a page, 16K", K16, map_page, Sees::Refused),
    scene("map a page, 52 bits", LPA2, map_page, Sees::Refused),
    Scene { publication: true, ..scene("publish a table", K4, map_elsewhere, Sees::Nothing) },
    Scene { publication: true, ..scene("publish a table, 64K", K64, map_elsewhere, Sees::Refused) },
    scene("map with a table", K4, map_elsewhere, Sees::Nothing),
    scene("read-only page", K4, protect_page, Sees::Nothing),
    scene("read-only page, 39 bits", K4_39, protect_page, Sees::Nothing),
    scene("read-only page, 16K", K16, protect_page, Sees::Refused),
    scene("read-only page, 64K, 52 bits", LPA, protect_page, Sees::Refused),
    scene("read-only page, repeated TLBI", REPEATS, protect_page, Sees::Nothing),
    scene("read-only pages, by range", K4, protect_pages, Sees::Nothing),
    scene("read-only pages, no ranges", NO_RANGES, protect_two, Sees::Nothing),
    scene("read-only block", K4, protect_block, Sees::Nothing),
    Scene { operation: 1, ..scene("writable again", K4, writable_again, Sees::Nothing) },
    scene("unmap a page", K4, unmap_page, Sees::Nothing),
    scene("unmap a page, 64K", K64, unmap_page, Sees::Refused),
    scene("unmap and map a page", K4, unmap_and_map, Sees::Reuse),
    scene("unmap and map pages, by range", K4, unmap_and_map_pages, Sees::Reuse),
    scene("unmap and map a block", K4, unmap_and_map_block, Sees::Reuse),
    scene("unmap a table's pages", K4, unmap_table, TABLE_GOES),
    scene("invalid and valid again", K4_39, invalid_and_valid, Sees::Reuse),
    scene("split a block, one page read-only", K4, split_block, LIVE_SIZE),
    scene("split to pages and join", K4, split_and_join, LIVE_SIZE),
    scene("set_memory_ro with the alias", ALIASED, set_memory_ro, LIVE_SIZE),
    Scene { operation: 1, ..scene("set_memory_rw with the alias", ALIASED, set_memory_rw, LIVE_SIZE) },
    Scene { policy: Policy::Park, ..scene("split a block, parked", ALONE, split_block, Sees::Refused) },
];

fn map_page(s: &Stage<'_>) {
    let va = Va(s.area().0 + PAGES * s.g.page_size());
    map(s, va, 1);
}

fn map_elsewhere(s: &Stage<'_>) {
    map(s, s.empty(), 1);
}

fn map(s: &Stage<'_>, va: Va, pages: u64) {
    s.does("map", &[(va, pages * s.g.page_size(), Some(Attributes::RAM))], || {
        // SAFETY: the memory is the model's.
        unsafe { s.space.on(&s.cpu).map(va, pages, s.pa(va), Attributes::RAM) }
    });
}

fn unmap(s: &Stage<'_>, va: Va, pages: u64) {
    s.does("unmap", &[(va, pages * s.g.page_size(), None)], || {
        // SAFETY: the memory is the model's.
        unsafe { s.space.on(&s.cpu).unmap(va, pages) }
    });
}

fn protect(s: &Stage<'_>, va: Va, pages: u64, writable: bool) {
    let (change, attributes) =
        if writable { (Change::WRITABLE, Attributes::RAM) } else { (Change::READ_ONLY, READ_ONLY) };
    s.does("protect", &[(va, pages * s.g.page_size(), Some(attributes))], || {
        // SAFETY: the memory is the model's.
        unsafe { s.space.on(&s.cpu).protect(va, pages, change) }
    });
}

fn protect_page(s: &Stage<'_>) {
    protect(s, s.area(), 1, false);
}

fn protect_pages(s: &Stage<'_>) {
    protect(s, s.area(), 40, false);
}

fn protect_two(s: &Stage<'_>) {
    protect(s, s.area(), 2, false);
}

fn protect_block(s: &Stage<'_>) {
    protect(s, s.linear(), s.block() / s.g.page_size(), false);
}

fn writable_again(s: &Stage<'_>) {
    protect(s, s.area(), 1, false);
    protect(s, s.area(), 1, true);
}

fn unmap_page(s: &Stage<'_>) {
    unmap(s, s.area(), 1);
}

fn unmap_and_map(s: &Stage<'_>) {
    unmap(s, s.area(), 1);
    map(s, s.area(), 1);
}

fn unmap_and_map_pages(s: &Stage<'_>) {
    unmap(s, s.area(), 40);
    map(s, s.area(), 40);
}

fn unmap_and_map_block(s: &Stage<'_>) {
    let pages = s.block() / s.g.page_size();
    unmap(s, s.linear(), pages);
    map(s, s.linear(), pages);
}

/// The table of the area is empty afterwards, and given back.
fn unmap_table(s: &Stage<'_>) {
    unmap(s, s.area(), PAGES);
}

fn invalid_and_valid(s: &Stage<'_>) {
    let page = s.g.page_size();
    for valid in [false, true] {
        let to =
            linmap_model::Mapping { valid, ..linmap_model::Mapping::new(s.pa(s.area()), Attributes::RAM) };
        let change = linmap_model::Expected::new(s.area(), page, Some(to));
        s.cpu.begins(s.space.root(), if valid { "valid" } else { "invalid" }, &[change]);
        // SAFETY: the memory is the model's.
        s.cpu.done(unsafe { s.space.on(&s.cpu).set_valid(s.area(), 1, valid) }.is_ok());
    }
}

fn split_block(s: &Stage<'_>) {
    protect(s, s.linear(), 1, false);
}

fn split_and_join(s: &Stage<'_>) {
    protect(s, s.linear(), 1, false);
    protect(s, s.linear(), 1, true);
    let pages = s.block() / s.g.page_size();
    s.does("collapse", &[(s.linear(), s.block(), Some(Attributes::RAM))], || {
        s.space.on(&s.cpu).collapse(s.linear(), pages)
    });
}

fn set_memory_ro(s: &Stage<'_>) {
    let page = s.g.page_size();
    let ranges = [s.area(), s.linear()].map(|va| (va, page, Some(READ_ONLY)));
    s.does("set_memory_ro", &ranges, || {
        let mut aliased = Aliased::new(s.space.on(&s.cpu), s.offset(), Rodata::Full);
        // SAFETY: the memory is the model's.
        unsafe { aliased.set_memory_ro(s.area(), 1) }
    });
}

fn set_memory_rw(s: &Stage<'_>) {
    set_memory_ro(s);
    let page = s.g.page_size();
    let ranges = [s.area(), s.linear()].map(|va| (va, page, Some(Attributes::RAM)));
    s.does("set_memory_rw", &ranges, || {
        let mut aliased = Aliased::new(s.space.on(&s.cpu), s.offset(), Rodata::Full);
        // SAFETY: the memory is the model's.
        unsafe { aliased.set_memory_rw(s.area(), 1) }
    });
}
