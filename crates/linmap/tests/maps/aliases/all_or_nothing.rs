//! Table pages that run out at every single one that is taken, policies and CPUs that do not permit a change of size:
//! permissions, leaves, counts and table pages are as before.

use linmap::error::ChangeError;
use linmap::{Frame, Memory, Policy, Promise};
use test_support::some_geometries;

use crate::aliases::flat::Set;
use crate::aliases::parts;
use crate::aliases::world::{Paced, World, WorldOf, shapes};

const SETS: [Set; 5] = [Set::Ro, Set::Rox, Set::Nx, Set::Valid(false), Set::Rw];

/// Takes all table pages but so many.
pub(crate) fn hoard<const HOLD: usize>(world: &WorldOf<HOLD>, left: usize) -> Vec<Frame> {
    let mut all: Vec<Frame> = std::iter::from_fn(|| world.memory.take()).collect();
    all.drain(..left).for_each(|frame| world.memory.give(frame));
    all
}

/// How often it was without. Before and after, all is collapsed.
fn with_too_few(world: &World, set: Set, (first, pages): (u64, u64)) -> usize {
    let (g, before) = (world.g, world.leaves());
    for left in 0.. {
        let frames = hoard(world, left);
        let result = world.set(set, first, pages);
        frames.into_iter().for_each(|frame| world.memory.give(frame));
        if result.is_ok() {
            let built = world.memory.in_use() - before.2;
            assert_eq!(built, left, "{g:?}: tables built, and pages that it takes");
            return left;
        }
        assert_eq!(
            result,
            Err(ChangeError::OutOfFrames { taken: left as u64 }),
            "{g:?}: {set:?} {first} {pages}"
        );
        assert_eq!(world.leaves(), before, "{g:?}: {set:?} of {pages} from {first}, with {left}");
    }
    0
}

fn back<const HOLD: usize>(world: &WorldOf<HOLD>, pages: u64) {
    for set in [Set::Nx, Set::Rw, Set::Valid(true)] {
        world.set(set, 0, pages).expect("no reason not to");
    }
    world.collapse();
}

#[test]
fn without_table_pages_nothing_changes() {
    let mut without = 0;
    for g in some_geometries(12) {
        for (_, pieces) in shapes(g) {
            let pages = pieces.iter().map(|p| p.1).sum();
            let world = World::new(g, &pieces);
            let created = world.leaves();
            for part in parts(pages) {
                for set in SETS {
                    without += with_too_few(&world, set, part);
                    back(&world, pages);
                    assert_eq!(world.leaves(), created, "{g:?}");
                }
            }
        }
    }
    assert!(without > 500, "{without} times without");
}

/// Policies and CPUs that rule out live changes of size: nothing at all happens.
#[test]
fn what_is_ruled_out_is_not_begun() {
    let weak = Promise { never_aborts: false, range_tlbi: true, repeat_tlbi: false };
    let mut refused = 0;
    for g in some_geometries(4) {
        for policy in [Policy::Fixed, Policy::Pages, Policy::Live] {
            for (name, pieces) in shapes(g) {
                let pages: u64 = pieces.iter().map(|p| p.1).sum();
                let world = World::new(g, &pieces);
                let flat = world.flat();
                world.space.set_policy(policy);
                world.hardware.promise.set(weak);
                world.steps();
                for part in parts(pages) {
                    let before = world.leaves();
                    match world.set(Set::Ro, part.0, part.1) {
                        Ok(()) => {
                            world.set(Set::Rw, part.0, part.1).expect("no leaf changes its size");
                            assert_eq!(world.leaves().1, before.1, "{g:?}, {name}");
                            world.steps();
                        }
                        Err(ChangeError::NeedsResize { policy: why, .. }) => {
                            refused += 1;
                            assert_eq!(why, policy);
                            assert_eq!((world.leaves(), world.steps()), (before, vec![]), "{g:?}, {name}");
                        }
                        other => panic!("{g:?}, {name}: {other:?}"),
                    }
                }
                assert_eq!(world.flat(), flat, "{g:?}, {name}");
            }
        }
    }
    assert!(refused > 500, "{refused} refused");
}

/// In several holds it takes at least as many pages as tables are built. With fewer no translation changes, although leaves may
/// have been split: a collapse brings them back.
#[test]
fn nor_does_it_in_several_holds() {
    let (mut without, mut more) = (0, 0);
    for g in some_geometries(10) {
        for (name, pieces) in shapes(g) {
            let pages = pieces.iter().map(|p| p.1).sum();
            let world = Paced::new(g, &pieces);
            let (created, flat) = (world.leaves(), world.flat());
            for (part, set) in parts(pages).into_iter().flat_map(|part| SETS.map(|set| (part, set))) {
                for left in 0.. {
                    let frames = hoard(&world, left);
                    let result = world.set(set, part.0, part.1);
                    frames.into_iter().for_each(|frame| world.memory.give(frame));
                    if result.is_ok() {
                        let built = world.memory.in_use() - created.2;
                        assert!(built <= left, "{g:?}, {name}");
                        (without, more) = (without + left, more + left - built);
                        break;
                    }
                    assert!(matches!(result, Err(ChangeError::OutOfFrames { .. })), "{g:?}, {name}");
                    assert_eq!(world.flat(), flat, "{g:?}, {name}: {set:?}, with {left}");
                    world.collapse();
                    assert_eq!(world.leaves(), created, "{g:?}, {name}: {set:?}, with {left}");
                }
                back(&world, pages);
                assert_eq!(world.leaves(), created, "{g:?}");
            }
        }
    }
    assert!(without > 400 && more < without / 4, "{without} times without, {more} more than built");
}

/// The other CPUs refuse once, or from then on: nothing has changed.
#[test]
fn cpus_that_do_not_park() {
    let mut refused = 0;
    for g in some_geometries(4) {
        for (name, pieces) in shapes(g) {
            let pages: u64 = pieces.iter().map(|p| p.1).sum();
            let world = World::new(g, &pieces);
            world.space.set_policy(Policy::Park);
            let (created, flat) = (world.leaves(), world.flat());
            for parks in 0.. {
                world.hardware.parking.set((parks, 1));
                let Err(error) = world.set(Set::Ro, 0, pages) else { break };
                refused += 1;
                assert_eq!(error, ChangeError::CannotPark);
                assert_eq!(world.leaves(), created, "{g:?}, {name}: after {parks}");
                world.hardware.parking.set((parks, usize::MAX));
                assert_eq!(world.set(Set::Ro, 0, pages), Err(ChangeError::CannotPark));
                assert_eq!(
                    (world.leaves(), world.flat()),
                    (created.clone(), flat.clone()),
                    "{g:?}, {name}: after {parks}"
                );
                world.hardware.parking.set((usize::MAX, 0));
            }
            world.hardware.parking.set((usize::MAX, 0));
            back(&world, pages);
            assert_eq!(world.leaves(), created, "{g:?}, {name}");
        }
    }
    assert!(refused > 200, "{refused} refused");
}

/// In several holds they park once for each extent that is cut. Those that were cut before stay so, and translate as they
/// did.
#[test]
fn cpus_that_stop_parking_between_holds() {
    let mut refused = 0;
    for g in some_geometries(4) {
        for (name, pieces) in shapes(g) {
            let pages: u64 = pieces.iter().map(|p| p.1).sum();
            let world = Paced::new(g, &pieces);
            world.space.set_policy(Policy::Park);
            let (created, flat) = (world.leaves(), world.flat());
            for parks in 0.. {
                world.hardware.parking.set((parks, usize::MAX));
                let result = world.set(Set::Ro, 0, pages);
                world.hardware.parking.set((usize::MAX, 0));
                world.leaves();
                if result.is_ok() {
                    break;
                }
                refused += 1;
                assert_eq!((result, world.flat()), (Err(ChangeError::CannotPark), flat.clone()), "{g:?}");
            }
            back(&world, pages);
            assert_eq!(world.leaves(), created, "{g:?}, {name}");
        }
    }
    assert!(refused > 200, "{refused} refused");
}
