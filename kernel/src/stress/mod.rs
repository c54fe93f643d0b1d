//! What `run=stress` decides: what is asked for, which operation comes next, what each page must allow, and whose
//! pages are whose. Pure: the image does and probes what is decided here.

pub mod model;
pub mod step;
pub mod turns;

use core::fmt;

/// What `run=stress[:OPS[:SEED]]` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// How many operations all CPUs do together.
    pub operations: u64,
    /// What the choice of each follows from; without it, another one at each boot.
    pub seed: Option<u64>,
}

/// `run=stress` with something else behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotUnderstood;

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stress takes two numbers, both may be left out: stress:OPS:SEED, as in stress:100000:7")
    }
}

impl core::error::Error for NotUnderstood {}

impl Asked {
    /// As many as take about a second.
    pub const OPERATIONS: u64 = 5000;

    /// What the task asks for.
    ///
    /// # Errors
    ///
    /// What follows its name is not one number or two.
    pub fn parse(task: &str) -> Result<Self, NotUnderstood> {
        let mut words = task.split(':').skip(1);
        let mut number = || words.next().filter(|w| !w.is_empty()).map(str::parse).transpose();
        let (operations, seed) = (number(), number());
        match (operations, seed, words.next()) {
            (Ok(operations), Ok(seed), None) => {
                Ok(Self { operations: operations.unwrap_or(Self::OPERATIONS), seed })
            }
            _ => Err(NotUnderstood),
        }
    }
}

/// Numbers that look like chance and follow from where they start: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers of their own for each start.
    pub const fn from(start: u64) -> Self {
        Self(start)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below another, which is not 0 and far below 2^64.
    pub const fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_may_be_left_out() {
        let asked = |operations, seed| Ok(Asked { operations, seed });
        for (task, expected) in [
            ("stress", asked(Asked::OPERATIONS, None)),
            ("stress:", asked(Asked::OPERATIONS, None)),
            ("stress:1000", asked(1000, None)),
            ("stress:1000:7", asked(1000, Some(7))),
            ("stress::7", asked(Asked::OPERATIONS, Some(7))),
            ("stress:0:0", asked(0, Some(0))),
            ("stress:ten", Err(NotUnderstood)),
            ("stress:1:2:3", Err(NotUnderstood)),
            ("stress:1:-2", Err(NotUnderstood)),
        ] {
            assert_eq!(Asked::parse(task), expected, "{task}");
        }
    }

    #[test]
    fn the_same_start_gives_the_same_numbers() {
        let (mut a, mut b) = (Random::from(7), Random::from(7));
        assert!((0..100).all(|_| a.next() == b.next()));
        assert_ne!(Random::from(8).next(), Random::from(7).next());
        assert!((0..1000).all(|_| a.below(3) < 3));
    }
}
