//! Dependent loads: the first word of each line is the number of the next line, so that no load starts before the one
//! before it has ended. All lines are in one circle.

use kernel_plan::measure::Cycle;

use super::lines::LINE_WORDS;

fn cycle(words: usize) -> Cycle {
    Cycle::of((words / LINE_WORDS) as u64)
}

/// Makes the circle.
pub(super) fn fill(words: &mut [u64]) {
    let cycle = cycle(words.len());
    for (n, line) in words.as_chunks_mut::<LINE_WORDS>().0.iter_mut().enumerate() {
        line[0] = cycle.next(n as u64);
    }
}

/// Follows it, and returns the line where the steps end.
pub(super) fn run(words: &[u64], first: u64, steps: u64) -> u64 {
    let mut at = cycle(words.len()).after(first);
    let lines = words.as_chunks::<LINE_WORDS>().0;
    for _ in 0..steps {
        // A line that is not there ends the walk at a line that is not expected.
        let Some(line) = lines.get(at as usize) else { return u64::MAX };
        at = line[0];
    }
    at
}

/// Returns that line, calculated.
pub(super) fn expected(words: usize, first: u64, steps: u64) -> u64 {
    cycle(words).after(first + steps)
}
