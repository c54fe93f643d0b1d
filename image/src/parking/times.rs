//! How long CPUs were stopped: a distribution, in powers of two of a nanosecond.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Times, each in one of these buckets: the first is for less than 2 ns, and each is twice as wide as the one
/// before.
const BUCKETS: usize = 40;

/// A distribution that any CPU adds to.
pub(crate) struct Times {
    buckets: [AtomicU64; BUCKETS],
    longest: AtomicU64,
}

impl Times {
    pub(crate) const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], longest: AtomicU64::new(0) }
    }

    /// Adds a time.
    pub(crate) fn add(&self, ns: u64) {
        let bucket = (ns.max(1).ilog2() as usize).min(BUCKETS - 1);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.longest.fetch_max(ns, Relaxed);
    }

    /// Returns the number of times.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.load(Relaxed)).sum()
    }

    /// Returns the longest, in nanoseconds.
    pub(crate) fn longest(&self) -> u64 {
        self.longest.load(Relaxed)
    }

    /// Returns a bound for so many percent of the times, in nanoseconds, rounded up to a power of two.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count.load(Relaxed);
            if seen >= wanted {
                return 2 << bucket;
            }
        }
        self.longest()
    }

    /// Iterates over the buckets that are not empty: lower bound in nanoseconds, and number of times.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (u64, u64)> {
        let least = |bucket| if bucket == 0 { 0 } else { 1u64 << bucket };
        let all = self.buckets.iter().enumerate().map(move |(n, b)| (least(n), b.load(Relaxed)));
        all.filter(|(_, count)| *count != 0)
    }
}

/// The distribution as JSON: `[lower bound in ns, number]`.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (n, (least, count)) in self.filled().enumerate() {
            write!(f, "{}[{least},{count}]", if n == 0 { "" } else { "," })?;
        }
        f.write_str("]")
    }
}
