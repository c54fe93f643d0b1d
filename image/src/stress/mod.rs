//! The decisions of `run=stress`: which operation comes next, what each page must allow, and which CPU owns it. The
//! image carries them out and probes.

pub mod model;
pub mod step;
pub mod turns;

/// Pseudo-random numbers that follow from a seed: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub const fn from(start: u64) -> Self {
        Self(start)
    }

    /// Returns the next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `end`, which is not 0 and far below 2^64.
    pub const fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_start_gives_the_same_numbers() {
        let (mut a, mut b) = (Random::from(7), Random::from(7));
        assert!((0..100).all(|_| a.next() == b.next()));
        assert_ne!(Random::from(8).next(), Random::from(7).next());
        assert!((0..1000).all(|_| a.below(3) < 3));
    }
}
