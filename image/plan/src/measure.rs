//! The plan of `run=measure`: which works run over how much memory, on how many CPUs, how often, and over which map.
//!
//! A *cell* is one work over one working set on some CPUs. Its *turns* alternate between the same RAM in pages and in
//! large leaves, as pages, large, large, pages: what drifts slowly, such as a clock or a temperature, is in both alike.

mod cycle;

use core::fmt;

pub use cycle::Cycle;

/// The bytes of a page of a file, whatever a page of the map has.
pub const PAGE: u64 = 4096;
/// The bytes of a cache line.
pub const LINE: u64 = 64;
/// The smallest working set, in bytes.
const SMALLEST: u64 = 1 << 20;
/// The least memory of one CPU, in bytes.
const LEAST: u64 = 64 << 10;

/// The most turns of a cell, over each map.
pub const MOST_TURNS: usize = 10;

/// The extent of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// Quick on an emulated CPU, full on any other.
    Auto,
    /// A second or two under emulation: all works over small sets.
    Quick,
    /// Minutes: working sets up to all of the scratch memory.
    Full,
}

impl Effort {
    /// Reads `quick` or `full`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "quick" => Some(Self::Quick),
            "full" => Some(Self::Full),
            _ => None,
        }
    }

    /// Returns quick or full.
    pub fn on(self, emulated: bool) -> Self {
        match self {
            Self::Auto if emulated => Self::Quick,
            Self::Auto => Self::Full,
            chosen => chosen,
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Quick => "quick",
            Self::Full => "full",
        })
    }
}

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Loads of one line each, whose addresses depend on the load before.
    Loads,
    /// Pages of 4 KiB at random places, read as a whole, as pages of a file are.
    PageReads,
    /// Pages of 4 KiB copied in order of address, from one half of the set to the other.
    Copy,
    /// Blocks of 4 KiB encrypted in order of address, from one half of the set to the other.
    Cipher,
    /// Look-ups in a hash table of lines; half of the keys are in it.
    Hash,
}

impl Work {
    /// All works, in the order in which they run.
    pub const ALL: [Self; 5] = [Self::Loads, Self::PageReads, Self::Copy, Self::Cipher, Self::Hash];

    /// Returns the name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loads => "loads",
            Self::PageReads => "page-reads",
            Self::Copy => "copy",
            Self::Cipher => "cipher",
            Self::Hash => "hash",
        }
    }

    /// Returns the bytes of memory that a step reads or writes in a row.
    pub const fn step_bytes(self) -> u64 {
        match self {
            Self::Loads | Self::Hash => LINE,
            Self::PageReads | Self::Copy | Self::Cipher => PAGE,
        }
    }

    /// Returns the steps of one CPU in one turn.
    const fn steps(self, effort: Effort) -> u64 {
        let (quick, full) = match self {
            Self::Loads => (8192, 2 << 20u32),
            Self::PageReads => (256, 64 << 10u32),
            Self::Copy => (128, 128 << 10u32),
            Self::Cipher => (16, 16 << 10u32),
            Self::Hash => (2048, 1 << 20u32),
        };
        if matches!(effort, Effort::Quick) { quick } else { full }
    }
}

/// The map that a turn runs over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Map {
    /// Only pages.
    Pages,
    /// The largest leaves that the machine's policy permits.
    Large,
}

impl Map {
    /// Both maps.
    pub const ALL: [Self; 2] = [Self::Pages, Self::Large];

    /// Returns the name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Large => "large",
        }
    }
}

/// One work over one working set on some CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The work.
    pub work: Work,
    /// The working set of each CPU, in bytes: a power of two. They are adjacent.
    pub share: u64,
    /// The number of CPUs that work.
    pub cpus: u64,
    /// The steps of each CPU in one turn.
    pub steps: u64,
    /// The number of turns over each map.
    pub turns: usize,
}

impl Cell {
    /// Returns the working set of all CPUs, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.share * self.cpus
    }

    /// Iterates over the turns: the number of the pair that a turn belongs to, and its map. Both turns of a pair do the
    /// same steps.
    pub fn turns(&self) -> impl Iterator<Item = (usize, Map)> {
        (0..2 * self.turns).map(|n| (n / 2, if matches!(n % 4, 0 | 3) { Map::Pages } else { Map::Large }))
    }

    /// Returns the step that a pair of turns starts with.
    pub const fn first_step(&self, pair: usize) -> u64 {
        self.steps * pair as u64
    }

    /// Returns the step that the warm-up of a pair starts with, and its number of steps: an eighth of a turn.
    pub const fn warm_up(&self, pair: usize) -> (u64, u64) {
        let steps = self.steps.div_ceil(8);
        (self.first_step(pair) + self.steps - steps, steps)
    }
}

/// Iterates over the cells for so many bytes of memory, a power of two, and so many CPUs: each work over each working
/// set, on one CPU and then on all.
pub fn cells(effort: Effort, memory: u64, cpus: u64) -> impl Iterator<Item = Cell> {
    let turns = if effort == Effort::Quick { 4 } else { MOST_TURNS };
    let all = [1, cpus].into_iter().take(if cpus > 1 { 2 } else { 1 });
    let cell = move |work: Work, set: u64, cpus: u64| {
        let share = previous_power_of_two(set / cpus)?;
        (share >= LEAST).then_some(Cell { work, share, cpus, steps: work.steps(effort), turns })
    };
    Work::ALL.into_iter().flat_map(move |work| {
        let all = all.clone();
        sets(effort, memory).flat_map(move |set| all.clone().filter_map(move |cpus| cell(work, set, cpus)))
    })
}

/// Iterates over the working sets, each four times the one before; the last is all of the memory, or of quick ones 16 MiB.
fn sets(effort: Effort, memory: u64) -> impl Iterator<Item = u64> {
    let most = if effort == Effort::Quick { memory.min(16 * SMALLEST) } else { memory };
    let quadrupled = core::iter::successors(Some(SMALLEST), |set| set.checked_mul(4));
    let below = quadrupled.take_while(move |set| *set < most);
    let below = below.filter(move |set| effort == Effort::Full || *set == SMALLEST);
    below.chain((most >= LEAST).then_some(most))
}

fn previous_power_of_two(number: u64) -> Option<u64> {
    number.checked_ilog2().map(|log| 1 << log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn sets_grow_fourfold_up_to_all_memory() {
        let all = |effort, memory| sets(effort, memory).collect::<Vec<_>>();
        assert_eq!(all(Effort::Full, 64 << 20), [1 << 20, 4 << 20, 16 << 20, 64 << 20]);
        assert_eq!(all(Effort::Full, 32 << 20), [1 << 20, 4 << 20, 16 << 20, 32 << 20]);
        assert_eq!(all(Effort::Quick, 32 << 30), [1 << 20, 16 << 20]);
        assert_eq!(all(Effort::Quick, 1 << 20), [1 << 20]);
        assert_eq!(all(Effort::Full, 128 << 10), [128 << 10]);
        assert_eq!(all(Effort::Full, 8192), []);
    }

    #[test]
    fn each_work_runs_on_one_cpu_and_on_all_within_the_memory() {
        for (memory, cpus) in [(64 << 20, 4), (2 << 30, 80), (1 << 20, 1), (4 << 20, 3)] {
            let cells: Vec<_> = cells(Effort::Full, memory, cpus).collect();
            for work in Work::ALL {
                let of_work = || cells.iter().filter(|cell| cell.work == work);
                assert!(
                    of_work().any(|cell| cell.cpus == 1 && cell.bytes() == memory),
                    "{work:?} {memory:#x}"
                );
                assert!(of_work().any(|cell| cell.cpus == cpus), "{work:?} {memory:#x}");
            }
            for cell in &cells {
                assert!(cell.share.is_power_of_two() && cell.share >= LEAST, "{cell:?}");
                assert!(cell.bytes() <= memory && [1, cpus].contains(&cell.cpus), "{cell:?}");
            }
            assert_eq!(cells.iter().filter(|cell| cell.cpus == 1).count() % Work::ALL.len(), 0);
        }
    }

    #[test]
    fn turns_alternate_and_each_map_has_as_many() {
        let cell = cells(Effort::Quick, 1 << 20, 1).next().expect("a cell");
        let turns: Vec<_> = cell.turns().collect();
        let (p, l) = (Map::Pages, Map::Large);
        assert_eq!(turns, [(0, p), (0, l), (1, l), (1, p), (2, p), (2, l), (3, l), (3, p)]);
        for map in Map::ALL {
            assert_eq!(turns.iter().filter(|turn| turn.1 == map).count(), cell.turns);
        }
    }

    #[test]
    fn a_warm_up_is_the_end_of_its_turn() {
        let cell = Cell { work: Work::Loads, share: 1 << 20, cpus: 1, steps: 100, turns: 3 };
        assert_eq!((cell.first_step(2), cell.warm_up(2)), (200, (287, 13)));
    }

    #[test]
    fn an_emulated_cpu_is_measured_quickly() {
        assert_eq!([true, false].map(|emulated| Effort::Auto.on(emulated)), [Effort::Quick, Effort::Full]);
        assert_eq!(Effort::Full.on(true), Effort::Full);
    }
}
