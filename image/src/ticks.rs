//! The ticks of a periodic timer.

/// Returns when the next tick is due: the first multiple of the period after `due` that is later than `now`. Missed
/// ticks are skipped, and the period does not drift. Counters wrap; the period is not 0.
pub const fn next(due: u64, now: u64, period: u64) -> u64 {
    let late = now.wrapping_sub(due);
    // As a signed number: a timer that is early has missed nothing.
    let missed = if late as i64 >= 0 { late / period } else { 0 };
    due.wrapping_add((missed + 1) * period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn on_time_late_and_very_late() {
        assert_eq!(next(1000, 1000, 100), 1100);
        assert_eq!(next(1000, 1099, 100), 1100);
        assert_eq!(next(1000, 1100, 100), 1200);
        assert_eq!(next(1000, 5050, 100), 5100);
        assert_eq!(next(1000, 990, 100), 1100);
        assert_eq!(next(u64::MAX, 20, 100), 99);
    }

    proptest! {
        #[test]
        fn it_is_to_come_within_a_period_and_does_not_drift(
            due in any::<u64>(), late in 0..1u64 << 62, period in 1..1u64 << 32,
        ) {
            let now = due.wrapping_add(late);
            let next = next(due, now, period);
            prop_assert!((1..=period).contains(&next.wrapping_sub(now)));
            prop_assert_eq!(next.wrapping_sub(due) % period, 0);
        }
    }
}
