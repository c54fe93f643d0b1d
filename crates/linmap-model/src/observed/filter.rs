//! The physical addresses that something is known about, without their names: most stores of a machine concern none of them, and
//! have to cost next to nothing. Other threads may ask while the observer works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};

/// The number of counters; a power of two.
const COUNTERS: u32 = 1 << 19;

/// The part that any thread may ask.
#[derive(Debug)]
struct Counts {
    /// For each hash the number of ranges with it. One that is full stays so.
    counts: Vec<AtomicU8>,
    /// The sizes in the filter: bit n for ranges of 2^n bytes.
    sizes: AtomicU64,
}

/// A counting filter: it may have an address that was not added, and never lacks one that was.
#[derive(Debug)]
pub(super) struct Filter {
    counts: Arc<Counts>,
    /// The number of ranges of each size.
    of_size: [usize; 64],
}

impl Default for Filter {
    fn default() -> Self {
        let counts = (0..COUNTERS).map(|_| AtomicU8::new(0)).collect();
        Self { counts: Arc::new(Counts { counts, sizes: AtomicU64::new(0) }), of_size: [0; 64] }
    }
}

/// A filter as other threads see it: what was added before they learned of it is in it.
#[derive(Clone, Debug)]
pub(super) struct Asked(Arc<Counts>);

impl Asked {
    pub(super) fn may_have(&self, pa: u64) -> bool {
        self.0.may_have(pa)
    }
}

impl Counts {
    fn counter(pa: u64, shift: u32) -> usize {
        // Fibonacci hashing: the upper bits of a product are spread best.
        let number = (pa >> shift).wrapping_add(u64::from(shift) << 52u32);
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - COUNTERS.ilog2())) as usize
    }

    /// Changes a count, if it is not full. The observer alone does.
    fn change(&self, pa: u64, shift: u32, change: impl Fn(u8) -> u8) {
        let count = &self.counts[Self::counter(pa, shift)];
        let now = count.load(Relaxed);
        if now != u8::MAX {
            count.store(change(now), Relaxed);
        }
    }

    /// Returns true if a range with this address may be in the filter.
    fn may_have(&self, pa: u64) -> bool {
        let mut sizes = self.sizes.load(Relaxed);
        while sizes != 0 {
            let shift = sizes.trailing_zeros();
            if self.counts[Self::counter(pa, shift)].load(Relaxed) != 0 {
                return true;
            }
            sizes &= sizes - 1;
        }
        false
    }
}

impl Filter {
    /// Adds a range: 2^`shift` bytes, fewer than 2^64, from a multiple of them on.
    pub(super) fn add(&mut self, pa: u64, shift: u32) {
        self.counts.change(pa, shift, |count| count.saturating_add(1));
        self.of_size[shift as usize] += 1;
        self.counts.sizes.fetch_or(1 << shift, Relaxed);
        // What is read of the range from here on has the stores of threads that did not find it here: they store, then ask.
        fence(SeqCst);
    }

    /// Removes a range that was added.
    pub(super) fn remove(&mut self, pa: u64, shift: u32) {
        self.counts.change(pa, shift, |count| count.saturating_sub(1));
        let left = &mut self.of_size[shift as usize];
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.counts.sizes.fetch_and(!(1 << shift), Relaxed);
        }
    }

    /// Returns true if a range with this address may be in the filter.
    pub(super) fn may_have(&self, pa: u64) -> bool {
        self.counts.may_have(pa)
    }

    /// Returns the filter for other threads.
    pub(super) fn asked(&self) -> Asked {
        Asked(self.counts.clone())
    }
}

#[cfg(test)]
mod tests {
    use test_support::Random;

    use super::*;

    #[test]
    fn what_was_added_is_found_and_little_else() {
        let mut random = Random::new(0);
        let mut filter = Filter::default();
        let ranges: Vec<(u64, u32)> = (0..1500)
            .map(|_| {
                let shift = [12u32, 16, 21, 30][random.below(4) as usize];
                (random.bits() >> 16u32 >> shift << shift, shift)
            })
            .collect();
        ranges.iter().for_each(|&(pa, shift)| filter.add(pa, shift));
        for &(pa, shift) in &ranges {
            assert!(filter.may_have(pa) && filter.may_have(pa + (1 << shift) - 1), "{pa:#x}, {shift}");
        }
        // Each address is looked up at four sizes, among 524,288 counters and 1,500 ranges: about one in ninety hits by chance.
        let alien = (0..10_000).filter(|_| filter.may_have(random.bits() >> 16u32)).count();
        assert!(alien < 250, "{alien} of 10,000");
        ranges.iter().for_each(|&(pa, shift)| filter.remove(pa, shift));
        assert!(!ranges.iter().any(|&(pa, _)| filter.may_have(pa)));
    }

    #[test]
    fn a_counter_that_is_full_stays_full() {
        let mut filter = Filter::default();
        (0..70_000).for_each(|_| filter.add(0x1000, 12));
        (0..69_999).for_each(|_| filter.remove(0x1000, 12));
        assert!(filter.may_have(0x1fff));
    }
}
