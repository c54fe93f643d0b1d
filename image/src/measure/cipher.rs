//! Blocks of 4 KiB encrypted with ChaCha20 in order of address, from the lower half of the memory to the upper one, as
//! disks are: each block has the number of its step as its nonce.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};

use super::lines::{LINE_WORDS, PAGE_WORDS, halves, last_steps, number, page};

const KEY: [u8; 32] = *b"the same key for all measurement";
/// The blocks whose contents are compared, at most.
const COMPARED: usize = 8;

fn cipher(block: u64) -> ChaCha20 {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&block.to_le_bytes());
    ChaCha20::new(&KEY.into(), &nonce.into())
}

/// Encrypts a block.
fn encrypt(number: u64, from: &[u64; PAGE_WORDS], mut to: impl FnMut(usize, u64)) {
    let mut cipher = cipher(number);
    for (line, words) in from.as_chunks::<LINE_WORDS>().0.iter().enumerate() {
        let mut stream = [0; 8 * LINE_WORDS];
        cipher.apply_keystream(&mut stream);
        for (n, (word, key)) in words.iter().zip(stream.as_chunks().0).enumerate() {
            to(line * LINE_WORDS + n, word ^ u64::from_le_bytes(*key));
        }
    }
}

/// Encrypts a block at each step; after the last block comes the first.
pub(super) fn run(words: &mut [u64], first: u64, steps: u64) -> u64 {
    let (from, to) = halves(words);
    let pages = from.len().min(to.len());
    for step in first..first + steps {
        let at = page(pages, step);
        let (from, to) = (&from[at], &mut to[at]);
        encrypt(step, from, |n, word| to[n] = word);
    }
    steps
}

/// Returns true if blocks have been encrypted: all words of some of them. Clears these.
pub(super) fn is_done(words: &mut [u64], first: u64, steps: u64) -> bool {
    let (_, to) = halves(words);
    let pages = to.len();
    let last = last_steps(pages, first, steps);
    let apart = ((last.end - last.start) as usize / COMPARED).max(1);
    let mut done = true;
    for step in last.step_by(apart) {
        let at = page(pages, step);
        let (plain, to) = (core::array::from_fn(|word| number(at, word)), &mut to[at]);
        encrypt(step, &plain, |n, word| done &= core::mem::take(&mut to[n]) == word);
    }
    done
}
