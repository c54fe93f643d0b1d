//! A memory has table pages of one size, and tables of another geometry are not made of them, whatever safe code does.

use std::ops::ControlFlow::Continue;

use linmap::arch::Level;
use linmap::error::BuildError;
use linmap::host::HostMemory;
use linmap::layout::Run;
use linmap::{
    Attributes, Geometry, Granule, Half, Layout, Leaves, OaFormat, Pa, Policy, Rodata, SharedSpace, Tree, Va,
};

/// A geometry whose root has a few entries, so that it fits into a page of any size, and may have leaves.
fn geometry(granule: Granule) -> Geometry {
    let (va_bits, format) = match granule {
        Granule::K4 | Granule::K64 => (36, OaFormat::Bits48),
        Granule::K16 => (37, OaFormat::Lpa2),
    };
    Geometry::new(granule, va_bits, format).expect("a geometry that there is")
}

/// The harm that safe code could do with a tree of a wrong page size: a leaf becomes a table, whose entries are read.
fn misuse(memory: &HostMemory, tree: Tree) -> usize {
    let (platform, g) = (memory.platform(), tree.geometry());
    let space = SharedSpace::adopt(tree);
    space.set_policy(Policy::Live);
    let first = Va(g.base(Half::Upper));
    let split = space.on(&platform).split_to_pages(first, 1);
    let mut entries = 0;
    let _ = space.on(&platform).read(|reader| {
        reader.visit((first, Va(u64::MAX)), |_| {
            entries += 1;
            Continue(())
        })
    });
    split.map(|()| entries).expect("one leaf to split")
}

#[test]
fn a_memory_of_another_page_size_is_refused() {
    for (of_memory, of_tables) in Granule::ALL.into_iter().flat_map(|m| Granule::ALL.map(|t| (m, t))) {
        let (memory, g) = (HostMemory::new(geometry(of_memory), 4), geometry(of_tables));
        let first = Va(g.base(Half::Upper));
        let leaf = Run {
            va: first,
            oa: Pa(0),
            level: g.first_leaf_level(),
            contiguous: false,
            descriptors: 1,
            attributes: Attributes::RAM,
        };
        let error = BuildError::PageSize { memory: of_memory.page_size(), tables: of_tables.page_size() };
        for runs in [vec![leaf], vec![], vec![Run { level: Level::PAGE, ..leaf }]] {
            match Tree::build(&memory, g, Half::Upper, runs.into_iter()) {
                Ok(tree) if of_memory == of_tables => tree.discard(&memory),
                Ok(tree) => panic!("{of_memory} for {of_tables}: {} entries are read", misuse(&memory, tree)),
                Err(refused) => {
                    assert_ne!(of_memory, of_tables);
                    assert_eq!(refused, error);
                    let text = refused.to_string();
                    assert!(text.contains(&of_memory.page_size().to_string()), "{text}");
                    assert!(text.contains(&of_tables.page_size().to_string()), "{text}");
                }
            }
            assert_eq!(memory.in_use(), 0, "{of_memory} for {of_tables}");
        }
    }
}

/// The memory of a tree is that of its address space: another one refuses its tables, also where it has pages of their
/// size.
#[test]
fn a_map_is_not_changed_by_another_memory() {
    for other in Granule::ALL {
        let g = geometry(Granule::K4);
        let (memory, other) = (HostMemory::new(g, 4), HostMemory::new(geometry(other), 8));
        let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
        let space = SharedSpace::adopt(tree);
        let mut ram = [Pa(0)..Pa(1 << 30)];
        let layout = Layout::new(g, &mut ram, &mut [], Pa(0)..Pa(0), Rodata::Full).expect("RAM");
        let first = Va(g.base(Half::Upper));
        let changes: [&dyn Fn() -> bool; 3] = [
            // SAFETY: no CPU uses these tables.
            &|| unsafe { space.on(&other.platform()).create(&layout, Leaves::Largest) }.is_err(),
            &|| space.on(&other.platform()).split_to_pages(first, 1).is_err(),
            &|| space.on(&other.platform()).repaint(linmap::layout::linear_range(g), &[]).is_err(),
        ];
        for change in changes {
            let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(change));
            assert!(refused.unwrap_or(true), "{other:?}");
        }
        assert_eq!(memory.in_use(), 1);
    }
}
