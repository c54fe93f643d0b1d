//! The cost of a change of an area: barriers and invalidations in their order, and the order of the two sides.

use linmap::Dsb::{Ish, Ishst};
use linmap::arch::Tlbi;
use linmap::layout::linear_range;
use linmap::{Attributes, Geometry, Policy, Promise, Rodata, Va};

use crate::aliases::flat::Set;
use crate::aliases::world::Step::{Dsb, Isb, Sync};
use crate::aliases::world::{Step, World};
use test_support::geometries;

/// A linear map in pages, and an area.
fn in_pages(g: Geometry, pieces: &[(u64, u64)]) -> World {
    let world = World::empty(g, 0);
    world.space.set_policy(Policy::Pages);
    world.map(world.offset, 0, 2 << g.index_bits(), Attributes::RAM);
    world.area_of(pieces);
    world.steps();
    world
}

/// Returns the invalidations of each batch, and the steps after the last; each batch is as the architecture requires.
fn batches(steps: &[Step]) -> (Vec<Vec<Tlbi>>, &[Step]) {
    let (mut batches, mut rest) = (Vec::new(), steps);
    while let [Dsb(Ishst), behind @ ..] = rest {
        let tlbi = |step: &Step| if let Step::Tlbi(op) = *step { Some(op) } else { None };
        let batch: Vec<Tlbi> = behind.iter().map_while(tlbi).collect();
        let [Dsb(Ish), Isb, behind @ ..] = &behind[batch.len()..] else { panic!("{steps:x?}") };
        batches.push(batch);
        rest = behind;
    }
    (batches, rest)
}

/// Returns true if an invalidation is of the linear map.
fn is_linear(g: Geometry, op: Tlbi) -> bool {
    match op {
        Tlbi::Page(va, _) | Tlbi::Range { from: va, .. } => va <= linear_range(g).1,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pages_in_a_row_take_one_invalidation_a_side() {
    for g in geometries() {
        let world = in_pages(g, &[(64, 512)]);
        for (set, linear_first) in [(Set::Ro, true), (Set::Rw, false), (Set::Rox, true)] {
            world.set(set, 0, 512).expect("no reason not to");
            let steps = world.steps();
            let (batches, rest) = batches(&steps);
            assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1], "{g:?}: {set:?}");
            let linear = batches.concat().iter().map(|&op| is_linear(g, op)).collect::<Vec<_>>();
            assert_eq!(linear, [linear_first, !linear_first], "{g:?}: {set:?}");
            let sync = [Sync(Va(world.area), 512 * g.page_size())];
            assert_eq!(rest, &sync[..usize::from(set == Set::Rox)], "{g:?}: {set:?}");
        }
    }
}

/// However the pages lie, both sides are two batches.
#[test]
fn scattered_pages_take_two_batches() {
    for g in geometries() {
        for range_tlbi in [true, false] {
            let scattered: Vec<_> = (0..100).map(|n| (n * 37 % 101 * 2 + 1, 1)).collect();
            let world = in_pages(g, &scattered);
            world.hardware.promise.set(Promise { never_aborts: false, range_tlbi, repeat_tlbi: false });
            for (set, linear_first) in [(Set::Ro, true), (Set::Rw, false)] {
                world.set(set, 0, 100).expect("no reason not to");
                let steps = world.steps();
                let (batches, rest) = batches(&steps);
                assert_eq!((batches.len(), rest.len()), (2, 0), "{g:?}: {set:?}");
                let all = |batch: &[Tlbi], linear| batch.iter().all(|&op| is_linear(g, op) == linear);
                assert!(all(&batches[0], linear_first) && all(&batches[1], !linear_first), "{steps:x?}");
            }
        }
    }
}

/// A side without changes costs nothing: one side, or both.
#[test]
fn what_is_right_costs_nothing() {
    for g in geometries() {
        let world = in_pages(g, &[(3, 5), (90, 1)]);
        for (set, then) in
            [(Set::Ro, 0), (Set::Rox, 1), (Set::Nx, 1), (Set::Nx, 0), (Set::Rw, 2), (Set::Rw, 0)]
        {
            if set == Set::Ro {
                world.set(set, 0, 6).expect("no reason not to");
                world.steps();
            }
            world.set(set, 0, 6).expect("no reason not to");
            let steps = world.steps();
            assert_eq!(batches(&steps).0.len(), then, "{g:?}: {set:?}");
        }
        world.set_with(Rodata::On, Set::Ro, 0, 6).expect("no reason not to");
        assert_eq!(batches(&world.steps()).0.len(), 1, "{g:?}");
        // The area is right, the aliases are not.
        world.set(Set::Ro, 0, 6).expect("no reason not to");
        assert_eq!(batches(&world.steps()).0.len(), 1, "{g:?}");
        assert_eq!(world.set(Set::Ro, 0, 0), Ok(()));
        assert_eq!(world.steps(), []);
    }
}

/// A leaf that has to be cut costs a barrier, and a store.
#[test]
fn a_cut_costs_a_barrier() {
    for g in geometries() {
        let world = World::new(g, &[(30, 1)]);
        world.steps();
        world.set(Set::Ro, 0, 1).expect("no reason not to");
        let steps = world.steps();
        let [Dsb(Ishst), rest @ ..] = &steps[..] else { panic!("{steps:x?}") };
        assert_eq!(batches(rest).0.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1], "{g:?}");
        assert!(world.space.on(&world.platform()).changes().splits >= 1, "{g:?}");
    }
}
