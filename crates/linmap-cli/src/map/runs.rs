//! Every entry of a range as `descent` has them, but neighbours that differ in their output addresses alone at once.
//!
//! The tables of RAM in pages are such runs, which the snapshot already knows: 16.8 million entries of 64 GiB become some
//! ten thousand. The walk is the library's. It is left after a run, and begun again behind it.

use std::ops::ControlFlow;

use linmap::arch::{Descriptor, Entry, Leaf};
use linmap::read::Visited;
use linmap::{Pa, Va};

use super::descent::{descend, meaning};
use super::view::{View, WalkError};

/// Fewer entries are visited one by one: to begin again takes as long.
const WORTH: u64 = 8;

/// Entries that follow each other: the first of them, and how many there are.
pub(crate) struct Entries<'f> {
    pub(crate) first: &'f Visited,
    pub(crate) count: u64,
    /// The bytes that they translate together.
    pub(crate) bytes: u64,
}

/// Calls `each` for all entries that translate an address of this range, both ends included: a table before its entries.
/// Leaves that continue each other in both addresses, and holes, can come together. `each` ends the walk by
/// `ControlFlow::Break`.
pub(crate) fn descend_runs(
    view: &View<'_>,
    range: (Va, Va),
    mut each: impl FnMut(&Entries<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, WalkError> {
    let bounded = view.bounded();
    let mut from = range.0;
    let mut is_first = true;
    loop {
        let mut next = None;
        let flow = descend(&bounded, view.geometry, view.root, (from, range.1), |found| {
            // The tables on the way to where the walk begins again were visited before.
            if matches!(found.entry, Entry::Table(_)) && !is_first && found.va < from {
                return ControlFlow::Continue(());
            }
            let size = view.geometry.level_size(found.level);
            let count = count(view, found, range.1);
            let flow = each(&Entries { first: found, count, bytes: count.saturating_mul(size) });
            if count > 1 && flow.is_continue() {
                next = found.va.0.checked_add(count * size).map(Va);
                next = next.filter(|next| *next <= range.1);
                return ControlFlow::Break(());
            }
            flow
        })?;
        match next {
            Some(va) => (from, is_first) = (va, false),
            None => return Ok(flow),
        }
    }
}

/// Returns how many entries from this one on, up to the last address, come together.
fn count(view: &View<'_>, found: &Visited, last: Va) -> u64 {
    let (run, step) = view.run(found.slot, found.level);
    let size = view.geometry.level_size(found.level);
    let inside = (last.0.saturating_sub(found.va.0) / size).saturating_add(1);
    let count = run.min(inside);
    if count < WORTH {
        return 1;
    }
    let end = found.descriptor.0.wrapping_add(step.wrapping_mul(count - 1));
    let distance = size.wrapping_mul(count - 1);
    let is_run = match (found.entry, meaning(Descriptor(end), view.geometry, found.level)) {
        (Entry::Hole, Entry::Hole) => step == 0,
        // If the last one continues the first, each between them does, since all steps are equal.
        (Entry::Leaf(first), Entry::Leaf(end)) => {
            step == size && end == Leaf { oa: Pa(first.oa.0.wrapping_add(distance)), ..first }
        }
        _ => false,
    };
    if is_run { count } else { 1 }
}
