//! The ends of the linear map, and maps that are not as they should be.

use linmap::arch::{Descriptor, Entry, Level, TableLimits};
use linmap::error::{ChangeError, Unaligned};
use linmap::layout::linear_range;
use linmap::{
    Aliased, Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Policy, Rodata, SharedSpace, Slot,
    Tree, Va,
};

use crate::aliases::flat::{Set, changed};
use crate::aliases::world::World;
use crate::raw;
use test_support::geometries;

const SETS: [Set; 3] = [Set::Ro, Set::Rox, Set::Rw];

/// Each of these is refused at an address, and nothing comes of it.
fn refuses(world: &World, pages: u64, va: u64) {
    let before = world.leaves();
    world.steps();
    for set in SETS {
        assert_eq!(world.set(set, 0, pages), Err(ChangeError::Hole { va: Va(va) }), "{:?}: {set:?}", world.g);
        assert_eq!((world.leaves(), world.steps()), (before.clone(), vec![]), "{:?}: {set:?}", world.g);
    }
}

/// Pages in a row of which the linear map has some.
#[test]
fn what_is_backed_in_part_is_refused() {
    for g in geometries() {
        let (page, block) = (g.page_size(), 1 << g.index_bits());
        let rows = [
            // The end is not, the beginning, both, and what lies between.
            ((3 * block + 5, 4), 3 * block + 7),
            ((4 * block - 1, 5), 4 * block - 1),
            ((4 * block, 60), 4 * block),
            ((2 * block, 2 * block + 9), 3 * block + 7),
        ];
        for (piece, hole) in rows {
            let world = World::new(g, &[(5, 2), piece]);
            refuses(&world, 2 + piece.1, world.offset + hole * page);
        }
    }
}

/// Pages in a row that go beyond what the linear map can have.
#[test]
fn what_the_linear_map_can_not_have_is_refused() {
    for g in geometries() {
        let (Va(first), Va(last)) = linear_range(g);
        let (page, most) = (g.page_size(), last - first + 1);
        if g.oa_bits() >= g.va_bits() {
            let world = World::empty(g, 0);
            world.map(last + 1 - page, most - page, 1, Attributes::RAM);
            world.area_of(&[(most / page - 1, 2)]);
            refuses(&world, 2, last + 1);
            // Beyond it is nothing that would have an alias; what is mapped at that address is something else.
            let world = World::empty(g, 0);
            world.area_of(&[(most / page, 2)]);
            let flat = changed(&world.flat(), Set::Ro, world.range(0, 1), None);
            assert_eq!(world.set(Set::Ro, 0, 1), Ok(()), "{g:?}");
            assert_eq!(Some(world.flat()), flat, "{g:?}");
        }
        // RAM that begins at 64 pages: those before it would be before the linear map.
        let world = World::empty(g, 64 * page);
        world.map(first, 64 * page, 8, Attributes::RAM);
        world.area_of(&[(63, 2), (3, 4), (65, 2)]);
        refuses(&world, 2, first - page);
        let flat = changed(&world.flat(), Set::Ro, world.range(2, 6), Some(world.offset));
        assert_eq!(world.set(Set::Ro, 2, 6), Ok(()), "{g:?}");
        assert_eq!(Some(world.flat()), flat, "{g:?}");
    }
}

/// An area at linear addresses that are not its memory's: one of its pages is an alias of another.
#[test]
fn a_page_that_is_an_alias_too_changes_once() {
    for g in geometries() {
        let world = World::empty(g, 0);
        let (platform, space) = (world.platform(), &world.space);
        let (page, first) = (g.page_size(), world.offset);
        let at = |n: u64| Va(first + n * page);
        let attributes = |n: u64| match space.on(&platform).read(|reader| reader.entry(at(n))) {
            Some((_, _, Entry::Leaf(leaf))) => leaf.attributes,
            other => panic!("{other:?}"),
        };
        world.map(at(10).0, 30 * page, 1, Attributes::RAM);
        world.map(at(11).0, 10 * page, 2, Attributes::RAM);
        // SAFETY: no CPU uses these tables.
        unsafe {
            space.on(&platform).protect(at(10), 3, Change::READ_ONLY).expect("mapped");
            space.on(&platform).protect(at(10), 1, Change::WRITABLE).expect("mapped");
            let (writable, read_only) = (attributes(10), attributes(11));
            space.on(&platform).protect(at(10), 1, Change::READ_ONLY).expect("mapped");
            let mut aliased = Aliased::new(space.on(&platform), first, Rodata::Full);
            // The aliases are pages 10 and 11.
            aliased.set_memory_rw(at(11), 2).expect("mapped");
            assert_eq!([10, 11, 12].map(attributes), [writable; 3], "{g:?}");
            aliased.set_memory_ro(at(11), 2).expect("mapped");
            assert_eq!([10, 11, 12].map(attributes), [read_only; 3], "{g:?}");
        }
    }
}

/// Some formats keep high bits of an address elsewhere: an entry that looks like the next page is another one.
#[test]
fn addresses_do_not_run_into_other_bits() {
    let rows = [
        (Granule::K4, OaFormat::Lpa2, 50),
        (Granule::K16, OaFormat::Lpa2, 50),
        (Granule::K64, OaFormat::Lpa, 48),
    ];
    for (granule, oa, bits) in rows {
        let g = Geometry::new(granule, 52, oa).expect("a geometry");
        let (page, end) = (g.page_size(), 1 << bits);
        for next in [end, 0] {
            let world = World::empty(g, 0);
            world.space.set_policy(Policy::Pages);
            world.map(world.offset + end - 2 * page, end - 2 * page, 2, Attributes::RAM);
            world.map(world.offset + next, next, 2, Attributes::RAM);
            world.map(world.area, end - 2 * page, 2, Attributes::RAM);
            // What an addition makes of the descriptor in front: 50 is GP, 48 says nothing.
            world.map(world.area + 2 * page, next, 2, Attributes::RAM | Attributes::GUARDED);
            let flat = world.flat();
            for set in [Set::Ro, Set::Rw] {
                let expected = changed(&world.flat(), set, world.range(0, 4), Some(world.offset));
                assert_eq!(world.set(set, 0, 4), Ok(()), "{g:?}");
                assert_eq!(Some(world.flat()), expected, "{g:?}");
            }
            assert_eq!(world.flat(), flat, "{g:?}");
        }
    }
}

/// Leaves that are right are not touched, whatever their size and the policy.
#[test]
fn what_is_right_is_not_cut() {
    for g in geometries() {
        let block = 1 << g.index_bits();
        let world = World::new(g, &[(block, block), (2 * block + 1, 4)]);
        world.set(Set::Ro, 0, block + 4).expect("no reason not to");
        world.collapse();
        world.space.set_policy(Policy::Fixed);
        let before = world.leaves();
        world.steps();
        for (first, pages) in [(7, 1), (0, block), (block - 1, 3), (1, block)] {
            assert_eq!(world.set(Set::Ro, first, pages), Ok(()), "{g:?}");
        }
        assert_eq!((world.leaves(), world.steps()), (before, vec![]), "{g:?}");
    }
}

/// Pages that are kept and not valid, in the area or in the linear map, change like all others.
#[test]
fn kept_pages_follow() {
    for g in geometries() {
        for in_area in [true, false] {
            let world = World::new(g, &[(1, 3), (20, 40), (9, 1)]);
            let kept =
                if in_area { world.area + 2 * g.page_size() } else { world.offset + 22 * g.page_size() };
            let valid = |valid| {
                // SAFETY: no CPU uses these addresses.
                unsafe { world.space.on(&world.platform()).set_valid(Va(kept), 9, valid) }
            };
            let before = world.flat();
            valid(false).expect("no reason not to");
            for set in SETS {
                let flat = changed(&world.flat(), set, world.range(0, 44), Some(world.offset));
                assert_eq!(
                    world.set(set, 0, 44),
                    flat.as_ref()
                        .map(|_| ())
                        .ok_or(())
                        .or(Err(ChangeError::WriteExecute { va: Va(world.area) })),
                    "{g:?}"
                );
                assert_eq!(Some(world.flat()), flat.or(Some(world.flat())), "{g:?}: {set:?}");
            }
            valid(true).expect("no reason not to");
            world.set(Set::Nx, 0, 44).expect("no reason not to");
            world.set(Set::Rw, 0, 44).expect("no reason not to");
            assert_eq!(world.flat(), before, "{g:?}");
        }
    }
}

/// The refusals of `protect`: holes, unaligned pages, other halves.
#[test]
fn arguments_are_those_of_protect() {
    for g in geometries() {
        let world = World::new(g, &[(1, 3)]);
        let before = world.leaves();
        world.steps();
        let page = g.page_size();
        assert_eq!(
            world.set(Set::Ro, 0, 4),
            Err(ChangeError::Hole { va: Va(world.area + 3 * page) }),
            "{g:?}"
        );
        assert_eq!(
            world.set(Set::Rw, 9, 1),
            Err(ChangeError::Hole { va: Va(world.area + 9 * page) }),
            "{g:?}"
        );
        assert!(matches!(world.set(Set::Ro, 0, u64::MAX), Err(ChangeError::OutsideHalf { .. })), "{g:?}");
        let platform = world.platform();
        let mut aliased = Aliased::new(world.space.on(&platform), world.offset, Rodata::Full);
        // SAFETY: no CPU uses these addresses.
        let unaligned = unsafe { aliased.set_memory_ro(Va(world.area + 8), 1) };
        assert_eq!(unaligned, Err(ChangeError::Unaligned(Unaligned::Va(Va(world.area + 8)))), "{g:?}");
        assert_eq!((world.leaves(), world.steps()), (before, vec![]), "{g:?}");
    }
}

/// A table of the linear map has restrictions: what it has is not taken for unbacked, and changes with the area.
#[test]
fn restricted_tables_have_aliases() {
    for g in geometries() {
        let world = World::new(g, &[(1, 3)]);
        let slot = Slot { table: world.space.root(), index: 0 };
        let root = raw::load(&world.memory, slot);
        if !matches!(root.decode(g, g.root()), linmap::arch::Entry::Table(_)) {
            continue;
        }
        let restricted = Descriptor(root.0 | TableLimits::all().bits());
        raw::store(&world.memory, slot, restricted);
        let expected = changed(&world.flat(), Set::Ro, world.range(0, 3), Some(world.offset));
        assert_eq!(world.set(Set::Ro, 0, 3), Ok(()), "{g:?}");
        assert_eq!(Some(world.flat()), expected, "{g:?}");
        assert_eq!(raw::load(&world.memory, slot), restricted, "{g:?}");
    }
}

/// The lower half has no linear map, and so no aliases.
#[test]
fn the_lower_half_has_no_aliases() {
    for g in geometries() {
        let world = World::empty(g, 0);
        let platform = world.platform();
        let tree = Tree::build(&platform, g, Half::Lower, std::iter::empty()).expect("one page");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        let mut aliased = Aliased::new(space.on(&platform), world.offset, Rodata::Full);
        // SAFETY: no CPU uses these addresses.
        unsafe {
            space
                .on(&platform)
                .map(Va(0), 1 << g.index_bits(), Pa(0), Attributes::RAM)
                .expect("frames enough");
            assert_eq!(aliased.set_memory_ro(Va(g.page_size()), 3), Ok(()), "{g:?}");
            assert_eq!(aliased.set_memory_rw(Va(g.page_size()), 3), Ok(()), "{g:?}");
        }
        assert_eq!(space.on(&platform).changes().parkings, 0);
    }
}

/// An area in the linear map itself is its own alias.
#[test]
fn the_linear_map_is_its_own_alias() {
    for g in geometries() {
        let mut world = World::new(g, &[]);
        let created = world.leaves();
        world.area = world.offset;
        let block = 1 << g.index_bits();
        for (first, pages) in [(5, 3), (block - 1, 2), (block, block), (7, 2 * block)] {
            for set in [Set::Ro, Set::Rox, Set::Nx, Set::Rw] {
                let expected = changed(&world.flat(), set, world.range(first, pages), None);
                assert_eq!(world.set(set, first, pages), Ok(()), "{g:?}");
                assert_eq!(Some(world.flat()), expected, "{g:?}");
            }
            world.collapse();
            assert_eq!(world.leaves(), created, "{g:?}");
        }
    }
    assert_eq!(Level::PAGE.number(), 3);
}

/// An area in the linear map that has the memory of two of its pages twice: some of it has changed with the aliases before the
/// area does.
#[test]
fn an_area_has_a_part_of_its_aliases() {
    for g in geometries() {
        let mut world = World::empty(g, 0);
        let (page, at) = (g.page_size(), world.offset + 100 * g.page_size());
        for pa in [102, 103] {
            world.map(world.offset + pa * page, pa * page, 1, Attributes::RAM);
            world.map(world.offset + (pa - 2) * page, pa * page, 1, Attributes::RAM);
        }
        (world.area, world.pages) = (at, 4);
        for set in SETS {
            let expected = changed(&world.flat(), set, world.range(0, 4), Some(world.offset));
            assert_eq!(
                world.set(set, 0, 4),
                expected.as_ref().map(|_| ()).ok_or(ChangeError::WriteExecute { va: Va(at) }),
                "{g:?}: {set:?}"
            );
            assert_eq!(world.flat(), expected.unwrap_or_else(|| world.flat()), "{g:?}: {set:?}");
        }
    }
}
