//! The operation of the book's page on operations, which takes the access flag of a range: judged in both forms.

extern crate model as linmap_model;

#[allow(dead_code)] // used by the model's own tests
#[path = "../../../tests/live/aliased.rs"]
mod aliased;
#[allow(dead_code)]
#[path = "../../../tests/live/flat.rs"]
mod flat;
#[path = "../../../tests/live/many_locks.rs"]
mod many_locks;
#[allow(dead_code)]
#[path = "../../../tests/live/operation.rs"]
mod operation;
#[path = "../../../tests/live/paced.rs"]
mod paced;
#[allow(dead_code)]
#[path = "../../../tests/live/remade.rs"]
mod remade;
#[allow(dead_code)]
#[path = "../../../tests/live/world.rs"]
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use linmap::error::ChangeError;
use linmap::mistakes::{Patch, switch_on};
use linmap::{
    Attributes, Combined, Geometry, Granule, Half, Leaves, OaFormat, Platform, Region, SharedSpace, Space, Va,
};
use linmap_model::{Core, Rule};
use test_support::{Random, case, is_one, seeds};

use flat::{Mapped, changes};
use paced::Paced;
use world::{Machine, World, ram};

/// Does it in one form of the map.
fn take<P: Platform>(
    shared: &SharedSpace,
    alone: Option<Space>,
    platform: &P,
    (va, pages): (Va, u64),
) -> Result<u64, ChangeError> {
    // SAFETY: the memory is the model's, and the model has no accesses that would fault.
    unsafe {
        match alone {
            Some(mut space) => space.on(platform).take_access_flag(va, pages),
            None => shared.on(platform).take_access_flag(va, pages),
        }
    }
}

/// Takes the access flags of some ranges of a map of leaves of several sizes and of holes. Returns how many were not refused.
fn takes(machine: &Machine, random: &mut Random) -> usize {
    let (g, half) = (machine.model.geometry(), Half::Upper);
    let (page, base) = (g.page_size(), g.base(half));
    let mut end = base;
    let mut region = |leaves| {
        let at = end + random.below(20) * page;
        end = at + (1 + random.below(700)) * page;
        Region { leaves, ..ram(at, (1 << 40) + (at - base), end - at) }
    };
    let regions = [Leaves::Largest, Leaves::Pages, Leaves::Largest].map(&mut region);
    let (mut world, cpu, mut taken) = (World::new(machine, half, &regions), machine.model.cpu(0), 0);
    for _ in 0..8 {
        let (first, pages) = (base + random.below(2_200) * page, 1 + random.below(800));
        let last = first + (pages * page - 1);
        let clear = |m: Mapped| Mapped { attributes: m.attributes - Attributes::ACCESSED, ..m };
        let flat = world.flat.with(first, last, |_, old| old.map(clear));
        cpu.begins(world.space.root(), "take the access flag", &changes(&flat, (first, last)));
        let alone = random.one_in(2).then(|| world.alone());
        let result = if random.one_in(2) {
            take(&world.space, alone, &cpu, (Va(first), pages))
        } else {
            let paced = Paced(cpu);
            // SAFETY: both are the same CPU.
            let short_holds = unsafe { Combined::new(&cpu, &cpu).with_sharing(&paced) };
            take(&world.space, alone, &short_holds, (Va(first), pages))
        };
        cpu.done(result.is_ok());
        let had = |m: &Mapped| m.attributes.contains(Attributes::ACCESSED);
        let in_range =
            world.flat.within(first, last).into_iter().filter(|piece| piece.2.as_ref().is_some_and(had));
        match result {
            Ok(bytes) => assert_eq!(bytes, in_range.map(|(first, last, _)| last - first + 1).sum::<u64>()),
            Err(error) => assert!(matches!(error, ChangeError::NeedsResize { .. }), "{error}"),
        }
        if result.is_ok() {
            (world.flat, taken) = (flat, taken + 1);
        }
    }
    taken
}

/// Judges it for a seed, with a mistake or with none. Returns how many were not refused, or the rule that was broken.
fn judged(seed: u64, mistake: Option<Patch>) -> Result<usize, Rule> {
    let mut random = Random::new(seed);
    let any = |random: &mut Random| {
        let granule = random.of(&[Granule::K4, Granule::K16, Granule::K64]);
        let format = random.of(&[OaFormat::Bits48, OaFormat::Lpa2, OaFormat::Lpa]);
        Geometry::new(granule, 30 + random.below(23) as u32, format).ok()
    };
    let g = std::iter::repeat_with(|| any(&mut random)).flatten().next().expect("one of them is possible");
    let machine = Machine::new(g, &[Core::STRONG; 2], 64, 0x1000_0000);
    switch_on(mistake);
    let played = catch_unwind(AssertUnwindSafe(|| takes(&machine, &mut random)));
    switch_on(None);
    machine.model.verdict().and_then(|()| machine.model.finish()).map_err(|breach| breach.rule)?;
    played.map_err(|panic| resume_unwind(panic))
}

/// One test, since a mistake is switched on for the whole process.
#[test]
fn the_flag_is_taken_and_no_tlb_keeps_it() {
    let (mut taken, mut caught) = (0, 0);
    for seed in seeds(100) {
        taken += case(seed, || judged(seed, None).expect("no rule is broken"));
        caught += usize::from(judged(seed, Some(Patch::AccessFlagCached)) == Err(Rule::Stale));
    }
    assert!(is_one() || taken > 100 && caught > 50, "{taken} were taken, {caught} mistakes caught");
}
