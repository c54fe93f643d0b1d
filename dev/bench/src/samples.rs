//! Many measurements of one thing: their median and their spread.

use std::fmt;

/// Measurements in ascending order.
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn new(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }

    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// Returns all samples times a positive factor.
    pub(crate) fn times(&self, factor: f64) -> Self {
        Self(self.0.iter().map(|sample| sample * factor).collect())
    }

    /// Returns the value below which this part of the samples lies.
    fn at(&self, part: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * part).round() as usize]
    }
}

/// Writes the median, and the range of the middle eight of ten.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}-{:.2})", self.median(), self.at(0.1), self.at(0.9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_middle_eight_of_ten() {
        let samples = Samples::new((0..=10).rev().map(f64::from).collect());
        assert_eq!(samples.median(), 5.0);
        assert_eq!(samples.to_string(), "5.00 (1.00-9.00)");
        assert_eq!(samples.times(0.5).to_string(), "2.50 (0.50-4.50)");
    }
}
