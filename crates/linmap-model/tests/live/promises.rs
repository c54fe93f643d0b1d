//! The exact cost of each call: barriers, invalidations and stores.

use linmap::arch::Level;
use linmap::{Attributes, Change, Geometry, Granule, Half, OaFormat, Policy, Region};
use linmap_model::{Barrier, Core, Event, Tlb};
use test_support::Log;

use crate::operation::{Operation, What};
use crate::world::{Machine, World, ram};

/// The counts of one call.
#[derive(PartialEq, Eq, Debug, Default)]
struct Cost {
    dsb: Vec<Barrier>,
    tlbi: Vec<Tlb>,
    isb: usize,
    /// Stores into live tables.
    stores: usize,
    /// Table pages taken, and given back.
    taken: usize,
    given: usize,
}

const ST: Barrier = Barrier::Ishst;
const ALL: Barrier = Barrier::Ish;

fn g4k() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

/// The first address that these maps have.
fn start(g: Geometry) -> u64 {
    g.base(Half::Upper) + (64 << 30)
}

/// The cost of one operation on a fresh map.
struct Case {
    g: Geometry,
    cores: Vec<Core>,
    policy: Policy,
    regions: Vec<Region>,
    /// The operations before it, which are not counted.
    before: Vec<Operation>,
}

impl Case {
    /// A block of 2M, and 1024 pages after it.
    fn new(core: Core) -> Self {
        let g = g4k();
        let block = ram(start(g), 1 << 40, 2 << 20);
        let mut pages = ram(start(g) + (2 << 20), (1 << 40) + (2 << 20), 4 << 20);
        pages.leaves = linmap::Leaves::Pages;
        Self { g, cores: vec![core], policy: Policy::Live, regions: vec![block, pages], before: Vec::new() }
    }

    fn after(mut self, what: What, first: u64, pages: u64) -> Self {
        self.before.push(Operation { what, va: start(self.g) + first * self.g.page_size(), pages });
        self
    }

    /// The cost of an operation on the pages from this one on.
    fn cost(&self, what: What, first: u64, pages: u64) -> Cost {
        let machine = Machine::new(self.g, &self.cores, 64, 0x1000_0000);
        let mut world = World::new(&machine, Half::Upper, &self.regions);
        world.set_policy(self.policy);
        for operation in &self.before {
            world.does(0, operation).expect("no reason not to");
        }
        let log = Log::default();
        machine.model.log_to(log.clone()).expect("a log in memory");
        let va = start(self.g) + first * self.g.page_size();
        let before = world.space.on(&world.cpu(0)).changes();
        world.does(0, &Operation { what, va, pages }).expect("no reason not to");
        let after = world.space.on(&world.cpu(0)).changes();
        let text = String::from_utf8(log.take()).expect("text");
        let events = text.lines().skip(1).map(|line| serde_json::from_str(line).expect("an event"));
        let cost = cost(events);
        // Those of parked CPUs are the platform's.
        let issued = cost.tlbi.iter().filter(|op| **op != Tlb::Vmalle1).count();
        let counted = after.invalidations - before.invalidations;
        assert_eq!(counted, issued as u64, "invalidations that the map counts");
        cost
    }
}

fn cost(events: impl Iterator<Item = Event>) -> Cost {
    let mut cost = Cost::default();
    let mut offline = Vec::new();
    for event in events {
        match event {
            Event::Dsb { kind, .. } => cost.dsb.push(kind),
            Event::Tlbi { op, .. } => cost.tlbi.push(op),
            Event::Isb { .. } => cost.isb += 1,
            Event::Alloc { table, .. } => {
                offline.push(table);
                cost.taken += 1;
            }
            Event::Free { .. } => cost.given += 1,
            Event::Write { table, count, .. } if !offline.contains(&table) => cost.stores += count,
            _ => {}
        }
    }
    cost
}

const READ_ONLY: What = What::Protect(Change::READ_ONLY);

#[test]
fn a_page_costs_one_store_and_one_batch() {
    let case = Case::new(Core::STRONG);
    let one = Cost { dsb: vec![ST, ALL], tlbi: vec![Tlb::Vaale1is], isb: 1, stores: 1, ..Cost::default() };
    assert_eq!(case.cost(READ_ONLY, 600, 1), one);
    assert_eq!(case.cost(What::SetValid(false), 600, 1), one);
    // A whole block is one entry, whatever its size.
    assert_eq!(case.cost(READ_ONLY, 0, 512), one);
    assert_eq!(case.cost(What::SetValid(false), 0, 512), one);
}

#[test]
fn a_split_costs_one_more_barrier() {
    let case = Case::new(Core::STRONG);
    let split = |taken| Cost {
        dsb: vec![ST, ST, ALL],
        tlbi: vec![Tlb::Vaale1is],
        isb: 1,
        stores: 1,
        taken,
        ..Cost::default()
    };
    assert_eq!(case.cost(READ_ONLY, 100, 1), split(1));
    assert_eq!(case.cost(READ_ONLY, 100, 16), split(1));
    assert_eq!(case.cost(What::SetValid(false), 511, 1), split(1));
}

/// Walkers see that a run is dissolved before one of its members changes; that its size changes takes no barrier.
#[test]
fn a_part_of_a_run_costs_one_more_barrier() {
    let mut case = Case::new(Core::STRONG);
    // A run of 16 pages, and one of 16 blocks.
    let blocks = ram(start(case.g) + (32 << 20), (1 << 40) + (32 << 20), 32 << 20);
    case.regions = vec![ram(start(case.g), 1 << 40, 64 << 10), blocks];
    let part = |stores, tlbi| Cost { dsb: vec![ST, ST, ALL], tlbi, isb: 1, stores, ..Cost::default() };
    assert_eq!(case.cost(READ_ONLY, 3, 1), part(17, vec![Tlb::Vaale1is]));
    assert_eq!(case.cost(READ_ONLY, 3, 2), part(18, vec![Tlb::Rvaale1is]));
    assert_eq!(case.cost(What::SetValid(false), 3, 1), part(17, vec![Tlb::Vaale1is]));
    // The barrier is that of the new table.
    let split = Cost { taken: 1, ..part(17, vec![Tlb::Vaale1is]) };
    assert_eq!(case.cost(READ_ONLY, 8192 + 600, 1), split);
    let alone = Cost { dsb: vec![ST], isb: 1, stores: 16, ..Cost::default() };
    assert_eq!(case.cost(What::SplitToPages, 3, 1), alone);
    let whole = case.cost(READ_ONLY, 0, 16);
    assert_eq!((whole.stores, whole.dsb), (16, vec![ST, ALL]));
}

#[test]
fn what_becomes_valid_is_not_invalidated() {
    let fresh = |stores| Cost { dsb: vec![ST], isb: 1, stores, ..Cost::default() };
    for core in [Core::STRONG, Core { repeat_tlbi: true, ..Core::STRONG }] {
        let case = Case::new(core).after(What::SetValid(false), 600, 3);
        assert_eq!(case.cost(What::SetValid(true), 600, 3), fresh(3));
        // Of these some are valid already, and stay.
        assert_eq!(case.cost(What::SetValid(true), 590, 40), fresh(3));
        // Permissions of what is not valid.
        assert_eq!(case.cost(READ_ONLY, 600, 3), fresh(3));
        let gone = Case::new(core).after(What::Unmap, 600, 3);
        let mapping = What::Map((1 << 40) + 600 * 4096, Attributes::RAM);
        assert_eq!(gone.cost(mapping, 600, 3), fresh(3));
    }
}

#[test]
fn new_tables_cost_a_barrier_and_a_store_each() {
    let case = Case::new(Core::STRONG);
    let mapping = What::Map((1 << 40) + (8 << 20), Attributes::RAM);
    let pages = Cost { dsb: vec![ST, ST], isb: 1, stores: 1, taken: 1, ..Cost::default() };
    assert_eq!(case.cost(mapping, 4 * 512, 3), pages);
    // Blocks into a table that is there: nothing is built.
    let blocks = Cost { dsb: vec![ST], isb: 1, stores: 2, ..Cost::default() };
    assert_eq!(case.cost(mapping, 4 * 512, 1024), blocks);
}

#[test]
fn a_leaf_that_is_right_is_not_touched() {
    let nothing = Cost::default();
    for (what, policy) in [
        (What::Protect(Change::WRITABLE), Policy::Live),
        (What::Protect(Change::NOT_EXECUTABLE), Policy::Fixed),
        (What::SetValid(true), Policy::Pages),
        (What::SetValid(true), Policy::Park),
    ] {
        let mut case = Case::new(Core::WEAK);
        case.policy = policy;
        // Neither pages, nor a block, nor a part of one, nor both.
        for (first, pages) in [(600, 5), (0, 512), (100, 3), (511, 2)] {
            assert_eq!(case.cost(what, first, pages), nothing, "{what:?} {first} {pages}");
        }
    }
    let case = Case::new(Core::STRONG).after(READ_ONLY, 600, 1);
    let cost = case.cost(READ_ONLY, 598, 5);
    assert_eq!((cost.stores, cost.dsb), (4, vec![ST, ALL]));
    // Nothing to collapse, nothing to split.
    let case = Case::new(Core::STRONG);
    for cost in [case.cost(What::Collapse, 0, 512), case.cost(What::SplitToPages, 600, 100)] {
        assert_eq!((cost.stores, cost.taken, cost.tlbi.len()), (0, 0, 0));
    }
}

#[test]
fn ranges_are_invalidated_by_range_where_all_cpus_can() {
    let case = Case::new(Core::STRONG);
    let tlbi = |case: &Case, pages| case.cost(READ_ONLY, 512, pages).tlbi;
    assert_eq!(tlbi(&case, 64), [Tlb::Rvaale1is]);
    assert_eq!(tlbi(&case, 65), [Tlb::Rvaale1is, Tlb::Vaale1is]);
    assert_eq!(tlbi(&case, 1024), [Tlb::Rvaale1is]);
    let mut mixed = Case::new(Core::STRONG);
    mixed.cores.push(Core { range_tlbi: false, ..Core::STRONG });
    assert_eq!(tlbi(&mixed, 64), [Tlb::Vaale1is; 64]);
    assert_eq!(tlbi(&mixed, 511), [Tlb::Vaale1is; 511]);
    assert_eq!(tlbi(&mixed, 512), [Tlb::Vmalle1is]);
    assert_eq!(mixed.cost(READ_ONLY, 512, 1024).dsb, [ST, ALL]);
}

#[test]
fn a_batch_is_repeated_where_one_cpu_needs_it() {
    let mut case = Case::new(Core::STRONG);
    case.cores.push(Core { repeat_tlbi: true, ..Core::STRONG });
    let twice = Cost {
        dsb: vec![ST, ALL, ALL],
        tlbi: vec![Tlb::Vaale1is, Tlb::Vale1is],
        isb: 1,
        stores: 1,
        ..Cost::default()
    };
    assert_eq!(case.cost(READ_ONLY, 600, 1), twice);
    let all = case.cost(READ_ONLY, 512, 64);
    assert_eq!(all.tlbi, [Tlb::Rvaale1is, Tlb::Vale1is]);
}

#[test]
fn tables_go_after_walk_caches_have_forgotten_them() {
    let case = Case::new(Core::STRONG);
    // A whole table by one store.
    let table = case.cost(What::Unmap, 512, 512);
    let whole = Cost {
        dsb: vec![ST, ALL],
        tlbi: vec![Tlb::Rvaae1is],
        isb: 1,
        given: 1,
        stores: table.stores,
        ..Cost::default()
    };
    assert_eq!(table, whole);
    // One of which nothing is left goes too.
    let case = case.after(What::Unmap, 512, 511);
    let last = case.cost(What::Unmap, 1023, 1);
    assert_eq!((last.given, last.stores, last.dsb), (1, 2, vec![ST, ALL]));
    assert!(last.tlbi.iter().all(|op| *op == Tlb::Vaae1is), "{:?}", last.tlbi);
    // A table of pages becomes a block again: one store.
    let case =
        Case::new(Core::STRONG).after(READ_ONLY, 100, 1).after(What::Protect(Change::WRITABLE), 100, 1);
    let back = case.cost(What::Collapse, 100, 1);
    let expected = Cost {
        dsb: vec![ST, ALL],
        tlbi: vec![Tlb::Rvaae1is],
        isb: 1,
        given: 1,
        stores: 1,
        ..Cost::default()
    };
    assert_eq!(back, expected);
}

/// Parked CPUs drop all they hold: no invalidation of the others, one parking whatever the two ends take.
#[test]
fn cpus_are_parked_once_for_a_change() {
    let g = g4k();
    let mut case = Case::new(Core::WEAK);
    case.policy = Policy::Park;
    case.cores.push(Core::STRONG);
    case.regions = vec![ram(start(g), 1 << 40, 8 * g.level_size(Level::new(2)))];
    let cost = case.cost(READ_ONLY, 511, 2);
    let local = cost.tlbi.iter().filter(|op| **op == Tlb::Vmalle1).count();
    assert_eq!((local, cost.tlbi.len(), cost.stores, cost.taken), (2, 2, 2, 2));
}

/// A leaf that becomes a table, tables that become leaves, and tables that go: each is counted.
#[test]
fn splits_and_collapses_are_counted() {
    let case = Case::new(Core::STRONG);
    let machine = Machine::new(case.g, &case.cores, 64, 0x1000_0000);
    let mut world = World::new(&machine, Half::Upper, &case.regions);
    world.set_policy(Policy::Live);
    let mut counts = |what, first, pages| {
        let va = start(case.g) + first * case.g.page_size();
        world.does(0, &Operation { what, va, pages }).expect("no reason not to");
        let changes = world.space.on(&world.cpu(0)).changes();
        (changes.splits, changes.collapses)
    };
    assert_eq!(counts(READ_ONLY, 100, 1), (1, 0));
    assert_eq!(counts(What::Protect(Change::WRITABLE), 100, 1), (1, 0));
    assert_eq!(counts(What::Collapse, 100, 1), (1, 1));
    assert_eq!(counts(What::SplitToPages, 511, 1), (2, 1));
    assert_eq!(counts(What::Unmap, 512, 511), (2, 1));
    // Its table goes with the last page, one with all that is in it, and in the end those above.
    assert_eq!(counts(What::Unmap, 1023, 1), (2, 2));
    assert_eq!(counts(What::Unmap, 1024, 512), (2, 3));
    assert_eq!(counts(What::Unmap, 0, 512), (2, 6));
}
