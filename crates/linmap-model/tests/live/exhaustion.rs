//! Table pages that run out, one earlier each time, and CPUs that refuse to be parked: the map stays as it
//! was, nothing is lost, and an operation takes as many pages as it builds tables.

use linmap::arch::{LeafSize, Level};
use linmap::error::ChangeError;
use linmap::{Attributes, Change, ChangeFlags, Geometry, Half, Policy};
use linmap_model::Core;
use test_support::some_geometries;

use crate::flat::fewest;
use crate::operation::{List, Operation, Refused, What};
use crate::world::{Form, Machine, World, ram};

/// Policies on CPUs for which they make a difference.
const POLICIES: [(Policy, Core); 4] = [
    (Policy::Live, Core::STRONG),
    (Policy::Park, Core::WEAK),
    (Policy::Fixed, Core::WEAK),
    (Policy::Pages, Core::STRONG),
];

/// Operations that end within leaves of `bytes`, three of which start at `at`.
fn operations(g: Geometry, at: u64, bytes: u64) -> Vec<Operation> {
    let page = g.page_size();
    let all = bytes >> g.page_shift();
    let middle = all / 2;
    let ranges = [(0, 1), (middle, 1), (all - 1, 2), (1, 3 * all - 2), (middle, all), (1, 1)];
    let mut list = Vec::new();
    for what in [What::Protect(Change::READ_ONLY), What::SetValid(false), What::Unmap] {
        list.extend(ranges.map(|(first, pages)| Operation { what, va: at + first * page, pages }));
    }
    for (first, pages) in [(middle, 1), (all - 1, 2)] {
        list.push(Operation { what: What::SplitToPages, va: at + first * page, pages });
    }
    // Further up nothing is mapped: whole leaves, and pages at both ends.
    let oa = (3 << 36) - page;
    let far = Operation { what: What::Map(oa, Attributes::RAM), va: at + 5 * bytes - page, pages: all + 2 };
    if far.last(g) < g.base(Half::Upper) + ((1 << g.va_bits()) - 1) {
        list.push(far);
    }
    list
}

/// Does an operation with 0 table pages, with 1, and so on, until it has enough. How often it had not.
fn with_too_few(world: &mut World<'_>, operation: &Operation) -> usize {
    let tables = world.walked.stats().tables;
    for left in 0.. {
        world.limit_frames(left);
        match world.does(0, operation) {
            Err(Refused::Change(ChangeError::OutOfFrames { .. })) => {}
            Ok(()) => {
                let built = world.walked.stats().tables - tables;
                assert_eq!(built, left as u64, "tables built, and pages it takes");
                return left;
            }
            Err(_) => return left,
        }
    }
    0
}

#[test]
fn without_frames_nothing_changes() {
    let (mut turn, mut frameless, mut unparked) = (0, 0, 0);
    for g in some_geometries(12) {
        for size in g.leaf_sizes().iter().filter(|s| s.bytes() <= 1 << (g.va_bits() - 4)) {
            let at = g.base(Half::Upper) + 2 * size.bytes();
            let operations = operations(g, at, size.bytes());
            let (policy, core) = POLICIES[turn % POLICIES.len()];
            turn += 1;
            let machine = Machine::new(g, &[core, Core::STRONG], 40, 0x1000_0000);
            let mut world = World::new(&machine, Half::Upper, &[ram(at, 1 << 44, 3 * size.bytes())]);
            for operation in operations {
                world.set_policy(policy);
                if policy == Policy::Pages && matches!(operation.what, What::Map(..)) && operation.pages > 100
                {
                    continue;
                }
                if policy == Policy::Park {
                    world.refuse_parking(true);
                    unparked += usize::from(
                        world.does(0, &operation) == Err(Refused::Change(ChangeError::CannotPark)),
                    );
                    world.refuse_parking(false);
                }
                frameless += with_too_few(&mut world, &operation);
                again(&mut world, at, 3 * size.bytes());
            }
            world.finish();
        }
    }
    assert!(frameless > 300 && unparked > 100, "{frameless} times without frames, {unparked} unparked");
}

/// Back to large leaves.
fn again(world: &mut World<'_>, at: u64, bytes: u64) {
    let g = world.g;
    world.set_policy(Policy::Park);
    let (va, pages) = (g.base(Half::Upper), 1 << (g.va_bits() - g.page_shift()));
    let holes = world.flat.within(at, at + (bytes - 1));
    let holes = holes.into_iter().filter(|p| p.2.is_none());
    for (first, last, _) in holes {
        let what = What::Map((1 << 44) + (first - at), Attributes::RAM);
        let pages = ((last - first) >> g.page_shift()) + 1;
        world.does(0, &Operation { what, va: first, pages }).expect("frames enough");
    }
    for what in [What::SetValid(true), What::Protect(Change::WRITABLE)] {
        world.does(0, &Operation { what, va: at, pages: bytes >> g.page_shift() }).expect("it is all mapped");
    }
    if let Some(&(first, last, _)) = world.flat.pieces().iter().find(|p| p.0 > at + bytes) {
        let pages = ((last - first) >> g.page_shift()) + 1;
        world.does(0, &Operation { what: What::Unmap, va: first, pages }).expect("no size changes");
    }
    world.does(0, &Operation { what: What::Collapse, va, pages }).expect("all can be parked");
    assert_eq!(world.walked.stats(), fewest(&world.flat, g));
}

/// A repaint takes a whole tree: it runs out at each of its tables, and when it has all, CPUs refuse.
#[test]
fn without_frames_nothing_is_repainted() {
    let (mut frameless, mut unparked) = (0, 0);
    for g in some_geometries(3) {
        let fits = |s: &&LeafSize| {
            s.bytes() <= 4 << (g.page_shift() + g.index_bits()) && s.bytes() <= 1 << (g.va_bits() - 4)
        };
        for size in g.leaf_sizes().iter().filter(fits) {
            let at = g.base(Half::Upper) + 2 * size.bytes();
            let cores = [Core::STRONG, Core::WEAK, Core::STRONG];
            let machine = Machine::new(g, &cores, 60, 0x1000_0000);
            let mut world = World::new(&machine, Half::Upper, &[ram(at, 1 << 44, 3 * size.bytes())]);
            world.set_policy(Policy::Park);
            let page = Operation { what: What::Protect(Change::READ_ONLY), va: at + size.bytes(), pages: 1 };
            world.does(0, &page).expect("CPUs park");
            let repaint = Operation::repaint(g, Half::Upper);
            world.refuse_parking(true);
            assert_eq!(world.does(1, &repaint), Err(Refused::Change(ChangeError::CannotPark)));
            unparked += 1;
            world.refuse_parking(false);
            for left in 0.. {
                world.limit_frames(left);
                match world.does(2, &repaint) {
                    Err(error) => {
                        assert_eq!(error, Refused::Change(ChangeError::OutOfFrames { taken: left as u64 }));
                    }
                    Ok(()) => break,
                }
                frameless += 1;
            }
            world.finish();
        }
    }
    assert!(frameless > 300 && unparked > 30, "{frameless} times without frames, {unparked} unparked");
}

/// A list cuts one leaf after the other before it changes any. If there is no table page for a later one, it is refused, and the tables
/// that replace the first are complete for all walkers.
#[test]
fn a_list_that_runs_out_has_cut_for_all_walkers() {
    let mut frameless = 0;
    for g in some_geometries(12) {
        let (page, block) = (g.page_size(), g.level_size(Level::new(2)));
        if block > 1 << (g.va_bits() - 4) {
            continue;
        }
        let at = g.base(Half::Upper) + 2 * block;
        for form in [Form::Shared, Form::Alone] {
            let machine = Machine::new(g, &[Core::STRONG, Core::STRONG], 40, 0x1000_0000);
            let regions = [ram(at, 1 << 44, block), ram(at + block, 1 << 45, block)];
            let mut world = World::new(&machine, Half::Upper, &regions);
            world.set_policy(Policy::Live);
            world.set_form(form);
            // Where nothing is valid, no address becomes so, and no CPU has to synchronise.
            let invalid = Operation { what: What::SetValid(false), va: at + block, pages: block / page };
            world.does(0, &invalid).expect("a whole block");
            world.limit_frames(1);
            let list = List { stride: 2, reverse: true, twice: false };
            let what = What::ChangePages(Change::READ_ONLY, ChangeFlags::empty(), list);
            let operation = Operation { what, va: at + block - 40 * page, pages: 30 };
            let refused = Err(Refused::Change(ChangeError::OutOfFrames { taken: 0 }));
            frameless += usize::from(world.does(0, &operation) == refused);
            world.finish();
        }
    }
    assert!(frameless >= 12, "{frameless} times without frames");
}
