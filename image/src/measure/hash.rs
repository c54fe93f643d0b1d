//! Look-ups in a hash table that is half full. Each slot is a line with a key and its value; a key is at the slot that
//! its upper bits name, or at one of the next ones (linear probing). Half of the keys that are looked up are in it.

use kernel_plan::measure::Cycle;

use super::lines::LINE_WORDS;

type Slot = [u64; LINE_WORDS];

/// Returns the key with a number: never 0, and another one for each number (the finalizer of SplitMix64 is a bijection
/// that keeps 0).
const fn key(number: u64) -> u64 {
    let z = number + 1;
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Returns the value that belongs to a key.
const fn value(key: u64) -> u64 {
    key.rotate_left(17) | 1
}

/// Returns the number of keys in a table of so many words.
const fn keys(words: usize) -> u64 {
    (words / LINE_WORDS / 2) as u64
}

/// Returns the first slot of a key, of so many.
const fn home(slots: usize, key: u64) -> usize {
    ((key as u128 * slots as u128) >> 64) as usize
}

/// Finds a key, or the slot that it would have. `None` if the table is full.
#[inline]
fn find(slots: &[Slot], key: u64) -> Option<usize> {
    let home = home(slots.len(), key);
    let is_end = |at: &usize| slots[*at][0] == key || slots[*at][0] == 0;
    (home..slots.len()).find(is_end).or_else(|| (0..home).find(is_end))
}

/// Makes the table.
pub(super) fn fill(words: &mut [u64]) {
    let keys = keys(words.len());
    words.fill(0);
    let slots = words.as_chunks_mut::<LINE_WORDS>().0;
    for key in (0..keys).map(key) {
        if let Some(at) = find(slots, key) {
            slots[at][..2].copy_from_slice(&[key, value(key)]);
        }
    }
}

/// Looks keys up, and adds the values of those that are there.
pub(super) fn run(words: &[u64], first: u64, steps: u64) -> u64 {
    let (cycle, slots) = (Cycle::of(2 * keys(words.len())), words.as_chunks::<LINE_WORDS>().0);
    let (mut number, mut sum) = (cycle.after(first), 0u64);
    for _ in 0..steps {
        let found = find(slots, key(number)).map_or(0, |at| slots[at][1]);
        sum = sum.wrapping_add(found);
        number = cycle.next(number);
    }
    sum
}

/// Returns the sum, calculated.
pub(super) fn expected(words: usize, first: u64, steps: u64) -> u64 {
    let cycle = Cycle::of(2 * keys(words));
    let (mut number, mut sum) = (cycle.after(first), 0u64);
    for _ in 0..steps {
        let found = if number < keys(words) { value(key(number)) } else { 0 };
        sum = sum.wrapping_add(found);
        number = cycle.next(number);
    }
    sum
}
