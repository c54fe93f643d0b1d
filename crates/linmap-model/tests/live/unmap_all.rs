//! Several ranges go at once: each of them, nothing else, and all or nothing.

use std::ops::ControlFlow::Continue;

use linmap::error::ChangeError;
use linmap::{Geometry, Half, Pa, Policy, Va};
use linmap_model::Core;
use test_support::{Random, Rows, geometries};

use crate::flat::{Flat, Walked, changes};
use crate::world::{Machine, World, ram};

/// Ranges, each followed by some pages that are not mapped.
fn ranges(g: Geometry, random: &mut Random) -> Vec<(Va, u64)> {
    let (mut at, mut ranges) = (1, Vec::new());
    for _ in 0..1 + random.below(12) {
        let most = if random.below(4) == 0 { 3 << g.index_bits() } else { 40 };
        let pages = 1 + random.below(most);
        ranges.push((Va(g.base(Half::Upper) + at * g.page_size()), pages));
        at += pages + 1 + random.below(3 << g.index_bits());
    }
    ranges
}

fn last(g: Geometry, (va, pages): (Va, u64)) -> u64 {
    va.0 + (pages * g.page_size() - 1)
}

/// Walks all of the map.
pub(crate) fn walked(world: &World<'_>) -> Walked {
    let mut walked = Walked::default();
    let _ = world.space.on(&world.cpu(0)).read(|reader| {
        reader.visit(world.all(), |&linmap::read::Visited { va, level, entry, .. }| {
            walked.add(va, level, entry);
            Continue(())
        })
    });
    walked
}

/// Unmaps on the model, and judges the tables.
fn unmap(world: &mut World<'_>, gone: &[(Va, u64)], expected: &Result<(), ChangeError>) {
    let (g, cpu) = (world.g, world.cpu(1));
    let without = |flat: Flat, range: &(Va, u64)| flat.with(range.0.0, last(g, *range), |_, _| None);
    let flat = gone.iter().fold(world.flat.clone(), without);
    let flat = if expected.is_ok() { flat } else { world.flat.clone() };
    let changes: Vec<_> =
        gone.iter().flat_map(|range| changes(&flat, (range.0.0, last(g, *range)))).collect();
    cpu.begins(world.space.root(), "unmap", if expected.is_ok() { &changes } else { &[] });
    let is_alone = !gone.len().is_multiple_of(2);
    // SAFETY: tables of a model: no CPU uses the addresses.
    let result = unsafe {
        if is_alone { world.alone().on(&cpu).unmap_all(gone) } else { world.space.on(&cpu).unmap_all(gone) }
    };
    cpu.done(result.is_ok());
    if is_alone {
        world.count_anew();
    }
    assert_eq!(result, *expected);
    if result.is_ok() {
        give_and_take(world, gone, &flat);
    }
    world.walked = walked(world);
    world.flat = flat;
    assert_eq!(world.walked.flat(g), world.flat);
    assert_eq!(world.space.on(&cpu).stats(), world.walked.stats());
    assert_eq!(world.walked.empty_table(g), None);
}

/// The memory of ranges that are unmapped belongs to someone else for a while, if nothing else is mapped to it.
fn give_and_take(world: &World<'_>, gone: &[(Va, u64)], left: &Flat) {
    let cpu = world.cpu(1);
    for (first, end, old) in gone.iter().flat_map(|range| world.flat.within(range.0.0, last(world.g, *range)))
    {
        let Some(old) = old else { continue };
        let bytes = end - first + 1;
        if left.pieces().iter().all(|p| old.pa + bytes <= p.2.pa || p.2.pa + (p.1 - p.0) < old.pa) {
            cpu.gives(Pa(old.pa), bytes);
            cpu.takes(Pa(old.pa), bytes);
        }
    }
}

#[test]
fn ranges_go_together() {
    let mut rows = Rows::new();
    for g in geometries() {
        rows.row(|seed| at(g, &mut Random::new(seed)));
    }
}

fn at(g: Geometry, random: &mut Random) {
    let ranges = ranges(g, random);
    let machine = Machine::new(g, &[Core::STRONG, Core::STRONG], 60, 0x1000_0000);
    let regions: Vec<_> = ranges
        .iter()
        .map(|(va, pages)| ram(va.0, 1 << 40 | va.0 & 0xfff_ffff, pages * g.page_size()))
        .collect();
    let mut world = World::new(&machine, Half::Upper, &regions);
    world.set_policy([Policy::Live, Policy::Fixed][random.below(2) as usize]);

    // Not with a range that has a hole in it, nor with a part of a leaf.
    let hole = (ranges[0].0, ranges[0].1 + 1);
    let refused = Err(ChangeError::Hole { va: Va(last(g, ranges[0]) + 1) });
    unmap(&mut world, &[&ranges[1..], &[hole]].concat(), &refused);
    let leaf = world.walked.within(ranges[0].0.0, ranges[0].0.0, g)[0].whole(g);
    if leaf.1 - leaf.0 >= g.page_size() {
        let part = (ranges[0].0, 1);
        let refused = Err(ChangeError::NeedsResize { va: Va(leaf.0), policy: world.space.policy() });
        unmap(&mut world, &[&ranges[1..], &[part]].concat(), &refused);
    }
    // Some of them, in some order, then the rest, and then none.
    let (mut some, rest): (Vec<_>, Vec<_>) = ranges.iter().partition(|_| random.below(3) != 0);
    some.reverse();
    for gone in [some, rest, Vec::new()] {
        unmap(&mut world, &gone, &Ok(()));
    }
    world.finish();
}
