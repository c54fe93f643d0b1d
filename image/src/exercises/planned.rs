//! The counts that the linear map should have, as the library plans it.

use core::ops::Range;

use arrayvec::ArrayVec;
use kernel_plan::ranges::CAPACITY;
use linmap::{Layout, Leaves, Pa, Policy, Stats};

use crate::system::System;

/// Returns the counts of the linear map with this carve-out as the only one; none if there is no such layout.
pub(super) fn planned(system: &System<'_>, carve_out: Option<Range<Pa>>) -> Option<Stats> {
    let System { memory, geometry, args, space, .. } = system;
    let mut ram: ArrayVec<_, CAPACITY> = memory.layout.ram().iter().cloned().collect();
    let mut carve_outs: ArrayVec<_, 1> = carve_out.into_iter().filter(|range| !range.is_empty()).collect();
    let layout = Layout::new(*geometry, &mut ram, &mut carve_outs, memory.alias.clone(), args.rodata)
        .and_then(|layout| layout.with_data(memory.layout.data().0.clone(), args.data))
        .ok()?;
    let leaves = if space.policy() == Policy::Pages { Leaves::Pages } else { Leaves::Largest };
    Some(Stats::of_runs(*geometry, layout.runs(leaves)))
}
