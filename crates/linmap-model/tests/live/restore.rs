//! Permissions change and change back; collapsed, the map is made of what it was made of at first.

use linmap::{Attributes, Change, Geometry, Half, Layout, Leaves, Pa, Policy, Region, Rodata};
use linmap_model::Core;
use test_support::{Random, Rows, some_geometries};

use crate::flat::fewest;
use crate::operation::{Operation, What};
use crate::world::{Machine, World};

#[test]
fn restored_is_as_created() {
    let mut rows = Rows::new();
    for g in some_geometries(6) {
        rows.row(|seed| at(g, &mut Random::new(seed)));
    }
}

fn at(g: Geometry, random: &mut Random) {
    let (policy, core) = random.of(&[(Policy::Live, Core::STRONG), (Policy::Park, Core::WEAK)]);
    // An end within every size of leaf, and a hole.
    let page = g.page_size();
    let (gap, block) = (0x1_4000_0000, g.level_size(linmap::arch::Level::new(2)));
    let mut ram = [
        Pa(gap - block - 3 * page)..Pa(gap + 2 * block + 5 * page),
        Pa(gap + 3 * block)..Pa(gap + 3 * block + 0x20_0000 + page),
    ];
    let layout = Layout::new(g, &mut ram, &mut [], Pa(0)..Pa(0), Rodata::Full).expect("a layout");
    let regions: Vec<Region> = layout.regions(Leaves::Largest).collect();
    let machine = Machine::new(g, &[core, Core::STRONG], 40, 0x1000_0000);
    let mut world = World::new(&machine, Half::Upper, &regions);
    let created = world.walked.stats();
    assert_eq!(created, fewest(&world.flat, g));
    world.set_policy(policy);
    for _ in 0..12 {
        let region = random.of(&regions);
        let all = region.bytes >> g.page_shift();
        let pages = random.of(&[1, 2, 17, 513, all]).min(all);
        let va = region.va.0 + random.below(all - pages + 1) * page;
        let what = random.of(&[
            What::Protect(Change::READ_ONLY),
            What::Protect(Change::READ_ONLY.and(Change::EXECUTABLE)),
            What::SetValid(false),
            What::SplitToPages,
        ]);
        let pages = if what == What::SplitToPages { pages.min(17) } else { pages };
        let n = random.below(2) as u8;
        world.does(n, &Operation { what, va, pages }).expect("it is mapped");
    }
    for region in &regions {
        let pages = region.bytes >> g.page_shift();
        let back = Change::NOT_EXECUTABLE.and(Change::WRITABLE);
        for what in [What::Protect(back), What::SetValid(true)] {
            world.does(0, &Operation { what, va: region.va.0, pages }).expect("it is mapped");
        }
    }
    let all = Operation {
        what: What::Collapse,
        va: g.base(Half::Upper),
        pages: 1 << (g.va_bits() - g.page_shift()),
    };
    world.does(1, &all).expect("all of it can collapse");
    assert_eq!(world.walked.stats(), created, "{g:?}, {policy}");
    world.finish();
}

/// Pages of one ASID and global ones, side by side, are what they were when they become valid again: all that was
/// done to them meanwhile, the change of their sizes included.
#[test]
fn invalid_pages_remember_whether_they_are_global() {
    for (g, half) in some_geometries(3).into_iter().zip([Half::Lower, Half::Upper].into_iter().cycle()) {
        let (page, block) = (g.page_size(), g.level_size(linmap::arch::Level::new(2)));
        let global = crate::world::ram(g.base(half) + 4 * block, 4 * block, block);
        let local = Region {
            attributes: global.attributes | Attributes::NOT_GLOBAL,
            ..crate::world::ram(g.base(half) + 5 * block, 5 * block, block)
        };
        let machine = Machine::new(g, &[Core::STRONG], 40, 0x1000_0000);
        let mut world = World::new(&machine, half, &[global, local]);
        world.set_policy(Policy::Live);
        let (created, flat) = (world.walked.stats(), world.flat.clone());
        let all = |what| Operation { what, va: global.va.0, pages: 2 * block / page };
        let some = |what| Operation { what, va: local.va.0 - 3 * page, pages: 7 };
        for operation in [
            all(What::SetValid(false)),
            some(What::Protect(Change::READ_ONLY)),
            some(What::SplitToPages),
            some(What::SetValid(true)),
            some(What::SetValid(false)),
            some(What::Protect(Change::WRITABLE)),
            all(What::SetValid(true)),
            all(What::Collapse),
        ] {
            world.does(0, &operation).expect("it is mapped");
        }
        assert_eq!((world.walked.stats(), &world.flat), (created, &flat), "{g:?}, {half:?}");
        world.finish();
    }
}
