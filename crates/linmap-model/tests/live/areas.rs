//! Areas of pages that the linear map has as well: random sequences in which aliases follow, on CPUs of all kinds,
//! and never is a page read-only that can be written through its alias, by whatever a TLB may hold. Half
//! of the changes of areas take short holds.
//!
//! `LINMAP_SEQUENCES` says how many, a sixteenth of those of `sequences.rs`.

use linmap::arch::Level;
use linmap::layout::linear_range;
use linmap::{Attributes, Change, ChangeFlags, Combined, Geometry, Granule, Half, Leaves, Policy, Region};
use linmap_model::Core;
use test_support::{Random, case, geometries, is_one, number, seeds, some_geometries};

use crate::aliased::Set;
use crate::operation::{Operation, Refused, What};
use crate::paced::Paced;
use crate::remade::{Remade, any_remake};
use crate::sequences::{A_MACHINE, any_circumstances, any_cores, any_geometry, any_policy};
use crate::world::{Machine, World, ram};

/// The number of sequences by default.
const SEQUENCES: u64 = 12_000;

#[test]
fn random_sequences() {
    let machines = (number("LINMAP_SEQUENCES").unwrap_or(SEQUENCES) / 16).div_ceil(A_MACHINE).max(1);
    let changed: u64 = seeds(machines).map(|seed| case(seed, || on_a_machine(seed))).sum();
    println!("{changed} changes of areas on {machines} machines");
    assert!(is_one() || machines < 100 || changed >= machines * A_MACHINE, "{changed} changes of areas");
}

/// Table pages run out at each that is taken, and CPUs refuse to park: nothing changes, and what was cut collapses
/// while CPUs use it.
#[test]
fn without_frames_no_area_changes() {
    let mut without = 0;
    let mut policies = [(Policy::Live, Core::STRONG), (Policy::Park, Core::WEAK)].into_iter().cycle();
    // Large tables take long.
    for g in some_geometries(12).into_iter().filter(|g| g.granule() != Granule::K64) {
        let (page, block) = (g.page_size(), 1 << g.index_bits());
        let (first, area) = (linear_range(g).0.0, linear_range(g).1.0 + 1);
        let in_a_block = (0..5).map(|n| (n * 3 + 1, 1));
        let in_each = (0..4).rev().map(|n| (n * block + n, n + 1));
        let pieces: [Vec<(u64, u64)>; 3] =
            [in_a_block.collect(), in_each.collect(), vec![(block, block), (2 * block - 3, 3), (7, 2)]];
        for (pieces, (policy, core)) in pieces.iter().zip(&mut policies) {
            let machine = Machine::with_linear_map(g, &[core, Core::STRONG], 40, 0x1000_0000, Some(first));
            let mut regions = vec![ram(first, 0, 4 * block * page + 5 * page)];
            let mut va = area;
            for &(at, pages) in pieces {
                regions
                    .push(Region { attributes: Attributes::KERNEL_DATA, ..ram(va, at * page, pages * page) });
                va += pages * page;
            }
            let mut world = World::new(&machine, Half::Upper, &regions);
            world.set_policy(policy);
            let created = world.walked.clone();
            let all = |what| Operation { what, va: area, pages: (va - area) >> g.page_shift() };
            for set in [Set::ReadOnly, Set::Code] {
                let operation =
                    Operation { pages: all(What::Unmap).pages - 1, ..all(What::Aliased(set, first)) };
                for short in [false, true] {
                    world.refuse_parking(true);
                    let done = match short {
                        false => world.does(0, &operation),
                        true => in_holds(&mut world, 0, &operation),
                    };
                    assert_eq!(done.is_err(), policy == Policy::Park);
                    world.refuse_parking(false);
                    back(&mut world, &all, first);
                }
                for left in 0.. {
                    world.limit_frames(left);
                    if world.does(1, &operation).is_ok() {
                        break;
                    }
                    without += 1;
                    assert_eq!(world.walked, created, "{g:?}: with {left}");
                }
                back(&mut world, &all, first);
                assert_eq!(world.walked, created, "{g:?}");
                for left in 0.. {
                    world.limit_frames(left);
                    if in_holds(&mut world, 1, &operation).is_ok() {
                        break;
                    }
                    without += 1;
                    // What was cut stays cut, and a collapse brings it back.
                    assert_eq!(world.walked.flat(g), created.flat(g), "{g:?}: with {left}, in short holds");
                    back(&mut world, &all, first);
                    assert_eq!(world.walked, created, "{g:?}: with {left}, in short holds");
                }
                back(&mut world, &all, first);
                assert_eq!(world.walked, created, "{g:?}");
            }
            world.finish();
        }
    }
    assert!(without > 100, "{without} times without");
}

/// An alias is read-only in the tables, and may be writable in the TLBs until a flush. An area with its memory becomes
/// read-only before that.
#[test]
fn what_is_left_for_later_is_invalidated_first() {
    let later = |change| What::Change(change, ChangeFlags::LATER);
    for g in geometries() {
        let page = g.page_size();
        let (first, area) = (linear_range(g).0.0, linear_range(g).1.0 + 1);
        for (set, pages) in [Set::ReadOnly, Set::Code].into_iter().zip([1, 20]) {
            for short in [false, true] {
                // Every second page of RAM, so that many pages take several holds.
                let of_area = |n: u64| Region {
                    attributes: Attributes::KERNEL_DATA,
                    ..ram(area + n * page, 2 * n * page, page)
                };
                let linear = Region { leaves: Leaves::Pages, ..ram(first, 0, 64 * page) };
                let regions: Vec<Region> = [linear].into_iter().chain((0..pages).map(of_area)).collect();
                let machine = Machine::with_linear_map(g, &[Core::STRONG; 2], 40, 0x1000_0000, Some(first));
                let mut world = World::new(&machine, Half::Upper, &regions);
                world.set_policy(Policy::Live);
                let alias = Operation { what: later(Change::READ_ONLY), va: first, pages: 64 };
                world.does(1, &alias).expect("it is mapped");
                assert!(world.space.has_pending());
                let operation = Operation { what: What::Aliased(set, first), va: area, pages };
                let done =
                    if short { in_holds(&mut world, 0, &operation) } else { world.does(0, &operation) };
                done.expect("it is mapped");
                world.finish();
            }
        }
    }
}

/// All becomes what it was.
fn back(world: &mut World<'_>, all: &impl Fn(What) -> Operation, offset: u64) {
    let g = world.g;
    let whole = (world.all().0.0, 1 << (g.va_bits() - g.page_shift()));
    let collapse = Operation { what: What::Collapse, va: whole.0, pages: whole.1 };
    for operation in
        [all(What::Protect(Change::NOT_EXECUTABLE)), all(What::Aliased(Set::Writable, offset)), collapse]
    {
        world.does(0, &operation).expect("frames enough");
    }
}

/// Does an operation in as many holds as it takes if these are short.
fn in_holds(world: &mut World<'_>, n: u8, operation: &Operation) -> Result<(), Refused> {
    let cpu = world.cpu(n);
    world.history.push("in short holds".into());
    let paced = Paced(cpu);
    // SAFETY: one CPU of the model, and its memory.
    let platform = unsafe { Combined::new(&cpu, &cpu).with_sharing(&paced) };
    world.does_on(&platform, cpu, operation)
}

/// A linear map, and where it has physical memory.
struct Linear {
    first: u64,
    offset: u64,
    /// The pages of its larger part; nine more pages follow after a hole.
    pages: u64,
}

/// Returns the number of areas that changed with their aliases.
fn on_a_machine(seed: u64) -> u64 {
    let mut random = Random::new(seed ^ 0xa11a5);
    let g = any_geometry(&mut random);
    let cores = any_cores(&mut random);
    let linear = any_linear(g, &mut random);
    let tables = 40 + random.below(60) as usize;
    let machine = Machine::with_linear_map(g, &cores, tables, 0x1000_0000, Some(linear.offset));
    let page = g.page_size();
    let oa = linear.first.wrapping_sub(linear.offset);
    let far = (linear.pages + 5) * page;
    let regions = [ram(linear.first, oa, linear.pages * page), ram(linear.first + far, oa + far, 9 * page)];
    let all: Vec<Region> = regions.into_iter().chain(any_area(g, &linear, &mut random)).collect();
    let mut world = World::new(&machine, Half::Upper, &all);
    let mut changed = 0;
    for _ in 0..A_MACHINE {
        let policy = any_policy(Half::Upper, &mut random);
        world.set_policy(policy);
        for _ in 0..random.below(6) + 3 {
            any_circumstances(&mut world, &mut random);
            // Nothing is to be writable and executable where the linear map follows.
            let Some(operation) = any_operation(&world, &linear, &mut random) else { continue };
            let cpu = random.below(4) as u8;
            let of_area = matches!(operation.what, What::Aliased(..) | What::Remake(_));
            // In one hold, or in several.
            let done = match of_area && random.one_in(2) {
                true => in_holds(&mut world, cpu, &operation),
                false => world.does(cpu, &operation),
            };
            changed += u64::from(done.is_ok() && of_area);
        }
        world.rest();
    }
    world.finish();
    changed
}

/// Some blocks, and pages after them.
fn any_linear(g: Geometry, random: &mut Random) -> Linear {
    let (first, block) = (linear_range(g).0.0, g.level_size(Level::new(2)));
    let skipped = block * random.below(3);
    let ram = block * 64 * random.below(2);
    let pages = ((block * (random.below(3) + 1)) >> g.page_shift()) + random.below(40) + 1;
    Linear { first: first + skipped, offset: (first + skipped).wrapping_sub(ram), pages }
}

/// Physical memory in pieces, each page once, in any order: some of it beyond the linear map.
fn any_area(g: Geometry, linear: &Linear, random: &mut Random) -> Vec<Region> {
    let page = g.page_size();
    let oa = linear.first.wrapping_sub(linear.offset);
    let block = 1u64 << g.index_bits();
    let mut free: Vec<(u64, u64)> = vec![(0, linear.pages + 20)];
    let (mut regions, mut va) = (Vec::new(), linear_range(g).1.0 + 1);
    for _ in 0..random.below(12) + 1 {
        let (start, end) = random.of(&free);
        let at = start + random.below(end - start);
        let few = random.of(&[1, 1, 2, 3, 17, 40]);
        // Congruent where it can be, so that there are runs and blocks.
        let (at, pages) = if random.one_in(6) { (at & !(block - 1), block) } else { (at, few) };
        let at = at.max(start);
        let pages = pages.min(end - at);
        free.retain(|&f| f != (start, end));
        free.extend([(start, at), (at + pages, end)].into_iter().filter(|f| f.0 < f.1));
        if pages == block && random.one_in(2) {
            va = va.next_multiple_of(block * page);
        }
        regions.push(Region { attributes: Attributes::KERNEL_DATA, ..ram(va, oa + at * page, pages * page) });
        va += (pages + random.of(&[0, 0, 0, 1])) * page;
        if free.is_empty() {
            break;
        }
    }
    regions
}

/// A part of the area, or of the linear map; mostly without a hole.
fn any_part(world: &World<'_>, of_area: bool, linear: &Linear, random: &mut Random) -> Option<(u64, u64)> {
    let g = world.g;
    let area = linear_range(g).1.0 + 1;
    let pieces: Vec<_> = world.flat.pieces().iter().filter(|p| (p.0 >= area) == of_area).collect();
    let &&(first, last, _) = pieces.get(random.below(pieces.len().max(1) as u64) as usize)?;
    let all = ((last - first) >> g.page_shift()) + 1;
    let from = if random.one_in(2) { 0 } else { random.below(all) };
    let length = random.of(&[1, 2, 5, 16, 33, 70, linear.pages]);
    let va = first + from * g.page_size();
    // Up to the end of what is mapped in a row.
    let parts = world.flat.within(va, va + (length * g.page_size() - 1));
    let end = parts.iter().take_while(|p| p.2.is_some()).last()?.1;
    let end = if random.one_in(16) { va + (length * g.page_size() - 1) } else { end };
    Some((va, ((end - va) >> g.page_shift()) + 1))
}

fn any_operation(world: &World<'_>, linear: &Linear, random: &mut Random) -> Option<Operation> {
    if random.one_in(60) && linear.pages <= 3 << world.g.index_bits() {
        return Some(Operation::repaint(world.g, Half::Upper));
    }
    let set = random.of(&[Set::ReadOnly, Set::ReadOnly, Set::Writable, Set::Writable, Set::Code]);
    let (what, of_area) = match random.below(20) {
        0..12 => (What::Aliased(set, linear.offset), true),
        12 => (What::Protect(random.of(&[Change::NOT_EXECUTABLE, Change::EXECUTABLE])), true),
        13 => (What::Protect(Change::WRITABLE), true),
        14 if random.one_in(2) => (What::Change(Change::READ_ONLY, ChangeFlags::LATER), false),
        14 => (What::Protect(Change::READ_ONLY), false),
        15..17 => (What::SetValid(random.one_in(2)), random.one_in(2)),
        17 => (What::SplitToPages, random.one_in(2)),
        _ => (What::Collapse, random.one_in(2)),
    };
    let (va, pages) = any_part(world, of_area, linear, random)?;
    let what = if of_area && random.one_in(4) {
        let remade = Remade { linear: Some(linear.offset), ..any_remake(world.g, random) };
        What::Remake(remade)
    } else {
        what
    };
    let pages = if what == What::SplitToPages { pages.min(70) } else { pages };
    Some(Operation { what, va, pages })
}
