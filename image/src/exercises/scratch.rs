//! The RAM whose map exercises change, and addresses for maps of their own. A machine may have too little RAM: then they are skipped.

use linmap::Va;
use linmap::layout::linear_range;

use crate::system::System;
use crate::warning::warn;

/// Returns where the linear map has the scratch range, if that has so many pages. Otherwise warns that the task is skipped.
pub(super) fn scratch(system: &System<'_>, task: &str, pages: u64) -> Option<Va> {
    let range = &system.memory.scratch.range;
    let there = (range.end.0 - range.start.0) >> system.geometry.page_shift();
    let start = system.memory.layout.va(range.start).filter(|_| there >= pages);
    if start.is_none() {
        let size = system.geometry.page_size() >> 10_u32;
        warn(format_args!(
            "run={task}: skipped, as it changes the map of {pages} free pages of {size} KiB, and there are {there}"
        ));
    }
    start
}

/// Returns the start of a gigabyte, one of nine, behind the middle of what is behind the linear map. Nothing else has tables there.
pub(super) fn unused_gigabyte(system: &System<'_>, number: u64) -> Va {
    let behind_linear = linear_range(system.geometry).1.0 + 1;
    Va(behind_linear + behind_linear.wrapping_neg() / 2 + (number << 30))
}
