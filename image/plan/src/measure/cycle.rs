//! A walk through all numbers below a power of two, each once, that jumps about.
//!
//! It is a linear congruential generator. Modulo a power of two it reaches each number once, as its increment is odd and
//! its multiplier is 1 modulo 4 (the theorem of Hull and Dobell). So the place after any number of steps can be
//! calculated at once.

/// Those of Knuth's MMIX.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// The walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cycle {
    mask: u64,
}

impl Cycle {
    /// Makes a walk through the numbers below `length`, rounded down to a power of two; 0 alone if it is 0.
    pub fn of(length: u64) -> Self {
        Self { mask: length.checked_ilog2().map_or(0, |log| (1 << log) - 1) }
    }

    /// Returns the number after this one.
    #[inline]
    pub const fn next(self, at: u64) -> u64 {
        at.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & self.mask
    }

    /// Returns the number at which a walk from 0 is after so many steps, in a time that grows with their logarithm.
    pub const fn after(self, mut steps: u64) -> u64 {
        // Each step is at * multiply + add; two steps are again of this form.
        let (mut at, mut multiply, mut add) = (0u64, MULTIPLIER, INCREMENT);
        while steps != 0 {
            if steps & 1 != 0 {
                at = at.wrapping_mul(multiply).wrapping_add(add);
            }
            add = add.wrapping_mul(multiply.wrapping_add(1));
            multiply = multiply.wrapping_mul(multiply);
            steps >>= 1u32;
        }
        at & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn each_number_comes_once() {
        for log in 0..14 {
            let (cycle, mut seen) = (Cycle::of(1 << log), vec![false; 1 << log]);
            let mut at = 0;
            for step in 0..1u64 << log {
                assert_eq!(cycle.after(step), at);
                assert!(!std::mem::replace(&mut seen[at as usize], true), "{at} of 2^{log} twice");
                at = cycle.next(at);
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn neighbours_are_far_apart() {
        // Of 16,384 lines in 256 pages, next to no step stays in its page.
        let cycle = Cycle::of(1 << 14);
        let near = (0..1 << 14).filter(|at| cycle.next(*at) >> 6 == *at >> 6).count();
        assert!(near < 128, "{near}");
    }

    #[test]
    fn other_lengths_are_rounded_down() {
        assert_eq!(Cycle::of(1000), Cycle::of(512));
        assert_eq!((Cycle::of(0).next(0), Cycle::of(1).after(7)), (0, 0));
    }
}
