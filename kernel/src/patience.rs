//! How long others are waited for, in the time of the CPU that waits: so long as it looks. Pure.
//!
//! A CPU may be a thread of a host that stops it for seconds, or a machine that is stopped as a whole and goes on
//! elsewhere, and the counter runs meanwhile. So of what passes between two looks a hundredth of the whole counts at the
//! most: patience is over after a hundred looks and no sooner, each of which has given the others time.

/// Counts down from look to look.
#[derive(Clone, Debug)]
pub struct Patience {
    left: u64,
    most: u64,
    last: u64,
}

impl Patience {
    /// It is over after as many looks at the least.
    pub const LOOKS: u64 = 100;

    /// So many ticks of a counter that is at `now`. Without ticks it is over at once.
    pub const fn new(ticks: u64, now: u64) -> Self {
        Self { left: ticks, most: ticks.div_ceil(Self::LOOKS), last: now }
    }

    /// Whether it is over, at a look when the counter is at `now`.
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
        // Ten ticks and one are gone.
        assert_eq!((1..).find(|n| patience.is_over((1 << 60) + 1 + n)), Some(989));
    }

    #[test]
    fn without_a_frequency_there_is_none() {
        assert!(Patience::new(0, 5).is_over(5));
    }

    proptest! {
        /// Never before as many looks, and never before as much time.
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
