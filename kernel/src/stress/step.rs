//! Which operation comes next: what follows from the seed, the CPU and the operation's number alone.

use core::ops::Range;

use super::Random;
use super::model::Change;

/// Which pages there are: those of the linear map first, then those that are mapped at will.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pages {
    /// How many are in the linear map.
    pub linear: usize,
    /// How many are mapped at will.
    pub at_will: usize,
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// One change.
    Change(Change),
    /// Split to pages.
    Split,
    /// Collapsed as far as can be.
    Collapse,
    /// Made what RAM is, and collapsed.
    Restore,
    /// Unmapped where something is mapped, then mapped as a whole.
    Renew {
        /// See [`Mapped`](super::model::Mapped).
        skewed: bool,
    },
    /// Walked, and compared page by page.
    Walk,
    /// Nothing but probed.
    Probe,
}

/// The operation of one CPU with one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is done.
    pub what: Operation,
    /// To which pages.
    pub pages: Range<usize>,
    /// Whether that ends before the first page that would have it refused.
    pub fits: bool,
    /// What the choice of pages to probe follows from.
    pub probes: u64,
}

/// Eighths by which CPUs work on the linear map.
const LINEAR: usize = 5;

impl Pages {
    /// All of them.
    pub const fn all(&self) -> usize {
        self.linear + self.at_will
    }

    /// Some of them: few mostly, and now and then thousands; as often as not an aligned power of two. `wide` ones have
    /// thousands more often.
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
    /// The operation with a number, of a CPU.
    pub fn number(seed: u64, cpu: usize, number: u64, pages: &Pages) -> Self {
        let own = Random::from(seed ^ (cpu as u64).wrapping_mul(0xd134_2543_de82_ef95)).next();
        let mut random = Random::from(own.wrapping_add(number.wrapping_mul(0xa076_1d64_78bd_642f)));
        let is_linear = random.below(8) < LINEAR || pages.at_will == 0;
        let of = if is_linear { 0..pages.linear } else { pages.linear..pages.all() };
        let what = if is_linear { linear(&mut random) } else { at_will(&mut random) };
        // What brings large leaves back takes ranges as large.
        let wide = matches!(what, Operation::Restore | Operation::Renew { .. });
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
        28..29 => Operation::Walk,
        _ => Operation::Probe,
    }
}

fn at_will(random: &mut Random) -> Operation {
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
        30..31 => Operation::Walk,
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

    const PAGES: Pages = Pages { linear: 12_288, at_will: 8192 };

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
        for pages in [PAGES, Pages { linear: 32, at_will: 16 }, Pages { linear: 2, at_will: 0 }] {
            let mut done = Vec::new();
            for n in 0..20_000 {
                let Step { what, pages: range, .. } = Step::number(3, 2, n, &pages);
                assert!(!range.is_empty() && range.end <= pages.all(), "{range:?}");
                let at_will = range.start >= pages.linear;
                assert!(at_will || range.end <= pages.linear, "{range:?}");
                let maps = matches!(
                    what,
                    Operation::Change(Change::Map { .. } | Change::Unmap) | Operation::Renew { .. }
                );
                assert!(at_will || !maps, "{what:?}");
                if !done.contains(&(at_will, what)) {
                    done.push((at_will, what));
                }
            }
            assert_eq!(done.len(), if pages.at_will == 0 { 13 } else { 13 + 17 }, "{done:?}");
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
