//! Areas whose pages the linear map has as well: what becomes of each page, of its alias, and of all others.

mod all_or_nothing;
mod cost;
mod edges;
mod flat;
mod refused;
mod world;

use linmap::error::ChangeError;
use linmap::{Geometry, Granule, Rodata};

use flat::{Set, changed};
use test_support::{Random, Rows, geometries, some_geometries};
use world::{Paced, Piece, World, WorldOf, shapes};

/// The changes of a part of an area, one after the other; in the end it is as at first.
const SEQUENCE: [Set; 14] = [
    Set::Ro,
    Set::Ro,
    Set::X,
    Set::Rw,
    Set::Nx,
    Set::Rw,
    Set::X,
    Set::Rox,
    Set::Valid(false),
    Set::Nx,
    Set::Rw,
    Set::Ro,
    Set::Valid(true),
    Set::Rw,
];

/// Parts of an area: first page, and how many.
fn parts(pages: u64) -> Vec<(u64, u64)> {
    let mut parts = vec![(0, pages), (0, 1), (pages / 2, 1), (pages - 1, 1), (pages / 3, pages.div_ceil(2))];
    parts.dedup();
    parts
}

#[test]
fn each_page_and_each_alias_is_what_it_must_be() {
    let (done, refused) = each_page_and_each_alias(World::new, some_geometries(3));
    assert!(done > 7_000 && refused > 700, "{done} done, {refused} of them refused");
}

#[test]
fn and_so_it_is_after_many_holds() {
    let (done, refused) = each_page_and_each_alias(Paced::new, some_geometries(4));
    assert!(done > 5_000 && refused > 500, "{done} done, {refused} of them refused");
}

/// Returns how many changes were done, and how many were refused.
fn each_page_and_each_alias<const HOLD: usize>(
    new: impl Fn(Geometry, &[Piece]) -> WorldOf<HOLD>,
    geometries: impl IntoIterator<Item = Geometry>,
) -> (usize, usize) {
    let (mut done, mut refused) = (0, 0);
    for g in geometries {
        for (name, pieces) in shapes(g) {
            let world = new(g, &pieces);
            let created = world.leaves();
            let pages = pieces.iter().map(|p| p.1).sum();
            let mut flat = world.flat();
            // Large tables take long.
            let parts = parts(pages).into_iter().take(if g.granule() == Granule::K4 { 5 } else { 2 });
            for (first, pages) in parts {
                for set in SEQUENCE {
                    let predicted = changed(&flat, set, world.range(first, pages), Some(world.offset));
                    let result = world.set(set, first, pages);
                    let what =
                        || format!("{g:?}, {name}: {set:?} of {pages} pages from {first} on: {result:?}");
                    assert_eq!(result.is_ok(), predicted.is_some(), "{}", what());
                    (done, refused) = (done + 1, refused + usize::from(predicted.is_none()));
                    flat = predicted.unwrap_or(flat);
                    assert_eq!(world.flat(), flat, "{}", what());
                }
                // Counts and table pages are those of the tables.
                world.leaves();
            }
            world.collapse();
            assert_eq!(world.leaves(), created, "{g:?}, {name}");
        }
    }
    (done, refused)
}

/// Parts of an area change one after the other, whatever the others are and wherever they lie.
#[test]
fn parts_change_one_after_the_other() {
    let mut cases = Rows::new();
    for g in some_geometries(8) {
        for (name, pieces) in shapes(g) {
            cases.row(|seed| some_parts_change(World::new(g, &pieces), name, &pieces, seed));
            cases.row(|seed| some_parts_change(Paced::new(g, &pieces), name, &pieces, seed));
        }
    }
}

fn some_parts_change<const HOLD: usize>(world: WorldOf<HOLD>, name: &str, pieces: &[Piece], seed: u64) {
    let (g, all): (_, u64) = (world.g, pieces.iter().map(|p| p.1).sum());
    let (mut flat, mut random) = (world.flat(), Random::new(seed));
    for n in 0..40 {
        let (first, set) = (random.below(all), random.of(&SEQUENCE));
        let pages = (random.below(20) + 1).min(all - first);
        let predicted = changed(&flat, set, world.range(first, pages), Some(world.offset));
        let result = world.set(set, first, pages);
        assert_eq!(result.is_ok(), predicted.is_some(), "{g:?}, {name}: {n}, {set:?}, {result:?}");
        flat = predicted.unwrap_or(flat);
        assert_eq!(world.flat(), flat, "{g:?}, {name}: {n}, {set:?}");
        if n % 10 == 9 {
            world.collapse();
            assert_eq!(world.flat(), flat, "{g:?}, {name}: {n}");
        }
    }
}

/// Aliases follow where all of kernel memory is protected, and nowhere else.
#[test]
fn aliases_stay_unless_rodata_is_full() {
    for g in geometries() {
        for rodata in [Rodata::Off, Rodata::On] {
            for (name, pieces) in shapes(g) {
                let world = World::new(g, &pieces);
                let mut flat = world.flat();
                let pages = pieces.iter().map(|p| p.1).sum();
                for set in [Set::Ro, Set::Rw, Set::Rox] {
                    flat = changed(&flat, set, world.range(0, pages), None).expect("no reason not to");
                    assert_eq!(world.set_with(rodata, set, 0, pages), Ok(()), "{g:?}, {name}");
                    assert_eq!(world.flat(), flat, "{g:?}, {rodata}, {name}: {set:?}");
                }
            }
        }
    }
}

/// A writable page is not made executable, nor the other way round, and after a refusal aliases stay as they are.
#[test]
fn writable_and_executable_is_refused() {
    for g in geometries() {
        refuses_writable_and_executable(World::new(g, &[(4, 9), (40, 3)]));
        refuses_writable_and_executable(Paced::new(g, &[(4, 9), (40, 3)]));
    }
}

fn refuses_writable_and_executable<const HOLD: usize>(world: WorldOf<HOLD>) {
    let g = world.g;
    let before = world.leaves();
    assert!(matches!(world.set(Set::X, 0, 12), Err(ChangeError::WriteExecute { .. })), "{g:?}");
    assert_eq!(world.leaves(), before, "{g:?}");
    world.set(Set::Rox, 9, 1).expect("no reason not to");
    let before = world.leaves();
    world.steps();
    let refused = ChangeError::WriteExecute { va: linmap::Va(world.range(9, 1).0) };
    assert_eq!(world.set(Set::Rw, 0, 12), Err(refused), "{g:?}");
    assert_eq!((world.leaves(), world.steps()), (before, vec![]), "{g:?}");
    world.space.allow_write_execute(true);
    assert_eq!(world.set(Set::Rw, 0, 12), Ok(()), "{g:?}");
    assert_eq!(world.set(Set::Nx, 0, 12), Ok(()), "{g:?}");
}
