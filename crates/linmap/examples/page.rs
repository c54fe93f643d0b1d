//! The life of a page: mapped in a block, made read-only, invalid, valid again, and part of a block again.

use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::{Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Policy, SharedSpace, Tree, Va};

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
    let memory = HostMemory::new(geometry, 16);
    let platform = memory.platform();

    // An empty address space. On a CPU, its root goes into TTBR1 now.
    let empty = Tree::build(&platform, geometry, Half::Upper, core::iter::empty())?;
    let space = SharedSpace::adopt(empty);
    space.set_policy(Policy::Live);
    let mut live = space.on(&platform);

    let start = Va(geometry.base(Half::Upper));
    // SAFETY: no CPU uses these tables.
    unsafe { live.map(start, 1024, Pa(0x4000_0000), Attributes::RAM)? };
    let mapped = live.stats();
    assert_eq!(mapped.tables, 3, "two blocks of 2M need no table of pages");

    // One page becomes read-only: its block is split, and its neighbours stay in runs of 64K.
    let page = Va(start.0 + 0x7000);
    // SAFETY: no CPU uses these tables.
    unsafe { live.protect(page, 1, Change::READ_ONLY)? };
    let split = live.stats();
    assert_eq!((split.tables, split.tlb_entries(geometry)), (4, 1 + 31 + 16));

    // It becomes invalid, and valid again with the same permissions.
    // SAFETY: no CPU uses these tables.
    unsafe {
        live.set_valid(page, 1, false)?;
        live.set_valid(page, 1, true)?;
    }

    // A change to writable and executable is refused, and so is a range with a hole. Nothing changes then.
    let both = Change::WRITABLE.and(Change::EXECUTABLE);
    // SAFETY: no CPU uses these tables.
    let refused = unsafe { live.protect(page, 1, both) };
    assert_eq!(refused, Err(ChangeError::WriteExecute { va: page }));
    let behind = Va(start.0 + (1024 << 12));
    // SAFETY: no CPU uses these tables.
    let hole = unsafe { live.protect(page, 2000, Change::READ_ONLY) };
    assert_eq!(hole, Err(ChangeError::Hole { va: behind }));
    assert_eq!(live.stats(), split);

    // Once the page is writable again, its block can be restored, and the table is freed.
    // SAFETY: no CPU uses these tables.
    unsafe { live.protect(page, 1, Change::WRITABLE)? };
    live.collapse(page, 1)?;
    assert_eq!(live.stats(), mapped);

    // SAFETY: no CPU uses these tables.
    unsafe { live.unmap(start, 1024)? };
    assert_eq!(live.stats().tables, 1, "the root alone");
    Ok(())
}
