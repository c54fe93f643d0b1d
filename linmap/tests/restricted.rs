//! A table above which somebody else has laid restrictions: every change of what is below it is refused, since
//! what it would say is not what it would mean.

use linmap::host::HostMemory;
use linmap::{
    AddressSpace, Attributes, Change, ChangeError, Descriptor, Geometry, Granule, Half, Memory, OaFormat, Pa,
    Platform, Policy, Slot, Tree, Va,
};

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
