//! Finds the distance between the linear map and the memory that it maps.

use std::ops::ControlFlow;

use linmap::Va;
use linmap::arch::Entry;

use super::view::{View, WalkError};

/// The number of leaves that are read.
const ASKED: u32 = 1000;
/// The most different distances that are counted.
const ANSWERS: usize = 16;

/// Returns VA minus PA of most of the first leaves of the linear map, or `None` if there are none.
pub(crate) fn offset(view: &View<'_>) -> Result<Option<u64>, WalkError> {
    let mut answers: Vec<(u64, u32)> = Vec::new();
    let mut left = ASKED;
    let range = linmap::layout::linear_range(view.geometry);
    let _ = linmap::read::visit(
        &view.bounded(),
        view.geometry,
        view.root,
        range,
        |&linmap::read::Visited { va: Va(va), entry, .. }| {
            let Entry::Leaf(leaf) = entry else { return ControlFlow::Continue(()) };
            let offset = va.wrapping_sub(leaf.oa.0);
            match answers.iter().position(|answer| answer.0 == offset) {
                Some(index) => answers[index].1 += 1,
                None if answers.len() < ANSWERS => answers.push((offset, 1)),
                None => {}
            }
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    )?;
    // Of equal ones, the first.
    let best = answers.iter().rev().max_by_key(|answer| answer.1);
    Ok(best.map(|answer| answer.0))
}
