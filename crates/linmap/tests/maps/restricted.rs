//! Tables with restrictions, as a kernel may have made them: what lies below changes as anywhere else, and the restrictions
//! stay.

use std::ops::ControlFlow::Continue;

use crate::raw::{load, store};
use linmap::arch::{Descriptor, Entry, Level, TableAttributes, TableLimits};
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::read::Checks;
use linmap::{
    Attributes, Change, Geometry, Half, Leaves, Pa, Platform, Policy, Region, SharedSpace, Slot, Tree, Va,
};
use test_support::geometries;

/// The results of all operations that change something.
fn results<P: Platform>(
    space: &SharedSpace,
    platform: &P,
    va: Va,
) -> [(&'static str, Result<(), ChangeError>); 7] {
    let hole = Va(va.0 + (16 << 16));
    // SAFETY: no CPU uses these addresses or the memory that they are mapped to.
    unsafe {
        [
            ("protect", space.on(platform).protect(va, 1, Change::READ_ONLY)),
            ("set_valid", space.on(platform).set_valid(va, 1, false)),
            ("split_to_pages", space.on(platform).split_to_pages(va, 1)),
            ("map", space.on(platform).map(hole, 1, Pa(16 << 16), Attributes::RAM)),
            ("collapse", space.on(platform).collapse(va, 1)),
            ("unmap", space.on(platform).unmap(va, 1)),
            ("unmap_all", space.on(platform).unmap_all(&[(hole, 1)])),
        ]
    }
}

#[test]
fn everything_changes_below_a_restricted_table() {
    for g in geometries().into_iter().filter(|g| g.levels() > 1) {
        let memory = HostMemory::new(g, 64);
        let platform = memory.platform();
        let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty()).unwrap());
        space.set_policy(Policy::Live);
        let va = linmap::layout::linear_range(g).0;
        // SAFETY: no CPU uses these addresses.
        unsafe { space.on(&platform).map(va, 8, Pa(0), Attributes::RAM) }.unwrap();
        let slot = Slot { table: space.root(), index: g.index(va.0, g.root()) };
        let restricted = Descriptor(load(&memory, slot).0 | TableLimits::all().bits());
        store(&memory, slot, restricted);
        for (name, result) in results(&space, &platform, va) {
            assert_eq!(result, Ok(()), "{name} at {g:?}");
        }
        assert_eq!(load(&memory, slot), restricted, "{g:?}");
        let all = (Va(g.base(Half::Upper)), Va(u64::MAX));
        assert_eq!(
            space.on(&platform).stats(),
            space.on(&platform).read(|reader| reader.count(all)),
            "{g:?}"
        );
        let mut seen = Vec::new();
        let _ = space.on(&platform).read(|reader| {
            reader.visit((Va(va.0 + g.page_size()), Va(va.0 + g.page_size())), |visited| {
                seen.push((visited.entry, visited.limits));
                Continue(())
            })
        });
        assert!(matches!(seen.last(), Some((Entry::Leaf(_), limits)) if limits.is_all()), "{g:?}: {seen:?}");
    }
}

/// New tables get the restrictions that the map gives its tables, as far as they take nothing away; and a table that has
/// no others goes.
#[test]
fn new_tables_are_restricted() {
    let never = TableAttributes::PXN | TableAttributes::UXN;
    for g in geometries().into_iter().filter(|g| g.levels() > 2) {
        let memory = HostMemory::new(g, 64);
        let platform = memory.platform();
        let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty()).unwrap());
        space.set_policy(Policy::Live);
        space.set_table_attributes(never | TableAttributes::ACCESSED);
        let (va, block) = (Va(g.base(Half::Upper)), g.level_size(Level::new(2)));
        let pages = block / g.page_size();
        // SAFETY: no CPU uses these addresses.
        unsafe { space.on(&platform).map(va, pages, Pa(0), Attributes::RAM) }.unwrap();
        let created = space.on(&platform).stats();
        let above = (g.root().number()..2).map(Level::new).fold(space.root(), |table, level| {
            let entry = load(&memory, Slot { table, index: 0 });
            assert_eq!(entry.0 & (never | TableAttributes::ACCESSED).bits(), 3 << 59 | 1 << 10, "{g:?}");
            let Entry::Table(next) = entry.decode(g, level) else { panic!("{entry:x?}") };
            next
        });
        let slot = Slot { table: above, index: 0 };
        let text = Change::READ_ONLY.and(Change::EXECUTABLE);
        let data = Change::WRITABLE.and(Change::NOT_EXECUTABLE);
        for (change, limits) in [(Change::READ_ONLY, TableLimits::PXN), (text, TableLimits::empty())] {
            // SAFETY: as above.
            unsafe { space.on(&platform).protect(Va(va.0 + g.page_size()), 1, change) }.unwrap();
            assert_eq!(TableLimits::of(load(&memory, slot)), limits | TableLimits::UXN, "{g:?}");
            // SAFETY: as above.
            unsafe { space.on(&platform).protect(va, pages, data) }.unwrap();
            space.on(&platform).collapse(va, pages).expect("no CPU to park");
            assert_eq!(space.on(&platform).stats(), created, "{g:?}");
        }
    }
}

/// Two tables on the way to a page have restrictions, the same ones in part: both count, whatever the other has.
#[test]
fn restrictions_of_two_levels_add_up() {
    let all = [TableLimits::PXN, TableLimits::UXN, TableLimits::NO_EL0, TableLimits::READ_ONLY];
    for g in geometries().into_iter().filter(|g| g.levels() > 2) {
        let memory = HostMemory::new(g, 64);
        let platform = memory.platform();
        let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty()).unwrap());
        let va = Va(g.base(Half::Upper));
        // SAFETY: no CPU uses these addresses.
        unsafe { space.on(&platform).map(va, 1, Pa(0), Attributes::RAM) }.unwrap();
        let above = Slot { table: space.root(), index: 0 };
        let plain = load(&memory, above);
        let Entry::Table(table) = plain.decode(g, g.root()) else { panic!("{plain:x?}") };
        let below = Slot { table, index: 0 };
        let second = load(&memory, below);
        for (one, two) in all.iter().flat_map(|&one| all.map(|two| (one, two))) {
            store(&memory, above, Descriptor(plain.0 | one.bits()));
            store(&memory, below, Descriptor(second.0 | two.bits()));
            let mut seen = Vec::new();
            let _ = space.on(&platform).read(|reader| {
                reader.visit((va, va), |visited| {
                    seen.push(visited.limits);
                    Continue(())
                })
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
            let _ = space.on(&platform).read(|reader| {
                reader.check(&Checks { hierarchical: true, ..Checks::default() }, |_| {
                    found += 1;
                    Continue(())
                })
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

/// Each table of a tree gets the restrictions that remove nothing from what is below it.
#[test]
fn tables_of_a_tree_are_restricted_by_what_they_map() {
    for g in geometries().into_iter().filter(|g| g.levels() > 2) {
        let memory = HostMemory::new(g, 64);
        let (va, block) = (g.base(Half::Upper), g.level_size(Level::new(2)));
        let part = |first: u64, attributes| Region {
            va: Va(va + first * block),
            oa: Pa(first * block),
            bytes: 2 * g.page_size(),
            attributes,
            leaves: Leaves::Pages,
        };
        let regions = [part(0, Attributes::RAM), part(1, Attributes::KERNEL_TEXT), part(3, Attributes::RAM)];
        let runs = regions.iter().flat_map(|region| region.runs(g));
        let own = TableAttributes::all();
        let tree = Tree::build_with(&memory, g, Half::Upper, own, runs).expect("pages enough");
        let mut table = tree.root();
        for level in (g.root().number()..2).map(Level::new) {
            let entry = load(&memory, Slot { table, index: 0 });
            // Some of it is executable at EL1, some is writable.
            assert_eq!(TableLimits::of(entry), TableLimits::UXN | TableLimits::NO_EL0, "{g:?} {level:?}");
            let Entry::Table(next) = entry.decode(g, level) else { panic!("{entry:x?}") };
            table = next;
        }
        let of = |index| TableLimits::of(load(&memory, Slot { table, index }));
        let never = TableLimits::UXN | TableLimits::NO_EL0;
        let expected = [never | TableLimits::PXN, never | TableLimits::READ_ONLY, never | TableLimits::PXN];
        // Where the root is the table of blocks, the last index may be in another one.
        if g.entries(Level::new(2)) > 3 {
            assert_eq!([0, 1, 3].map(of), expected, "{g:?}");
        }
        tree.discard(&memory);
    }
}

/// A table whose pages could be one block stays, if a new one would not get its restrictions.
#[test]
fn a_restricted_table_does_not_collapse() {
    for g in geometries().into_iter().filter(|g| g.levels() > 2) {
        let memory = HostMemory::new(g, 64);
        let platform = memory.platform();
        let (va, block) = (Va(g.base(Half::Upper)), g.level_size(Level::new(2)));
        let (attributes, leaves) = (Attributes::RAM, Leaves::Pages);
        let region = Region { va, oa: Pa(0), bytes: block, attributes, leaves };
        let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, region.runs(g)).unwrap());
        space.set_policy(Policy::Live);
        let created = space.on(&platform).stats();
        let entry = space.on(&platform).read(|reader| reader.entry(va)).map(|(_, level, _)| level);
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
            space.on(&platform).collapse(va, pages).expect("no CPU to park");
            assert_eq!(load(&memory, slot), restricted, "{g:?}");
            assert_eq!(space.on(&platform).stats().tables, created.tables, "{g:?}");
        }
        store(&memory, slot, plain);
        space.on(&platform).collapse(va, 2 * block / g.page_size()).expect("no CPU to park");
        assert_eq!(space.on(&platform).stats().tables, created.tables - 1, "{g:?}");
    }
}
