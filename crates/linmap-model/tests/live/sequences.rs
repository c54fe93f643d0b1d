//! Random sequences: any geometry, any CPUs, any policy, and ranges that end where leaves do and next to it.
//!
//! `LINMAP_SEQUENCES` says how many.

use linmap::arch::{Level, TableAttributes};
use linmap::{
    Attributes, Change, ChangeFlags, Geometry, Granule, Half, Hardware, Leaves, MemoryType, OaFormat, Policy,
    Region,
};
use linmap_model::{Access, Core, Event, Setup};
use test_support::{Random, case, geometries, number, seeds};

use crate::flat::Mapped;
use crate::operation::{List, Operation, What};
use crate::remade::{self, Remade, any_remake, is_write_back};
use crate::watched::{is_no_breach, log_of};
use crate::world::{Form, Machine, World, last_of, ram};

/// The number of sequences by default.
const SEQUENCES: u64 = 1_500;

/// The number of sequences on one machine, one after the other.
pub(crate) const A_MACHINE: u64 = 16;

#[test]
fn random_sequences() {
    part(0);
}

#[test]
fn more_random_sequences() {
    part(1);
}

/// Half of them: two tests use two CPUs.
fn part(part: u64) {
    let sequences = number("LINMAP_SEQUENCES").unwrap_or(SEQUENCES);
    // Each half has one machine at the least.
    let machines = sequences.div_ceil(2 * A_MACHINE).max(1) * 2;
    for seed in seeds(machines).filter(|seed| seed % 2 == part) {
        case(seed, || on_a_machine(seed));
    }
}

fn on_a_machine(seed: u64) {
    let mut random = Random::new(seed);
    let g = any_geometry(&mut random);
    let cores: Vec<Core> = any_cores(&mut random);
    let half = if random.one_in(8) { Half::Lower } else { Half::Upper };
    let tables_at = if g.oa_bits() == 52 && random.one_in(2) { 0xd << 48 } else { 0x1000_0000 };
    let (tables, allow_write_execute) = (24 + random.below(60) as usize, random.one_in(2));
    let machine = Machine::of(&Setup { tables, tables_at, allow_write_execute, ..Setup::new(g, &cores) });
    // Without what it announces as well, as far as time permits.
    let log = seed.is_multiple_of(8).then(|| log_of(&machine.model));
    let large = random.one_in(8);
    let regions = if large { large_regions(g, half, &mut random) } else { any_regions(g, half, &mut random) };
    let mut world = World::new(&machine, half, &regions);
    world.set_locks(random.of(&[1, 8, 64]));
    if random.one_in(2) {
        world.fix_root();
    }
    if random.one_in(2) {
        world.restrict_tables(TableAttributes::from_bits_truncate(random.bits()));
    }
    for sequence in 1..=A_MACHINE {
        let policy = any_policy(half, &mut random);
        world.set_policy(policy);
        world.set_form(random.of(&[Form::Shared, Form::Shared, Form::OneLock, Form::Alone]));
        for _ in 0..random.below(6) + 3 {
            any_circumstances(&mut world, &mut random);
            let operation = without_clean_leaves(any_operation(&world, &mut random), &cores);
            let n = random.below(4) as u8;
            _ = world.does(n, &operation);
            any_access(&world, &cores, &operation, &mut random);
        }
        if sequence % 4 == 0 {
            world.rest();
        }
    }
    world.finish();
    log.iter().for_each(is_no_breach);
}

/// Where walkers manage the dirty state, no leaf is given DBM, so that none becomes writable-clean.
fn without_clean_leaves(operation: Operation, cores: &[Core]) -> Operation {
    let gives = |change: Change| change.of(Attributes::empty()).contains(Attributes::DIRTY_MANAGED);
    let refused = match operation.what {
        What::Protect(change) | What::Change(change, _) | What::ChangePages(change, ..) => gives(change),
        What::Map(_, attributes) => attributes.contains(Attributes::DIRTY_MANAGED),
        _ => false,
    };
    if !refused || !cores.iter().any(|core| core.hardware_dirty_state) {
        return operation;
    }
    let what = match operation.what {
        What::Map(oa, attributes) => What::Map(oa, attributes - Attributes::DIRTY_MANAGED),
        _ => What::Protect(Change::READ_ONLY),
    };
    Operation { what, ..operation }
}

/// Some CPU uses an address near to an operation that is done, as its mapping permits, after an ISB where it needs one.
fn any_access(world: &World<'_>, cores: &[Core], operation: &Operation, random: &mut Random) {
    // An access to what is pending may go either way.
    if world.space.has_pending() {
        return;
    }
    let n = random.index(cores.len());
    let leaves = world.walked.leaves.as_slice();
    let near = leaves.partition_point(|s| s.va < operation.va) + random.index(3);
    let Some(seen) = leaves.get(near.saturating_sub(1)).filter(|s| s.leaf.valid) else { return };
    let (core, a) = (cores[n], world.permissions(seen));
    let executable = !(a.contains(Attributes::PXN) || a.contains(Attributes::USER) && a.is_writable());
    let how = match random.below(4) {
        0 if !a.contains(Attributes::READ_ONLY) => Access::Write,
        1 if executable => Access::Execute,
        2 if core.mte && a.memory_type() == MemoryType::NORMAL_TAGGED => Access::Tag,
        _ => Access::Read,
    };
    let cpu = world.cpu(n as u8);
    if how == Access::Execute || !core.ets2 {
        cpu.isb();
    }
    let size = 1 << world.g.level_shift(seen.level);
    cpu.step(Event::Access { cpu: n as u8, va: seen.va + (random.bits() & (size - 1)), how });
}

/// Those with large tables are few: they take longer.
pub(crate) fn any_geometry(random: &mut Random) -> Geometry {
    let granule = match random.below(20) {
        0..16 => Granule::K4,
        16..19 => Granule::K16,
        _ => Granule::K64,
    };
    let those: Vec<_> = geometries().into_iter().filter(|g| g.granule() == granule).collect();
    let g = random.of(&those);
    if random.one_in(3) { g.with_largest_leaf(1 << random.of(&g.leaf_sizes()).shift) } else { g }
}

pub(crate) fn any_cores(random: &mut Random) -> Vec<Core> {
    let strong = random.one_in(2);
    let dirty = random.one_in(4);
    let core = |random: &mut Random| Core {
        never_aborts: strong || random.one_in(2),
        ttl: random.one_in(2),
        range_tlbi: !random.one_in(3),
        outer_tlbi: random.one_in(2),
        xs: random.one_in(2),
        repeat_tlbi: random.one_in(4),
        mte: random.one_in(2),
        ets2: random.one_in(2),
        // All leaves have the flag, so walkers have nothing to do.
        hardware_access_flag: random.one_in(2),
        hardware_dirty_state: dirty,
        ..Core::WEAK
    };
    (0..random.below(4) + 1).map(|_| core(random)).collect()
}

pub(crate) fn any_policy(half: Half, random: &mut Random) -> Policy {
    match random.below(10) {
        0..4 => Policy::Live,
        // CPUs are parked off the upper half.
        4..7 if half == Half::Upper => Policy::Park,
        4..8 => Policy::Fixed,
        _ => Policy::Pages,
    }
}

/// Leaves around a boundary of large ones, and smaller ones after it.
fn any_regions(g: Geometry, half: Half, random: &mut Random) -> Vec<Region> {
    let room = 1u64 << (g.va_bits() - 3);
    let sizes: Vec<u64> = g.new_leaf_sizes().iter().map(|s| s.bytes()).filter(|&s| s <= room).collect();
    let top = random.below(sizes.len() as u64) as usize;
    let some = |random: &mut Random| sizes[top + 1..].iter().map(|s| s * random.below(3)).sum::<u64>();
    let middle = g.base(half) + sizes[top] * (random.below(3) + 2);
    let start = middle - some(random);
    let end = middle + sizes[top] * random.below(3) + some(random) + g.page_size();
    let largest = g.new_leaf_sizes()[0].bytes().min(1 << 44);
    let places = (1u64 << g.oa_bits()) / largest;
    // Not so high that the regions do not fit.
    let delta = largest * random.below((places / 2).max(1));
    let mut oa = (start - g.base(half)).wrapping_add(delta) & ((1 << g.oa_bits()) - 1);
    if oa > (1 << g.oa_bits()) - (1 << (g.oa_bits() - 2)) {
        oa -= 1 << (g.oa_bits() - 1);
    }
    // Addresses that are not congruent: only where that does not make pages of it all.
    if end - start <= 600 * g.page_size() && random.one_in(4) {
        oa += random.of(&sizes[top..]) * random.below(3);
    }
    let mut regions = vec![ram(start, oa, end - start)];
    for _ in 0..random.below(3) {
        let before = regions[regions.len() - 1];
        let gap = g.page_size() * random.of(&[0, 1, 2, 16, 17, 128]);
        let bytes = random.of(&sizes[sizes.len().saturating_sub(2)..]) * (random.below(3) + 1);
        let skip = before.bytes + gap;
        let mut next = ram(before.va.0 + skip, before.oa.0 + skip, bytes);
        next.attributes = random.of(&[Attributes::KERNEL_RODATA, Attributes::RAM, Attributes::KERNEL_DATA]);
        next.leaves = random.of(&[Leaves::Largest, Leaves::Pages]);
        regions.push(next);
    }
    regions
}

/// A map of up to 64 TiB in the largest leaves, with holes, and some pages in one of them.
fn large_regions(g: Geometry, half: Half, random: &mut Random) -> Vec<Region> {
    let room = 1u64 << (g.va_bits() - 2);
    let largest = g.new_leaf_sizes().iter().map(|s| s.bytes()).find(|&size| size <= room / 4);
    let largest = largest.unwrap_or(g.page_size());
    // Its leaves are so few that each of them may change again and again.
    let all = random.size((room / largest).min(128));
    let oa = largest * random.below((1 << (g.oa_bits() - 1)) / largest);
    let region = |at: u64, bytes: u64| ram(g.base(half) + at, oa + at, bytes);
    let (window, pages) = (random.below(all), (random.below(100), random.below(100) + 1));
    let parts = random.parts(all, (window, 1)).into_iter();
    let mut regions: Vec<Region> =
        parts.map(|(first, count)| region(first * largest, count * largest)).collect();
    if largest > 200 * g.page_size() {
        regions.push(region(window * largest + pages.0 * g.page_size(), pages.1 * g.page_size()));
    }
    regions.sort_unstable_by_key(|region| region.va.0);
    regions
}

/// Changes policy and circumstances between operations.
pub(crate) fn any_circumstances(world: &mut World<'_>, random: &mut Random) {
    if random.one_in(16) {
        let policy = any_policy(world.half, random);
        world.set_policy(policy);
    }
    if random.one_in(32) {
        world.allow_write_execute(random.one_in(2));
    }
    if random.one_in(24) {
        world.refuse_parking(random.one_in(2));
    }
    if random.one_in(24) {
        world.limit_frames(random.below(4) as usize);
    }
}

/// An address at which a piece or a leaf begins or ends, or near to it.
fn any_place(world: &World<'_>, random: &mut Random) -> u64 {
    let g = world.g;
    let (pieces, leaves) = (world.flat.pieces(), &world.walked.leaves);
    let at = match random.below(8) {
        0 | 1 if !pieces.is_empty() => {
            let piece = random.of(pieces);
            if random.one_in(2) { piece.0 } else { piece.1.wrapping_add(1) }
        }
        2..8 if !leaves.is_empty() => random.of(leaves).va,
        _ => g.base(world.half) + (random.bits() & ((1 << (g.va_bits() - 1)) - 1)),
    };
    let unit = random.of(&g.new_leaf_sizes());
    let at = at & !(random.of(&[unit.bytes(), g.page_size()]) - 1);
    let steps = random.below(3) * random.of(&[1 << unit.entry_shift, g.page_size()]);
    let place = match random.below(3) {
        0 => at,
        1 => at.wrapping_add(steps),
        _ => at.wrapping_sub(steps),
    };
    let inside = g.base(world.half) <= place && place <= last_of(g, world.half);
    if inside || random.one_in(16) { place } else { at.max(g.base(world.half)) }
}

/// A number of pages: about one to three leaves of some size, or a few pages.
fn any_length(g: Geometry, random: &mut Random) -> u64 {
    let size = random.of(&g.new_leaf_sizes());
    let unit = random.of(&[g.page_size(), g.page_size(), 1 << size.entry_shift, size.bytes()]);
    let pages = (unit >> g.page_shift()) * (random.below(3) + 1);
    match random.below(4) {
        0 => pages - 1,
        1 => pages + 1,
        _ => pages,
    }
}

fn any_change(random: &mut Random) -> Change {
    let some = |random: &mut Random| {
        let all = [
            Attributes::READ_ONLY,
            Attributes::DIRTY_MANAGED,
            Attributes::USER,
            Attributes::GUARDED,
            Attributes::PXN,
            Attributes::UXN,
            Attributes::SOFTWARE,
        ];
        let two = random.of(&all) | random.of(&all);
        if random.one_in(3) { Attributes::empty() } else { two }
    };
    let change = match random.below(8) {
        0..3 => Change::READ_ONLY,
        3..5 => Change::WRITABLE,
        5 => Change::EXECUTABLE.and(Change::READ_ONLY),
        6 => random.of(&[Change::EXECUTABLE, Change::NOT_EXECUTABLE]),
        _ => Change::new(some(random), some(random)).expect("permissions"),
    };
    let change = if random.one_in(16) { change.and(Change::NOT_GLOBAL) } else { change };
    match random.below(6) {
        0 => change.and(Change::INVALID),
        1 => change.and(Change::VALID),
        _ => change,
    }
}

/// A change in some manner, of a range or a list of pages, or a flush.
fn any_change_in_a_manner(random: &mut Random) -> What {
    let validity = random.of(&[Change::INVALID, Change::VALID]);
    let change = if random.one_in(2) { validity } else { any_change(random) };
    let flags = [ChangeFlags::empty(), ChangeFlags::LATER, ChangeFlags::SKIP_HOLES, ChangeFlags::all()];
    let flags = random.of(&flags);
    let list = List { stride: random.below(4) + 1, reverse: random.one_in(2), twice: random.one_in(8) };
    match random.below(8) {
        0..4 => What::Change(change, flags),
        4..7 => What::ChangePages(change, flags, list),
        _ => What::Flush,
    }
}

/// RAM where RAM was, or something else.
fn any_mapping(world: &World<'_>, va: u64, random: &mut Random) -> (u64, Attributes) {
    let g = world.g;
    let attributes = match random.below(12) {
        0..4 => Attributes::RAM,
        4 => Attributes::KERNEL_RODATA | Attributes::NOT_GLOBAL,
        5 => Attributes::KERNEL_DATA,
        6 => Attributes::KERNEL_RODATA,
        7 => Attributes::KERNEL_TEXT,
        8 => Attributes::DEVICE,
        9 => Attributes::RAM | Attributes::NOT_GLOBAL,
        10 => Attributes::RAM | Attributes::GUARDED | Attributes::SOFTWARE,
        _ => Attributes::RAM - random.of(&[Attributes::PXN, Attributes::UXN]),
    };
    let near = |m: &&(u64, u64, Mapped)| m.0 <= va;
    let congruent = world.flat.pieces().iter().rev().find(near).map(|m| m.2.pa.wrapping_add(va - m.0));
    let mut oa = congruent.unwrap_or(va & ((1 << 40) - 1));
    match random.below(16) {
        0 => oa = oa.wrapping_add(random.of(&g.new_leaf_sizes()).bytes()),
        1 => oa = oa.wrapping_add(g.page_size()),
        2 => oa = random.bits() & ((1 << 48) - 1) & !(g.page_size() - 1),
        3 if random.one_in(4) => oa |= 8,
        4 if random.one_in(4) => oa = (1 << g.oa_bits()) - 2 * g.page_size(),
        5 if random.one_in(4) => oa = random.of(&[u64::MAX, 1 << 52, 1 << 48]) & !(g.page_size() - 1),
        _ => {}
    }
    // And bits that are not the library's.
    let others = Attributes::SOFTWARE | Attributes::UPPER | Attributes::DIRTY_MANAGED;
    let others = if random.one_in(4) {
        Attributes::from_bits_truncate(random.bits()) & others
    } else {
        Attributes::empty()
    };
    (oa, attributes | others)
}

/// The same mapping, and the number of pages, such that none is write-back at one address and not at another.
fn of_one_type(
    world: &World<'_>,
    (oa, attributes): (u64, Attributes),
    pages: u64,
) -> ((u64, Attributes), u64) {
    let others = |pages: u64| {
        let last = oa.saturating_add(pages.saturating_mul(world.g.page_size()).saturating_sub(1));
        let leads_there = move |m: &&(u64, u64, Mapped)| m.2.pa <= last && oa <= m.2.pa + (m.1 - m.0);
        world.flat.pieces().iter().filter(leads_there).map(|m| m.2.attributes)
    };
    if others(pages).all(|a| is_write_back(a) == is_write_back(attributes)) {
        return ((oa, attributes), pages);
    }
    let of_page = others(1).next().map_or(attributes, |a| attributes.of_type(a.memory_type()));
    ((oa, of_page), 1)
}

/// Mostly of as much as there are table pages for; of a part of an entry now and then.
fn any_repaint(world: &World<'_>, random: &mut Random) -> Operation {
    let g = world.g;
    let entries = g.entries(g.root()) as u64;
    let entry = g.level_size(g.root());
    let some = g.contiguous_entries(g.root()) as u64 * entry;
    let (mut first, mut bytes) = match random.below(4) {
        0 => (0, entry * entries),
        1 => (some * random.below(entries * entry / some), some),
        _ => (0, entry * entries / 2),
    };
    if random.one_in(24) {
        first = (first + random.of(&[1, g.page_size(), entry])).min(entry * entries - g.page_size());
    }
    if random.one_in(24) {
        bytes -= random.of(&[g.page_size(), entry / 2]);
    }
    bytes = bytes.min(entry * entries - first);
    let va = g.base(world.half) + first;
    let (leaves, size) = (&world.walked.leaves, random.of(&g.new_leaf_sizes()).bytes());
    let keep = random.one_in(2) && !leaves.is_empty();
    let keep = keep.then(|| {
        let at = random.of(leaves).whole(g);
        (
            at.0.saturating_sub(size * random.below(2)),
            at.1.saturating_add(size * random.below(3)) & !random.below(2),
        )
    });
    Operation { what: What::Repaint(keep), va, pages: bytes >> g.page_shift() }
}

fn any_operation(world: &World<'_>, random: &mut Random) -> Operation {
    let g = world.g;
    if random.one_in(48) {
        let repaint = any_repaint(world, random);
        let takes = world.repaint_takes(repaint.va, repaint.last(g));
        // Pages for a table or two, as below; or for more than there are frames for.
        let few = world.flat.pieces().iter().map(|m| m.1 - m.0).sum::<u64>() >> g.page_shift()
            <= 3 << g.index_bits();
        if few || (takes > world.free() && random.one_in(8)) {
            return repaint;
        }
    }
    let mut va = any_place(world, random);
    let mut pages = any_length(g, random);
    if let (Some(first), Some(last), true) =
        (world.flat.pieces().first(), world.flat.pieces().last(), random.one_in(12))
    {
        // Much of the map, or all of it.
        (va, pages) = (first.0, random.size(((last.1 - first.0) >> g.page_shift()) + 1));
    }
    let mut what = match random.below(20) {
        0..4 => What::Protect(any_change(random)),
        4..6 if random.one_in(3) => What::SetPageValid(random.one_in(2)),
        4..6 => What::SetValid(random.one_in(2)),
        6..9 => any_change_in_a_manner(random),
        9 => What::SetTagged(random.one_in(2)),
        10 => What::Remake(any_remake(g, random)),
        11..13 => What::Unmap,
        13..14 => What::SplitToPages,
        14..17 => What::Collapse,
        _ => What::Map(0, Attributes::RAM),
    };
    match random.below(128) {
        0 => va = va.wrapping_add(random.below(g.page_size())),
        1 => va = random.bits() & !(g.page_size() - 1),
        2 => pages = random.of(&[0, u64::MAX, 1 << 52, 1 << 40]),
        3 => va = last_of(g, world.half) & !(g.page_size() - 1),
        _ => {}
    }
    if let What::Map(..) = what {
        // Where nothing is, most of the time.
        if let Some(&(_, end, _)) = world.flat.pieces().iter().find(|m| m.0 <= va && va <= m.1)
            && !random.one_in(12)
        {
            va = end.wrapping_add(1);
        }
        let next = world.flat.pieces().iter().find(|m| m.0 > va);
        if let Some(next) = next.filter(|_| !random.one_in(12)) {
            pages = pages.min((next.0 - va) >> g.page_shift());
        }
        let (oa, attributes) = any_mapping(world, va, random);
        what = What::Map(oa, attributes);
    }
    if let What::ChangePages(_, _, list) = what {
        // The list of a test is not endless, and its last page has an address.
        let room = last_of(g, world.half).saturating_sub(va) / g.page_size() / list.stride;
        pages = (pages % 700 + 1).min(room.max(1));
    } else if !matches!(what, What::Map(..)) && !random.one_in(12) {
        (va, pages) = without_holes(world, va, pages);
    }
    if let What::SetPageValid(_) = what {
        pages = 1;
    }
    if g.oa_format() == OaFormat::Lpa2 && random.one_in(64) {
        pages = pages.min(3);
    }
    // Of all its pages: no length changes after it.
    if let (What::Remake(remade), Some(bytes)) = (what, pages.checked_mul(g.page_size()).filter(|&b| b != 0))
    {
        let other = if random.one_in(8) { congruent(world, (va, bytes), random) } else { None };
        let remade = Remade { to: other, ..remade };
        what = What::Remake(remade::of_one_type(&world.flat, (va, va.saturating_add(bytes - 1)), remade));
    }
    // No more pages than fill a table or two, where pages it will be.
    let a_table = 1 << g.index_bits();
    let in_pages = match what {
        What::SplitToPages => true,
        What::Map(oa, _) => {
            world.space.policy() == Policy::Pages || (va ^ oa) & (g.level_size(Level::new(2)) - 1) != 0
        }
        _ => false,
    };
    if in_pages && pages > a_table + 3 {
        pages = if random.one_in(6) { a_table + random.below(3) } else { pages % 70 + 1 };
    }
    if let What::Map(oa, attributes) = what {
        let ((oa, attributes), of_one_type) = of_one_type(world, (oa, attributes), pages);
        (what, pages) = (What::Map(oa, attributes), of_one_type);
    }
    // An empty range outside of the half is not tried: its result is not specified.
    let inside = g.base(world.half) <= va && va <= last_of(g, world.half);
    let pages = if inside { pages } else { pages.max(1) };
    let operation = Operation { what, va, pages };
    if what == What::Unmap && random.one_in(2) { hot_remove(world, operation) } else { operation }
}

/// The same as a removal of RAM, if its first page is mapped, and all of it is in the upper half.
fn hot_remove(world: &World<'_>, unmap: Operation) -> Operation {
    let (g, page) = (world.g, world.g.page_size());
    let within = unmap.pages != 0
        && unmap.va.is_multiple_of(page)
        && (last_of(g, world.half) - unmap.va.min(last_of(g, world.half))) / page >= unmap.pages - 1;
    let piece = world.flat.pieces().iter().find(|m| m.0 <= unmap.va && unmap.va <= m.1);
    let offset = piece.map(|m| m.0.wrapping_sub(m.2.pa));
    let ends = |offset: u64| unmap.last(g).wrapping_sub(offset) >> g.oa_bits() == 0;
    match offset.filter(|&offset| within && world.half == Half::Upper && ends(offset)) {
        Some(offset) => Operation { what: What::HotRemove(offset), ..unmap },
        None => unmap,
    }
}

/// Other memory for so many bytes of memory in a row, to which leaves of any size can lead.
fn congruent(world: &World<'_>, (va, bytes): (u64, u64), random: &mut Random) -> Option<u64> {
    let piece = world.flat.pieces().iter().find(|p| p.0 <= va && va <= p.1 && bytes - 1 <= p.1 - va)?;
    let largest = world.g.leaf_sizes()[0].bytes();
    let to = (piece.2.pa + (va - piece.0)).checked_add(largest * (random.below(3) + 1))?;
    (to < 1 << (world.g.oa_bits() - 1)).then_some(to)
}

/// Holes are refused: the part of a range that starts at its first page that is mapped and ends before a hole.
fn without_holes(world: &World<'_>, va: u64, pages: u64) -> (u64, u64) {
    let page = world.g.page_size();
    let Some(bytes) = pages.checked_mul(page).filter(|&bytes| bytes != 0) else { return (va, pages) };
    let parts = world.flat.within(va, va.saturating_add(bytes - 1));
    let mut mapped = parts.iter().skip_while(|p| p.2.is_none()).take_while(|p| p.2.is_some());
    let Some(&(first, mut last, _)) = mapped.next() else { return (va, pages) };
    if let Some(end) = mapped.last() {
        last = end.1;
    }
    (first, ((last - first) / page + 1).max(1))
}
