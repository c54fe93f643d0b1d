//! Memory as lines of eight words and pages of 512, with numbered words: word `n` holds `n + 1`.

use core::ops::Range;

use kernel_plan::measure::{LINE, PAGE};

/// The words of a line.
pub(super) const LINE_WORDS: usize = LINE as usize / 8;
/// The words of a page.
pub(super) const PAGE_WORDS: usize = PAGE as usize / 8;

/// Numbers all words.
pub(super) fn fill(words: &mut [u64]) {
    for (n, word) in words.iter_mut().enumerate() {
        *word = n as u64 + 1;
    }
}

/// Returns what a word of a page holds.
pub(super) const fn number(page: usize, word: usize) -> u64 {
    (page * PAGE_WORDS + word) as u64 + 1
}

/// Splits memory into the half that is read and the one that is written, as pages.
pub(super) fn halves(words: &mut [u64]) -> (&[[u64; PAGE_WORDS]], &mut [[u64; PAGE_WORDS]]) {
    let (from, to) = words.split_at_mut(words.len() / 2);
    (from.as_chunks().0, to.as_chunks_mut().0)
}

/// Returns the steps of a turn that wrote last to its page, of so many pages that are written in turn: each page once.
pub(super) fn last_steps(pages: usize, first: u64, steps: u64) -> Range<u64> {
    let end = first + steps;
    end - steps.min(pages as u64)..end
}

/// Returns the page that a step writes.
pub(super) fn page(pages: usize, step: u64) -> usize {
    (step % pages.max(1) as u64) as usize
}
