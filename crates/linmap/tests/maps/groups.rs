//! Lists of more ranges than are claimed together change group by group, and yet all or nothing: what was cut for a later group
//! stays cut, although others collapse the map meanwhile, and however little memory is left.

use std::cell::{Cell, RefCell};

use linmap::error::ChangeError;
use linmap::{Attributes, Change, ChangeFlags, Memory, SharedSpace, Va};

use crate::between_holds::{Interrupted, Platform, geometry, is_read_only, pa, with_map};

const BLOCK: u64 = 1 << 21;
const LISTED: u64 = 40;

/// A page in each of many blocks.
fn page(n: u64) -> Va {
    Va(geometry().base(linmap::Half::Upper) + n * BLOCK + (n + 1) * 0x1000)
}

#[test]
fn a_list_is_never_half_done() {
    let (mut done, mut refused) = (0, 0);
    for moment in 1..400 {
        let hoard = RefCell::new(Vec::new());
        let happened = Cell::new(false);
        let otherwise = |space: &SharedSpace, platform: &Platform<'_, '_, 64>, _: &Interrupted<'_, 64>| {
            happened.set(true);
            let base = Va(geometry().base(linmap::Half::Upper));
            space.on(platform).collapse(base, LISTED * 512).expect("nobody parks");
            hoard.borrow_mut().extend(std::iter::from_fn(|| platform.take()));
        };
        with_map::<64>(otherwise, |space, platform, hardware| {
            let base = Va(geometry().base(linmap::Half::Upper));
            let pages = (0..LISTED).map(page);
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(platform).map(base, LISTED * 512, pa(base), Attributes::RAM) }.expect("room");
            hardware.left.set(moment);
            let flags = ChangeFlags::empty();
            // SAFETY: as above.
            let result = unsafe { space.on(platform).change_pages(pages.clone(), Change::READ_ONLY, flags) };
            hardware.left.set(0);
            let changed = pages.filter(|va| is_read_only(space, platform, *va)).count() as u64;
            match result {
                Ok(()) => assert_eq!(changed, LISTED, "moment {moment}"),
                Err(ChangeError::OutOfFrames { .. }) => assert_eq!(changed, 0, "moment {moment}"),
                Err(error) => panic!("{error}"),
            }
            refused += u32::from(result.is_err());
            done += u32::from(result.is_ok() && happened.get());
            hoard.take().into_iter().for_each(|frame| platform.give(frame));
        });
        if !happened.get() {
            break;
        }
    }
    assert!(done > 0 && refused > 0, "{done} {refused}");
}
