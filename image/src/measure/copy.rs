//! Pages copied in order of address, from the lower half of the memory to the upper one.

use super::lines::{LINE_WORDS, halves, last_steps, number, page};

/// Copies a page at each step; after the last page comes the first.
pub(super) fn run(words: &mut [u64], first: u64, steps: u64) -> u64 {
    let (from, to) = halves(words);
    let pages = from.len().min(to.len());
    let mut at = page(pages, first);
    for _ in 0..steps {
        to[at] = from[at];
        at = if at + 1 == pages { 0 } else { at + 1 };
    }
    steps
}

/// Returns true if the pages have been copied: a word of each line. Clears these.
pub(super) fn is_done(words: &mut [u64], first: u64, steps: u64) -> bool {
    let (_, to) = halves(words);
    let (pages, mut done) = (to.len(), true);
    for at in last_steps(pages, first, steps).map(|step| page(pages, step)) {
        for (line, words) in to[at].as_chunks_mut::<LINE_WORDS>().0.iter_mut().enumerate() {
            let word = line % LINE_WORDS;
            done &= core::mem::take(&mut words[word]) == number(at, line * LINE_WORDS + word);
        }
    }
    done
}
