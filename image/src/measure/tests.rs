//! Every work has the result that is calculated for it, and no other.

use super::*;
use kernel_plan::measure::{Effort, cells};
use std::vec::Vec;
use test_support::prelude::*;

fn filled(work: Work, words: usize) -> Vec<u64> {
    let mut memory = std::vec![0; words];
    fill(work, &mut memory);
    memory
}

#[test]
fn all_turns_of_a_quick_measurement_are_right() {
    for cell in cells(Effort::Quick, 1 << 20, 4) {
        let mut memory = filled(cell.work, cell.share as usize / 8);
        for (pair, _) in cell.turns() {
            for (first, steps) in [cell.warm_up(pair), (cell.first_step(pair), cell.steps)] {
                let result = run(cell.work, &mut memory, first, steps);
                assert!(is_right(cell.work, &mut memory, first, steps, result), "{cell:?} {pair}");
            }
        }
    }
}

#[test]
fn a_turn_that_does_nothing_is_wrong() {
    for work in Work::ALL {
        let mut memory = filled(work, 8192);
        let result = run(work, &mut memory, 3, 40);
        assert!(is_right(work, &mut memory, 3, 40, result), "{work:?}");
        // What was written is gone, and another result is that of other steps.
        let again = if matches!(work, Work::Copy | Work::Cipher) { result } else { result ^ 1 };
        assert!(!is_right(work, &mut memory, 3, 40, again), "{work:?}");
    }
}

/// Where a page of the map leads to other memory than before, a work finds it.
#[test]
fn memory_of_another_page_is_noticed() {
    for work in Work::ALL {
        let mut memory = filled(work, 16384);
        let (one, other) = memory.split_at_mut(512);
        one.swap_with_slice(&mut other[..512]);
        // The first page alone: the sum of both is the same.
        let steps = if work == Work::PageReads { 1 } else { 1001 };
        let result = run(work, &mut memory, 0, steps);
        assert!(!is_right(work, &mut memory, 0, steps, result), "{work:?}");
    }
}

proptest! {
    /// Whatever the steps are, the result is calculated without the memory.
    #[test]
    fn results_are_calculated(work in prop::sample::select(Work::ALL.to_vec()), log in 13..16u32, first in 0..1u64 << 40, steps in 1..5000u64) {
        let mut memory = filled(work, 1 << log);
        let steps = if work == Work::Cipher { steps / 50 + 1 } else { steps };
        let result = run(work, &mut memory, first, steps);
        prop_assert!(is_right(work, &mut memory, first, steps, result));
    }
}
