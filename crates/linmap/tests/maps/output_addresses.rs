//! Physical addresses at the end of what descriptors can express, and where formats move bits to other places.

use std::ops::ControlFlow::Continue;

use crate::dirty_memory::dirty_memory;
use linmap::arch::Entry;
use linmap::error::{BuildError, ChangeError};
use linmap::host::HostMemory;
use linmap::{Attributes, Geometry, Half, Leaves, Pa, Policy, Region, SharedSpace, Tree, Va};
use test_support::geometries;

fn empty(g: Geometry, memory: &HostMemory) -> SharedSpace {
    let space = SharedSpace::adopt(Tree::build(memory, g, Half::Upper, std::iter::empty()).expect("a root"));
    space.set_policy(Policy::Live);
    space
}

/// Returns the mapped addresses with the addresses that they are mapped to and the bytes of the leaf.
fn leaves(space: &SharedSpace, memory: &HostMemory) -> Vec<(u64, u64, u64)> {
    let (g, mut leaves) = (space.geometry(), Vec::new());
    let all = (Va(g.base(Half::Upper)), Va(u64::MAX));
    let _ = space.on(&memory.platform()).read(|reader| {
        reader.visit(all, |visited| {
            if let Entry::Leaf(leaf) = visited.entry {
                leaves.push((visited.va.0, leaf.oa.0, g.level_size(visited.level)));
            }
            Continue(())
        })
    });
    leaves
}

/// The last page that a descriptor can express is mapped. Memory beyond it is refused, the first page of it as well as
/// the last addresses of all, and memory of which only the end is beyond.
#[test]
fn memory_beyond_the_format_is_refused() {
    for g in geometries() {
        let (page, bits, base) = (g.page_size(), g.oa_bits(), g.base(Half::Upper));
        let end = 1u64 << bits;
        let memory = dirty_memory(g, 16);
        let (space, platform) = (empty(g, &memory), memory.platform());
        let before = memory.in_use();
        for (oa, pages) in [
            (end, 1),
            (end, 8),
            (end - page, 2),
            (end - 8 * page, 9),
            (end + page, 1),
            (end << 1, 1),
            (1 << 63, 1),
            (0u64.wrapping_sub(page), 1),
            (0u64.wrapping_sub(page), 2),
        ] {
            // SAFETY: no CPU uses these tables.
            let refused = unsafe { space.on(&platform).map(Va(base), pages, Pa(oa), Attributes::RAM) };
            let error = ChangeError::OutputAddress { oa: Pa(oa), pages, bits };
            assert_eq!(refused, Err(error), "{g:?}: {pages} pages from {oa:#x}");
            let region = Region {
                va: Va(base),
                oa: Pa(oa),
                bytes: pages * page,
                attributes: Attributes::RAM,
                leaves: Leaves::Pages,
            };
            if oa.checked_add(pages * page).is_some() {
                let built = Tree::build(&memory, g, Half::Upper, region.runs(g));
                assert!(matches!(built, Err(BuildError::OutOfRange { .. })), "{g:?}: {oa:#x}");
            }
            assert_eq!(memory.in_use(), before, "{g:?}");
        }
        assert_eq!(leaves(&space, &memory), [], "{g:?}");
        // SAFETY: as above.
        unsafe { space.on(&platform).map(Va(base), 2, Pa(end - 2 * page), Attributes::RAM) }
            .expect("in range");
        assert_eq!(leaves(&space, &memory), [(base, end - 2 * page, page), (base + page, end - page, page)]);
    }
}

/// Pages and blocks on both sides of each bit of an address from 2^47 on: they are read back where they were mapped.
#[test]
fn addresses_pass_every_high_bit() {
    for g in geometries() {
        let (page, base) = (g.page_size(), g.base(Half::Upper));
        let sizes = g.leaf_sizes();
        let sizes = sizes.iter().map(|size| size.bytes()).filter(|&bytes| bytes <= 1 << (g.va_bits() - 3));
        for (bytes, bit) in sizes.flat_map(|bytes| (47..g.oa_bits()).map(move |bit| (bytes, bit))) {
            let memory = dirty_memory(g, 32);
            let (space, platform) = (empty(g, &memory), memory.platform());
            let (va, oa) = (base + 2 * bytes, (1 << bit) - bytes);
            let pages = 2 * bytes / page;
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&platform).map(Va(va), pages, Pa(oa), Attributes::RAM) }.expect("in range");
            let mut next = va;
            for (at, to, length) in leaves(&space, &memory) {
                assert_eq!((at, to), (next, oa + (at - va)), "{g:?}: bit {bit}, leaves of {bytes:#x} bytes");
                next = at + length;
            }
            assert_eq!(next, va + 2 * bytes, "{g:?}");
        }
    }
}
