//! A change that is refused half way leaves every table as it was, bit by bit: leaves that were
//! split beforehand are split, others are not, and the counts agree. Table pages run out at each one that is taken, and
//! CPUs refuse at each parking.

use linmap::arch::{Descriptor, Level};
use linmap::error::{ChangeError, CreateError, RepaintError};
use linmap::layout::linear_range;
use linmap::{Attributes, Change, Changes, Layout, Leaves, Memory, Pa, Policy, Rodata, Slot, Stats, Va};
use test_support::some_geometries;

use crate::aliases::all_or_nothing::hoard;
use crate::aliases::flat::Set;
use crate::aliases::world::{Piece, World};
use crate::raw::load;

/// Every table with all its entries, what is counted, and how many table pages are taken.
#[derive(PartialEq, Eq, Debug)]
struct State {
    tables: Vec<(Pa, Vec<Descriptor>)>,
    stats: Stats,
    changes: Changes,
    in_use: usize,
}

fn state(world: &World) -> State {
    let mut tables = Vec::new();
    add_table(world, world.space.root(), world.g.root(), &mut tables);
    let platform = world.platform();
    let (stats, changes) = (world.space.on(&platform).stats(), world.space.on(&platform).changes());
    assert_eq!(tables.len(), world.memory.in_use(), "{:?}: table pages in no tree", world.g);
    State { tables, stats, changes, in_use: world.memory.in_use() }
}

/// Panics with the first difference from what was before.
fn assert_same(world: &World, before: &State, what: &str) {
    let now = state(world);
    let g = world.g;
    assert_eq!(
        (now.stats, now.changes, now.in_use),
        (before.stats, before.changes, before.in_use),
        "{g:?}: {what}"
    );
    for (now, before) in now.tables.iter().zip(&before.tables) {
        assert_eq!(now.0, before.0, "{g:?}: {what}: another table");
        let differs = now.1.iter().zip(&before.1).enumerate().find(|(_, (now, before))| now != before);
        assert_eq!(differs, None, "{g:?}: {what}: in the table at {}", now.0);
    }
    assert_eq!(now, *before, "{g:?}: {what}");
}

fn add_table(world: &World, table: Pa, level: Level, tables: &mut Vec<(Pa, Vec<Descriptor>)>) {
    let slots = (0..world.g.entries(level)).map(|index| load(&world.memory, Slot { table, index }));
    let entries: Vec<_> = slots.collect();
    tables.push((table, entries.clone()));
    for entry in entries {
        if let linmap::arch::Entry::Table(below) = entry.decode(world.g, level) {
            add_table(world, below, level.next(), tables);
        }
    }
}

/// In pages: what the first three blocks of the linear map have, at the start of one, within it and across two.
fn of_linear(world: &World, first: u64) -> Va {
    Va(world.offset + first * world.g.page_size())
}

/// Changes that are all or nothing; but where CPUs stop to park half way, the last one may be done in part.
const OPERATIONS: [&str; 13] = [
    "set_memory_ro",
    "set_memory_rox",
    "protect",
    "protect one page",
    "set_valid",
    "unmap",
    "unmap_all",
    "map",
    "map beside",
    "map over something",
    "repaint",
    "create",
    "split_to_pages",
];

fn carry_out(w: &World, operation: &str) -> Result<(), ChangeError> {
    let (space, platform, page, block) = (&w.space, &w.platform(), w.g.page_size(), w.block());
    let at = |first| of_linear(w, first);
    // SAFETY: no CPU uses these tables.
    unsafe {
        match operation {
            "set_memory_ro" => w.set(Set::Ro, 0, w.pages),
            "set_memory_rox" => w.set(Set::Rox, w.pages / 3, w.pages - w.pages / 3),
            "protect" => space.on(platform).protect(at(5), block + 3, Change::READ_ONLY),
            "protect one page" => space.on(platform).protect(at(block + 5), 1, Change::READ_ONLY),
            "set_valid" => space.on(platform).set_valid(at(7), 2 * block, false),
            "unmap" => space.on(platform).unmap(at(9), block),
            "unmap_all" => space.on(platform).unmap_all(&[(at(3 * block), 7), (at(block + 1), 1)]),
            "map" => {
                space.on(platform).map(Va(w.area + (1 << 34) - 5 * page), 4 * block, Pa(block << 20), RAM)
            }
            "map beside" => {
                let first = 3 * block + 7;
                space.on(platform).map(at(first), block - 6, Pa(first * page), RAM)
            }
            "map over something" => space.on(platform).map(at(3 * block + 7), 2 * block, Pa(0), RAM),
            "repaint" => match space.on(platform).repaint(linear_range(w.g), &[]) {
                Ok(_) => Ok(()),
                Err(RepaintError::OutOfFrames { taken }) => Err(ChangeError::OutOfFrames { taken }),
                Err(RepaintError::CannotPark) => Err(ChangeError::CannotPark),
                Err(other) => panic!("{other}"),
            },
            "create" => {
                let mut ram = [Pa(1 << 44)..Pa((1 << 44) + 5 * page)];
                let layout = Layout::new(w.g, &mut ram, &mut [], Pa(0)..Pa(0), Rodata::Full);
                match space.on(platform).create(&layout.expect("RAM"), Leaves::Largest) {
                    Ok(_) => Ok(()),
                    Err(CreateError::Build(error)) => Err(error.into()),
                    Err(CreateError::Occupied { va }) => Err(ChangeError::Occupied { va }),
                    Err(other) => panic!("{other}"),
                }
            }
            _ => space.on(platform).split_to_pages(at(11), 2 * block + 3),
        }
    }
}

const RAM: Attributes = Attributes::RAM;

/// Areas whose aliases lie in one leaf or in many.
fn worlds() -> impl Iterator<Item = World> {
    some_geometries(4).into_iter().flat_map(|g| {
        let block = 1u64 << g.index_bits();
        let apart: Vec<Piece> = [3, block + 9, 2 * block + 1, 11].map(|first| (first, 2)).to_vec();
        [vec![(5, 1)], vec![(block - 3, 7)], apart].map(|pieces| World::new(g, &pieces))
    })
}

/// Some of the first block and of the area in pages, so that a later change of it cannot fail.
fn split_some(world: &World) {
    let platform = world.platform();
    for va in [of_linear(world, 3), of_linear(world, world.block() + 9)] {
        world.space.on(&platform).split_to_pages(va, 2).expect("frames enough");
    }
}

/// Does it with no table page left, with one, and so on. How often it had too few.
fn with_too_few(world: &World, operation: &str) -> usize {
    let before = state(world);
    for left in 0.. {
        let frames = hoard(world, left);
        let result = carry_out(world, operation);
        frames.into_iter().for_each(|frame| world.memory.give(frame));
        match result {
            Err(error) => assert_same(world, &before, &format!("{operation}, {left} left: {error}")),
            Ok(()) => return left,
        }
        if !matches!(result, Err(ChangeError::OutOfFrames { .. })) {
            return left;
        }
    }
    0
}

#[test]
fn without_table_pages_every_table_is_as_it_was() {
    let mut without = 0;
    for operation in OPERATIONS {
        for policy in [Policy::Live, Policy::Park] {
            for (n, world) in worlds().enumerate() {
                world.space.set_policy(policy);
                if n % 2 == 0 {
                    split_some(&world);
                }
                without += with_too_few(&world, operation);
            }
        }
    }
    assert!(without > 500, "{without} times without");
}

/// One parking is all that they take, but for `split_to_pages`.
#[test]
fn where_cpus_do_not_park_every_table_is_as_it_was() {
    let mut refused = 0;
    for operation in &OPERATIONS[..OPERATIONS.len() - 1] {
        for (n, world) in worlds().enumerate() {
            if n % 2 == 0 {
                split_some(&world);
            }
            world.space.set_policy(Policy::Park);
            for parks in 0.. {
                let before = state(&world);
                world.hardware.parking.set((parks, 1));
                match carry_out(&world, operation) {
                    Err(ChangeError::CannotPark) => refused += 1,
                    _ => break,
                }
                assert_same(&world, &before, &format!("{operation}, after {parks}"));
            }
        }
    }
    assert!(refused > 200, "{refused} refused");
}

/// The leaves of an area that has a page in each of so many blocks.
const BLOCKS: u64 = 40;

fn with_many_blocks(g: linmap::Geometry) -> World {
    let world = World { pages: BLOCKS, ..World::empty(g, 0) };
    world.map(world.offset, 0, BLOCKS * world.block(), RAM);
    world.area_of(&(0..BLOCKS).map(|n| (n * world.block() + 5, 1)).collect::<Vec<_>>());
    split_some(&world);
    world
}

/// So many cuts take several holds, however long these may be. What is cut when table pages run out stays cut, and translates as
/// it did: the next try goes on from there.
#[test]
fn many_leaves_are_cut_and_nothing_changes_without_all() {
    for world in some_geometries(4).into_iter().map(with_many_blocks) {
        let tables = world.memory.in_use();
        // Two blocks are in pages already.
        let mut needed = BLOCKS as usize - 2;
        let flat = world.flat();
        for left in [0, 1, 7, 8, 16] {
            let frames = hoard(&world, left);
            let refused = world.set(Set::Ro, 0, BLOCKS);
            assert!(matches!(refused, Err(ChangeError::OutOfFrames { .. })), "{:?}: {refused:?}", world.g);
            frames.into_iter().for_each(|frame| world.memory.give(frame));
            assert_eq!(world.flat(), flat, "{:?}", world.g);
        }
        let cut = world.memory.in_use() - tables;
        assert!(cut < needed, "{:?}: {cut} of {needed} cut", world.g);
        needed -= cut;
        let tables = world.memory.in_use();
        let frames = hoard(&world, needed);
        assert_eq!(world.set(Set::Ro, 0, BLOCKS), Ok(()), "{:?}", world.g);
        frames.into_iter().for_each(|frame| world.memory.give(frame));
        assert_eq!(world.memory.in_use(), tables + needed);
        let _ = world.leaves();
    }
}

/// A block that is cut for one alias is cut again for a later one, when many others have been: it takes one table.
#[test]
fn blocks_are_cut_twice() {
    for (g, policy) in some_geometries(4).into_iter().flat_map(|g| [(g, Policy::Live), (g, Policy::Park)]) {
        let world = World { pages: 2 * BLOCKS, ..World::empty(g, 0) };
        let block = world.block();
        world.map(world.offset, 0, BLOCKS * block, RAM);
        let places = [5, block - 7];
        let each = places.map(|at| (0..BLOCKS).map(move |n| (n * block + at, 1)));
        world.area_of(&each.into_iter().flatten().collect::<Vec<_>>());
        world.space.set_policy(policy);
        let (before, flat) = (state(&world), world.flat());
        let frames = hoard(&world, BLOCKS as usize - 1);
        let refused = world.set(Set::Ro, 0, world.pages);
        assert!(matches!(refused, Err(ChangeError::OutOfFrames { .. })), "{g:?}: {refused:?}");
        frames.into_iter().for_each(|frame| world.memory.give(frame));
        assert_eq!(world.flat(), flat, "{g:?}");
        // No more are asked for than all pages of these blocks would take, with the tables above.
        let frames = hoard(&world, BLOCKS as usize + 2);
        assert_eq!(world.set(Set::Ro, 0, world.pages), Ok(()), "{g:?}, {policy}");
        frames.into_iter().for_each(|frame| world.memory.give(frame));
        let (leaves, _, in_use) = world.leaves();
        assert_eq!(in_use - before.in_use, BLOCKS as usize, "{g:?}, {policy}");
        for (va, level, leaf) in leaves {
            let changes = level == Level::PAGE && places.contains(&(leaf.oa.0 / g.page_size() % block));
            assert_eq!(leaf.attributes.contains(Attributes::READ_ONLY), changes, "{g:?}, {policy}: {va}");
        }
    }
}

/// Where one parking is not enough, what was cut in those before stays cut and translates as it did. What was split
/// beforehand is split, the counts are those of the tables, and the next try does it.
#[test]
fn cpus_that_stop_parking_half_way() {
    for g in some_geometries(4) {
        let world = with_many_blocks(g);
        world.space.set_policy(Policy::Park);
        let (before, flat) = (state(&world), world.flat());
        world.hardware.parking.set((0, 1));
        assert_eq!(world.set(Set::Ro, 0, BLOCKS), Err(ChangeError::CannotPark), "{g:?}");
        assert_same(&world, &before, "the first parking");
        let mut parkings = 0;
        for parks in 1.. {
            world.hardware.parking.set((parks, 1));
            let result = world.set(Set::Ro, 0, BLOCKS);
            if result.is_ok() {
                break;
            }
            assert_eq!((result, world.flat()), (Err(ChangeError::CannotPark), flat.clone()), "{g:?}");
            let (_, _, in_use) = world.leaves();
            let changes = world.space.on(&world.platform()).changes();
            parkings += parks as u64;
            assert_eq!(changes.parkings, parkings, "{g:?}");
            assert_eq!(changes.splits - before.changes.splits, (in_use - before.in_use) as u64, "{g:?}");
            assert_eq!(changes.collapses, before.changes.collapses, "{g:?}");
        }
        world.leaves();
        assert_ne!(world.flat(), flat, "{g:?}");
    }
}
