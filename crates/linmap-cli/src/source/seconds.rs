//! Durations for people.

use std::fmt;
use std::time::Duration;

/// A duration for people: `1 s`, `250 ms`.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            millis if self.0 < Duration::from_secs(1) => write!(f, "{millis} ms"),
            _ => write!(f, "{} s", self.0.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_short() {
        let shown = |millis| Seconds(Duration::from_millis(millis)).to_string();
        assert_eq!([1, 250, 1000, 1500, 60_000].map(shown), ["1 ms", "250 ms", "1 s", "1.5 s", "60 s"]);
    }
}
