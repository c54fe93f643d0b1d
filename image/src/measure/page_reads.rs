//! Reads of whole pages at random places, as of files in a page cache. Their addresses do not depend on what is read.

use kernel_plan::measure::Cycle;

use super::lines::PAGE_WORDS;

fn cycle(words: usize) -> Cycle {
    Cycle::of((words / PAGE_WORDS) as u64)
}

/// Adds all words of the pages.
pub(super) fn run(words: &[u64], first: u64, steps: u64) -> u64 {
    let (cycle, pages) = (cycle(words.len()), words.as_chunks::<PAGE_WORDS>().0);
    let (mut page, mut sum) = (cycle.after(first), 0u64);
    for _ in 0..steps {
        let Some(words) = pages.get(page as usize) else { return 0 };
        sum = words.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
        page = cycle.next(page);
    }
    sum
}

/// Returns the sum, calculated: the words of a page are the numbers from `512 * page + 1` on.
pub(super) fn expected(words: usize, first: u64, steps: u64) -> u64 {
    let (cycle, n) = (cycle(words), PAGE_WORDS as u64);
    let (mut page, mut sum) = (cycle.after(first), 0u64);
    for _ in 0..steps {
        sum = sum.wrapping_add(n * n * page + n * (n + 1) / 2);
        page = cycle.next(page);
    }
    sum
}
