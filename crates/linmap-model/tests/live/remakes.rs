//! Remakes of parts of every size of leaf, on CPUs of all kinds: they go out and come back, or, if the step fails, stay out until
//! a remake of nothing.

use linmap::{Geometry, Half, MemoryType, Policy, Remaking, Va};
use linmap_model::Core;
use test_support::geometries;

use crate::operation::{Operation, Refused, What};
use crate::remade::Remade;
use crate::world::{Machine, World, ram};

/// A part: the first page, and the number of pages.
type Part = (u64, u64);

/// A page, a part of a run, a whole run, and more than a block, of the largest leaves and of pages.
fn parts(g: Geometry) -> [Part; 5] {
    let (block, run) = (1 << g.index_bits(), g.contiguous_entries(linmap::arch::Level::PAGE) as u64);
    [(5, 1), (run + 3, run), (2 * run, run), (block, block), (block - 3, block + 7)]
}

#[test]
fn out_and_back() {
    let mut steps = 0;
    for g in geometries() {
        for (policy, core) in [(Policy::Live, Core::STRONG), (Policy::Park, Core::WEAK)] {
            let machine = Machine::new(g, &[core, Core::STRONG], 40, 0x1000_0000);
            let block = g.level_size(linmap::arch::Level::new(2));
            let first = g.base(Half::Upper) + 4 * block;
            let mut world = World::new(&machine, Half::Upper, &[ram(first, 8 * block, 3 * block)]);
            world.set_policy(policy);
            for (page, pages) in parts(g) {
                steps += on(&mut world, (first + page * g.page_size(), pages));
            }
            world.finish();
        }
    }
    assert!(steps > 500, "{steps} steps");
}

/// Returns the number of remakes.
fn on(world: &mut World<'_>, (va, pages): Part) -> u32 {
    let shared = 1 << (world.g.oa_bits() - 1);
    let retyped = Remade { to_type: Some(MemoryType::NORMAL_NC), ..Remade::NONE };
    let device = Remade { to_type: Some(MemoryType::DEVICE_NGNRE), bits: (shared, 0), ..Remade::NONE };
    let back = Remade { to_type: Some(MemoryType::NORMAL_TAGGED), bits: (0, shared), ..Remade::NONE };
    let remake = |remade| Operation { what: What::Remake(remade), va, pages };
    let entry = |world: &World<'_>| world.space.on(&world.cpu(1)).remaking(Va(va));
    let before = world.flat.clone();
    for remade in [retyped, device, back] {
        let failed = Err(Refused::Step { va: Va(va), pages });
        assert_eq!(world.does(1, &remake(Remade { fails: true, ..remade })), failed);
        assert_eq!(entry(world), Some(Remaking::Failed));
        // Back as it was, and then as it shall be.
        assert_eq!(world.does(0, &remake(Remade::NONE)), Ok(()));
        assert_eq!(entry(world), None);
        assert_eq!(world.does(0, &remake(remade)), Ok(()));
        assert_eq!(world.does(0, &remake(remade)), Ok(()), "it is so already");
    }
    assert_eq!(world.flat, before);
    9
}

/// Memory that is not write-back gets no tags in place.
#[test]
fn tags_are_for_normal_memory() {
    for g in geometries() {
        let machine = Machine::new(g, &[Core::STRONG; 2], 40, 0x1000_0000);
        let block = g.level_size(linmap::arch::Level::new(2));
        let first = g.base(Half::Upper) + 4 * block;
        let mut world = World::new(&machine, Half::Upper, &[ram(first, 8 * block, block)]);
        world.set_policy(Policy::Live);
        let does = |world: &mut World<'_>, what, page: u64, pages| {
            world.does(0, &Operation { what, va: first + page * g.page_size(), pages })
        };
        let retyped = Remade { to_type: Some(MemoryType::NORMAL_NC), ..Remade::NONE };
        assert_eq!(does(&mut world, What::Remake(retyped), 9, 2), Ok(()));
        assert_eq!(does(&mut world, What::SetTagged(false), 0, 9), Ok(()));
        let va = Va(first + 9 * g.page_size());
        let refused = Err(Refused::Change(linmap::error::ChangeError::NotNormal { va }));
        assert_eq!(does(&mut world, What::SetTagged(false), 5, 9), refused);
        assert_eq!(does(&mut world, What::SetTagged(true), 3, 4), Ok(()));
        world.finish();
    }
}
