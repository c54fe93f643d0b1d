//! The next operation: it follows from the seed, the CPU and the operation's number alone.

use core::ops::Range;

use super::Random;
use super::model::Change;

/// The pages: those of the linear map first, then those in the vmalloc area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pages {
    /// The pages in the linear map.
    pub linear: usize,
    /// The pages in the vmalloc area.
    pub vmalloc: usize,
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// One change.
    Change(Change),
    /// Split to pages.
    Split,
    /// Collapse as far as possible.
    Collapse,
    /// Make it RAM again, and collapse.
    Restore,
    /// Unmap what is mapped, then map as a whole.
    Renew {
        /// See [`Mapped`](super::model::Mapped).
        skewed: bool,
    },
    /// Break-before-make, with each page in a page table of its own.
    Remake {
        /// See [`Mapped`](super::model::Mapped).
        skewed: bool,
    },
    /// RAM goes, and comes back.
    Hotplug,
    /// Look at data of the image that are hidden.
    Look,
    /// Walk, and compare page by page.
    Walk,
    /// Probe only.
    Probe,
}

/// An operation with its pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The operation.
    pub what: Operation,
    /// The pages.
    pub pages: Range<usize>,
    /// The pages end before the first one for which it would be refused.
    pub fits: bool,
    /// The seed for the choice of pages to probe.
    pub probes: u64,
}

/// The eighths of operations on the linear map.
const LINEAR: usize = 5;

impl Pages {
    /// Returns the number of all pages.
    pub const fn all(&self) -> usize {
        self.linear + self.vmalloc
    }

    /// Chooses some of them: few mostly, sometimes thousands; half of the time an aligned power of two. `wide` choices
    /// have thousands more often.
    fn some(of: Range<usize>, wide: bool, random: &mut Random) -> Range<usize> {
        let bits = of.len().ilog2() as usize + 1;
        let (one, other) = (random.below(bits), random.below(bits));
        let most = 1 << if wide { one } else { one.min(other) };
        let (start, count) = if random.below(2) == 0 {
            (random.below(of.len()) & !(most - 1), most)
        } else {
            (random.below(of.len()), 1 + random.below(most))
        };
        of.start + start..(of.start + start + count).min(of.end)
    }
}

impl Step {
    /// Returns the operation of a CPU with this number.
    pub fn number(seed: u64, cpu: usize, number: u64, pages: &Pages) -> Self {
        let own = Random::from(seed ^ (cpu as u64).wrapping_mul(0xd134_2543_de82_ef95)).next();
        let mut random = Random::from(own.wrapping_add(number.wrapping_mul(0xa076_1d64_78bd_642f)));
        let is_linear = random.below(8) < LINEAR || pages.vmalloc == 0;
        let of = if is_linear { 0..pages.linear } else { pages.linear..pages.all() };
        let what = if is_linear { linear(&mut random) } else { vmalloc(&mut random) };
        // Operations that bring large leaves back need ranges as large.
        let wide = matches!(what, Operation::Restore | Operation::Renew { .. } | Operation::Hotplug);
        let pages = Pages::some(of, wide, &mut random);
        Self { what, pages, fits: random.below(4) != 0, probes: random.next() }
    }
}

fn linear(random: &mut Random) -> Operation {
    match random.below(32) {
        0..12 => permissions(random),
        12..16 => Operation::Change(Change::Invalid),
        16..20 => Operation::Change(Change::Valid),
        20..22 => Operation::Split,
        22..25 => Operation::Collapse,
        25..28 => Operation::Restore,
        28 => Operation::Walk,
        29 => Operation::Remake { skewed: false },
        30 => Operation::Hotplug,
        _ if random.below(2) == 0 => Operation::Look,
        _ => Operation::Probe,
    }
}

fn vmalloc(random: &mut Random) -> Operation {
    let skewed = random.below(4) == 0;
    match random.below(32) {
        0..9 => Operation::Change(Change::Map { skewed }),
        9..14 => Operation::Change(Change::Unmap),
        14..20 => permissions(random),
        20..22 => Operation::Change(Change::Invalid),
        22..25 => Operation::Change(Change::Valid),
        25..26 => Operation::Split,
        26..28 => Operation::Collapse,
        28..30 => Operation::Renew { skewed },
        30 => Operation::Remake { skewed: random.below(2) == 0 },
        _ if random.below(2) == 0 => Operation::Walk,
        _ => Operation::Probe,
    }
}

fn permissions(random: &mut Random) -> Operation {
    Operation::Change(match random.below(8) {
        0..3 => Change::ReadOnly,
        3 => Change::Writable,
        4 => Change::Executable,
        5 => Change::NotExecutable,
        6 => Change::Code,
        _ => Change::Data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    const PAGES: Pages = Pages { linear: 12_288, vmalloc: 8192 };

    fn steps(seed: u64, cpu: usize) -> Vec<Step> {
        (0..20_000).map(|n| Step::number(seed, cpu, n, &PAGES)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_steps_and_another_cpu_does_others() {
        assert_eq!(steps(7, 1), steps(7, 1));
        assert_ne!(steps(7, 1), steps(7, 0));
        assert_ne!(steps(7, 1), steps(8, 1));
    }

    #[test]
    fn steps_stay_within_one_range_and_do_everything_there() {
        for pages in [PAGES, Pages { linear: 32, vmalloc: 16 }, Pages { linear: 2, vmalloc: 0 }] {
            let mut done = Vec::new();
            for n in 0..20_000 {
                let Step { what, pages: range, .. } = Step::number(3, 2, n, &pages);
                assert!(!range.is_empty() && range.end <= pages.all(), "{range:?}");
                let vmalloc = range.start >= pages.linear;
                assert!(vmalloc || range.end <= pages.linear, "{range:?}");
                let maps = matches!(
                    what,
                    Operation::Change(Change::Map { .. } | Change::Unmap) | Operation::Renew { .. }
                );
                assert!(vmalloc || !maps, "{what:?}");
                if !done.contains(&(vmalloc, what)) {
                    done.push((vmalloc, what));
                }
            }
            assert_eq!(done.len(), if pages.vmalloc == 0 { 16 } else { 16 + 19 }, "{done:?}");
        }
    }

    #[test]
    fn most_ranges_are_short_and_some_are_not() {
        let mut lengths: Vec<usize> = steps(1, 0).iter().map(|s| s.pages.len()).collect();
        lengths.sort_unstable();
        assert!(lengths[lengths.len() / 2] <= 16, "{}", lengths[lengths.len() / 2]);
        assert_eq!(lengths[lengths.len() - 1], 8192);
    }
}
