//! The time that a CPU waits for others, measured by its own looks.
//!
//! A CPU may be a thread of a host that stops it for seconds, or a machine that is stopped as a whole and continues
//! elsewhere, while the counter runs. So the time between two looks counts as a hundredth of the limit at most:
//! patience ends after at least a hundred looks. Each look gives the others time.

/// Counts down from look to look.
#[derive(Clone, Debug)]
pub struct Patience {
    left: u64,
    most: u64,
    last: u64,
}

impl Patience {
    /// The fewest looks until it ends.
    pub const LOOKS: u64 = 100;

    /// Starts with so many ticks of a counter that is at `now`. Without ticks it has ended.
    pub const fn new(ticks: u64, now: u64) -> Self {
        Self { left: ticks, most: ticks.div_ceil(Self::LOOKS), last: now }
    }

    /// Looks when the counter is at `now`. Returns true if patience has ended.
    pub const fn is_over(&mut self, now: u64) -> bool {
        let passed = now.wrapping_sub(self.last);
        self.last = now;
        self.left = self.left.saturating_sub(if passed < self.most { passed } else { self.most });
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn who_looks_all_the_time_waits_as_long_as_the_counter_says() {
        let mut patience = Patience::new(1000, u64::MAX - 10);
        let looks = (1..).find(|n| patience.is_over((u64::MAX - 10).wrapping_add(*n)));
        assert_eq!(looks, Some(1000));
    }

    #[test]
    fn to_be_stopped_for_a_year_is_one_look() {
        let mut patience = Patience::new(1000, 0);
        assert!(!patience.is_over(1 << 60) && !patience.is_over((1 << 60) + 1));
        // Eleven ticks are gone.
        assert_eq!((1..).find(|n| patience.is_over((1 << 60) + 1 + n)), Some(989));
    }

    #[test]
    fn without_a_frequency_there_is_none() {
        assert!(Patience::new(0, 5).is_over(5));
    }

    proptest! {
        /// It never ends before that many looks, nor before that much time.
        #[test]
        fn the_others_have_had_their_turns(
            ticks in 1..1u64 << 40, start in any::<u64>(), steps in prop::collection::vec(0..1u64 << 41, 0..300),
        ) {
            let (mut patience, mut now, mut looks, mut over) = (Patience::new(ticks, start), start, 0, false);
            for step in steps {
                now = now.wrapping_add(step);
                looks += 1;
                over = patience.is_over(now);
                if over {
                    break;
                }
            }
            if over {
                prop_assert!(now.wrapping_sub(start) >= ticks);
                prop_assert!(looks >= Patience::LOOKS.min(ticks));
            }
        }
    }
}
