//! The physical pages of a workload's memory: they decide how much locality is left for a TLB.

use std::ops::Range;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The order in which a page allocator hands out memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In order of address, as on a machine that has just booted.
    Fresh,
    /// In aligned blocks of 1, 2, 4 to 512 pages, each size a tenth of memory, in random order, as after long use.
    Aged,
    /// Each page anywhere in RAM.
    Random,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fresh, Self::Aged, Self::Random];

    /// Returns its name: `fresh`, `aged` or `random`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Aged => "aged",
            Self::Random => "random",
        }
    }
}

/// log2 of the pages in the largest block of [`Placement::Aged`].
const LARGEST_ORDER: u32 = 9;
/// The most blocks of that size to choose from: enough for any workload.
const MAX_BLOCKS: usize = 1 << 17;

/// Returns `count` of the pages in `usable`, in the order in which they are handed out; fewer if there are no more.
///
/// `usable` has ranges of page numbers by address.
pub(crate) fn place(usable: &[Range<u32>], count: usize, placement: Placement, seed: u64) -> Vec<u32> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let in_order = || usable.iter().flat_map(Clone::clone);
    match placement {
        Placement::Fresh => in_order().take(count).collect(),
        Placement::Aged => aged(usable, count, &mut random),
        Placement::Random => anywhere(usable, count, &mut random),
    }
}

/// Returns pages in blocks of all sizes in random order. Memory outside of whole largest blocks is left out.
fn aged(usable: &[Range<u32>], count: usize, random: &mut Pcg64Mcg) -> Vec<u32> {
    let size = 1u32 << LARGEST_ORDER;
    let whole = |r: &Range<u32>| r.start.next_multiple_of(size)..r.end & !(size - 1);
    let mut blocks: Vec<u32> =
        usable.iter().map(whole).flat_map(|range| range.step_by(size as usize)).collect();
    blocks.shuffle(random);
    let wanted = (4 * count).div_ceil(size as usize).max(64);
    blocks.truncate(wanted.max(MAX_BLOCKS));
    let mut free: Vec<(u32, u32)> = Vec::new();
    for block in blocks {
        let order = random.random_range(0..=LARGEST_ORDER);
        free.extend((block..block + size).step_by(1 << order).map(|start| (start, 1 << order)));
    }
    free.shuffle(random);
    free.into_iter().flat_map(|(start, pages)| start..start + pages).take(count).collect()
}

/// Returns pages in random order, none twice.
fn anywhere(usable: &[Range<u32>], count: usize, random: &mut Pcg64Mcg) -> Vec<u32> {
    let total: u64 = usable.iter().map(|range| u64::from(range.end.saturating_sub(range.start))).sum();
    let shuffle = Shuffle::new(total, random);
    (0..total.min(count as u64)).filter_map(|number| nth(usable, shuffle.of(number))).collect()
}

/// Returns the page with this index in `usable`.
fn nth(usable: &[Range<u32>], mut number: u64) -> Option<u32> {
    for range in usable {
        let pages = u64::from(range.end.saturating_sub(range.start));
        if number < pages {
            return Some(range.start + number as u32);
        }
        number -= pages;
    }
    None
}

/// A random permutation of the numbers below a limit, in constant memory: a Feistel network over an even number of
/// bits, repeated until the result is below the limit.
struct Shuffle {
    limit: u64,
    half: u32,
    keys: [u64; 4],
}

impl Shuffle {
    fn new(limit: u64, random: &mut Pcg64Mcg) -> Self {
        let bits = (64 - limit.saturating_sub(1).leading_zeros()).max(2);
        Self { limit, half: bits.div_ceil(2), keys: std::array::from_fn(|_| random.random()) }
    }

    /// Returns the number at this place of the permutation.
    fn of(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let mut number = number;
        loop {
            let (mut left, mut right) = (number >> self.half, number & mask);
            for key in self.keys {
                let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (left, right) = (right, left ^ (mixed >> 32 & mask));
            }
            number = left << self.half | right;
            if number < self.limit {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USABLE: [Range<u32>; 2] = [1000..5000, 8192..20_000];

    fn placed(placement: Placement, seed: u64) -> Vec<u32> {
        place(&USABLE, 6000, placement, seed)
    }

    #[test]
    fn no_page_is_handed_out_twice_or_made_up() {
        for placement in Placement::ALL {
            let mut pages = placed(placement, 5);
            assert_eq!(pages.len(), 6000, "{placement:?}");
            assert_eq!(pages, placed(placement, 5), "the same seed, the same pages");
            pages.sort_unstable();
            pages.dedup();
            assert_eq!(pages.len(), 6000, "{placement:?}");
            assert!(pages.iter().all(|page| USABLE.iter().any(|range| range.contains(page))));
        }
        assert_ne!(placed(Placement::Aged, 5), placed(Placement::Aged, 6));
        assert_eq!(place(&USABLE, 99_999, Placement::Random, 1).len(), 4000 + 11_808);
    }

    #[test]
    fn the_older_the_more_breaks() {
        let breaks = |placement| placed(placement, 1).windows(2).filter(|p| p[0] + 1 != p[1]).count();
        let [fresh, aged, random] = Placement::ALL.map(breaks);
        assert!(fresh == 1 && aged > 100 && aged < 3000 && random > 5900, "{fresh} {aged} {random}");
    }
}
