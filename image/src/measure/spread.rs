//! The distribution of a few samples: its ends, its quartiles and its median, which one late sample does not move.

/// The least sample, the first quartile, the median, the third quartile, and the largest sample.
pub type Spread = [u64; 5];

/// Sorts the samples and returns their distribution; `None` if there are none. A quartile between two samples is
/// interpolated, rounded down.
pub fn spread(samples: &mut [u64]) -> Option<Spread> {
    samples.sort_unstable();
    let last = samples.len().checked_sub(1)?;
    Some([0, 1, 2, 3, 4].map(|quarter| {
        let (at, rest) = (last * quarter / 4, last * quarter % 4);
        let (below, above) = (samples[at], samples[(at + 1).min(last)]);
        below + ((u128::from(above - below) * rest as u128) / 4) as u64
    }))
}

/// Sorts the samples and returns their median; `None` if there are none.
pub fn median(samples: &mut [u64]) -> Option<u64> {
    spread(samples).map(|spread| spread[2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    #[test]
    fn ends_quartiles_and_median() {
        assert_eq!(spread(&mut []), None);
        assert_eq!(spread(&mut [7]), Some([7; 5]));
        assert_eq!(spread(&mut [30, 10, 20]), Some([10, 15, 20, 25, 30]));
        assert_eq!(spread(&mut [5, 1, 4, 2, 3]), Some([1, 2, 3, 4, 5]));
        assert_eq!(median(&mut [1, 2, 1000]), Some(2));
        assert_eq!(spread(&mut [0, u64::MAX]).map(|s| s[4]), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn it_is_in_order_and_within_the_samples(mut samples in prop::collection::vec(any::<u64>(), 1..20)) {
            let spread = spread(&mut samples).expect("samples");
            prop_assert!(spread.is_sorted());
            prop_assert_eq!((spread[0], spread[4]), (samples[0], samples[samples.len() - 1]));
        }
    }
}
