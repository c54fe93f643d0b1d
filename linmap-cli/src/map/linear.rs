//! How far the linear map is from the memory that it maps.

use std::ops::ControlFlow;

use linmap::{Entry, Va};

use super::view::{View, WalkError};

/// As many leaves are asked.
const ASKED: u32 = 1000;
/// As many answers are told apart.
const ANSWERS: usize = 16;

/// VA less PA of the linear map, as most of its first leaves have it; nothing if there are none.
pub(crate) fn offset(view: &View<'_>) -> Result<Option<u64>, WalkError> {
    let mut answers: Vec<(u64, u32)> = Vec::new();
    let mut left = ASKED;
    let range = linmap::linear_range(view.geometry);
    let _ = linmap::visit(&view.bounded(), view.geometry, view.root, range, |Va(va), _, entry| {
        let Entry::Leaf(leaf) = entry else { return ControlFlow::Continue(()) };
        let offset = va.wrapping_sub(leaf.oa.0);
        match answers.iter().position(|answer| answer.0 == offset) {
            Some(index) => answers[index].1 += 1,
            None if answers.len() < ANSWERS => answers.push((offset, 1)),
            None => {}
        }
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    // Of equals the first.
    let best = answers.iter().rev().max_by_key(|answer| answer.1);
    Ok(best.map(|answer| answer.0))
}
