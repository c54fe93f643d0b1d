//! The works of `run=measure` on a slice of memory, and the results that they must have.
//!
//! Nothing here knows of maps or time. Each work fills its memory once, so that the result of any of its turns can be
//! calculated without that memory. The image compares each turn with that.
//!
//! - `lines`: memory as lines of eight words.  `loads`, `page_reads`, `copy`, `cipher`, `hash`: the works.
//! - [`spread`]: the distribution of a few samples.  [`emulation`]: recognises a CPU whose times mean nothing.

mod cipher;
mod copy;
pub mod emulation;
mod hash;
mod lines;
mod loads;
mod page_reads;
pub mod spread;
#[cfg(test)]
mod tests;

use kernel_plan::measure::Work;

/// Fills the memory of a work, a power of two of words and at least 64 KiB.
#[inline(never)]
pub fn fill(work: Work, words: &mut [u64]) {
    match work {
        Work::Loads => loads::fill(words),
        Work::PageReads | Work::Copy | Work::Cipher => lines::fill(words),
        Work::Hash => hash::fill(words),
    }
}

/// Does so many steps, from this one on, and returns their result: what is timed.
#[inline(never)]
pub fn run(work: Work, words: &mut [u64], first: u64, steps: u64) -> u64 {
    match work {
        Work::Loads => loads::run(words, first, steps),
        Work::PageReads => page_reads::run(words, first, steps),
        Work::Copy => copy::run(words, first, steps),
        Work::Cipher => cipher::run(words, first, steps),
        Work::Hash => hash::run(words, first, steps),
    }
}

/// Returns true if this is the right result of these steps. Removes what they have written, so that the next turn has to
/// write it again.
#[inline(never)]
pub fn is_right(work: Work, words: &mut [u64], first: u64, steps: u64, result: u64) -> bool {
    match work {
        Work::Loads => result == loads::expected(words.len(), first, steps),
        Work::PageReads => result == page_reads::expected(words.len(), first, steps),
        Work::Copy => copy::is_done(words, first, steps),
        Work::Cipher => cipher::is_done(words, first, steps),
        Work::Hash => result == hash::expected(words.len(), first, steps),
    }
}
