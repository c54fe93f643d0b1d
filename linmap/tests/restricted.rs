//! A table above which somebody else has laid restrictions: every change of what is below it is refused, since
//! what it would say is not what it would mean.

#[path = "common/raw.rs"]
mod raw;

use std::ops::ControlFlow::Continue;

use linmap::host::HostMemory;
use linmap::{
    AddressSpace, Attributes, Change, ChangeError, Checks, Descriptor, Entry, Geometry, Granule, Half,
    Leaves, Level, Memory, OaFormat, Pa, Platform, Policy, Region, Slot, TableLimits, Tree, Va,
};
use raw::{load, store};
use test_support::geometries;

/// The results of all operations that change something.
fn refusals<P: Platform>(
    space: &AddressSpace,
    platform: &P,
    va: Va,
) -> [(&'static str, Result<(), ChangeError>); 5] {
    let hole = Va(va.0 + (16 << 16));
    // SAFETY: no CPU uses these addresses or the memory that they are mapped to.
    unsafe {
        [
            ("protect", space.protect(platform, va, 1, Change::READ_ONLY)),
            ("set_valid", space.set_valid(platform, va, 1, false)),
            ("unmap", space.unmap(platform, va, 1)),
            ("split_to_pages", space.split_to_pages(platform, va, 1)),
            ("map", space.map(platform, hole, 1, Pa(16 << 16), Attributes::RAM)),
        ]
    }
}

#[test]
fn nothing_changes_below_a_restricted_table() {
    for (granule, va_bits) in [(Granule::K4, 48), (Granule::K16, 48), (Granule::K64, 52)] {
        let oa = if va_bits == 52 { OaFormat::Lpa } else { OaFormat::Bits48 };
        let g = Geometry::new(granule, va_bits, oa).unwrap();
        let memory = HostMemory::new(g, 64);
        let platform = memory.platform();
        let space = AddressSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty()).unwrap());
        space.set_policy(Policy::Live);
        let va = linmap::linear_range(g).0;
        // SAFETY: no CPU uses these addresses.
        unsafe { space.map(&platform, va, 8, Pa(0), Attributes::RAM) }.unwrap();
        let slot = Slot { table: space.root(), index: 0 };
        // SAFETY: the root is live in this memory, and has no other owner.
        unsafe { memory.store(slot, Descriptor(memory.load(slot).0 | 1 << 61)) };
        let before = (space.stats(&platform), memory.in_use());
        for (name, refused) in refusals(&space, &platform, va) {
            assert!(
                matches!(refused, Err(ChangeError::NotUnderstood { .. })),
                "{name} at {g:?}: {refused:?}"
            );
        }
        assert_eq!((space.stats(&platform), memory.in_use()), before, "{g:?}");
    }
}

/// Two tables on the way to a page have restrictions, the same ones in part: both count, whatever the other has.
#[test]
fn restrictions_of_two_levels_add_up() {
    let all = [TableLimits::PXN, TableLimits::UXN, TableLimits::NO_EL0, TableLimits::READ_ONLY];
    for g in geometries().into_iter().filter(|g| g.levels() > 2) {
        let memory = HostMemory::new(g, 64);
        let platform = memory.platform();
        let space = AddressSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty()).unwrap());
        let va = Va(g.base(Half::Upper));
        // SAFETY: no CPU uses these addresses.
        unsafe { space.map(&platform, va, 1, Pa(0), Attributes::RAM) }.unwrap();
        let above = Slot { table: space.root(), index: 0 };
        let plain = load(&memory, above);
        let Entry::Table(table) = plain.decode(g, g.root()) else { panic!("{plain:x?}") };
        let below = Slot { table, index: 0 };
        let second = load(&memory, below);
        for (one, two) in all.iter().flat_map(|&one| all.map(|two| (one, two))) {
            store(&memory, above, Descriptor(plain.0 | one.bits()));
            store(&memory, below, Descriptor(second.0 | two.bits()));
            let mut seen = Vec::new();
            let _ = space.visit(&platform, (va, va), |visited| {
                seen.push(visited.limits);
                Continue(())
            });
            let expected: Vec<_> = (0..g.levels())
                .map(|n| match n {
                    0 => TableLimits::empty(),
                    1 => one,
                    _ => one | two,
                })
                .collect();
            assert_eq!(seen, expected, "{g:?}: {one:?}, {two:?}");
            // The page is writable and executable but for what the tables take away.
            let page = Slot { table: last_table(&memory, g, space.root()), index: 0 };
            let leaf = load(&memory, page);
            let bits = Attributes::UXN.bits() | Attributes::PXN.bits();
            store(&memory, page, Descriptor(leaf.0 & !bits));
            let mut found = 0;
            let _ = space.check(&platform, &Checks { hierarchical: true, ..Checks::default() }, |_| {
                found += 1;
                Continue(())
            });
            let limits = one | two;
            let attributes = limits.restrict(Attributes::RAM - Attributes::UXN - Attributes::PXN);
            let executable = !attributes.contains(Attributes::PXN) || !attributes.contains(Attributes::UXN);
            assert_eq!(found, u32::from(attributes.is_writable() && executable), "{g:?}: {one:?}, {two:?}");
            store(&memory, page, leaf);
        }
    }
}

/// Returns the table of pages that translates the first address of the half.
fn last_table(memory: &HostMemory, g: Geometry, root: Pa) -> Pa {
    (g.root().number()..Level::PAGE.number()).fold(root, |table, level| {
        match load(memory, Slot { table, index: 0 }).decode(g, Level::new(level)) {
            Entry::Table(next) => next,
            entry => panic!("{entry:x?}"),
        }
    })
}

/// A table whose pages could be one block stays, with its restrictions, until they are gone.
#[test]
fn a_restricted_table_does_not_collapse() {
    for g in geometries().into_iter().filter(|g| g.levels() > 2) {
        let memory = HostMemory::new(g, 64);
        let platform = memory.platform();
        let (va, block) = (Va(g.base(Half::Upper)), g.level_size(Level::new(2)));
        let (attributes, leaves) = (Attributes::RAM, Leaves::Pages);
        let region = Region { va, oa: Pa(0), bytes: block, attributes, leaves };
        let space = AddressSpace::adopt(Tree::build(&platform, g, Half::Upper, region.runs(g)).unwrap());
        space.set_policy(Policy::Live);
        let created = space.stats(&platform);
        let entry = space.entry(&platform, va).map(|(_, level, _)| level);
        assert_eq!(entry, Some(Level::PAGE), "{g:?}");
        let above = (g.root().number()..2).map(Level::new).fold(space.root(), |table, level| {
            match load(&memory, Slot { table, index: 0 }).decode(g, level) {
                Entry::Table(next) => next,
                entry => panic!("{entry:x?}"),
            }
        });
        let slot = Slot { table: above, index: 0 };
        let plain = load(&memory, slot);
        let restricted = Descriptor(plain.0 | TableLimits::READ_ONLY.bits());
        store(&memory, slot, restricted);
        // From above it, and from inside.
        for pages in [2 * block / g.page_size(), 1] {
            space.collapse(&platform, va, pages).expect("no CPU to park");
            assert_eq!(load(&memory, slot), restricted, "{g:?}");
            assert_eq!(space.stats(&platform).tables, created.tables, "{g:?}");
        }
        store(&memory, slot, plain);
        space.collapse(&platform, va, 2 * block / g.page_size()).expect("no CPU to park");
        assert_eq!(space.stats(&platform).tables, created.tables - 1, "{g:?}");
    }
}
