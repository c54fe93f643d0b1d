//! A number of locks that is drawn, and a map that is drawn: no size is special.
//!
//! A platform's number of locks is a constant, and which locks a call takes depends on how many gigabytes it covers. So
//! random tests draw both.

use crate::Random;

/// Evaluates an expression with one of some numbers of locks as a constant: `with_locks!(number, LOCKS in [1 8 64] =>
/// holds::<LOCKS>(seed))`. The expression is compiled for each, so these are few; `Cover` is tested with all.
#[macro_export]
macro_rules! with_locks {
    ($number:expr, $locks:ident in [$($each:literal)+] => $body:expr) => {
        match $number {
            $($each => { const $locks: usize = $each; $body })+
            other => panic!("no case has {other} locks"),
        }
    };
}

impl Random {
    /// A number from 1 to `most`. Each power of two is as likely as the next, and so are the numbers around it.
    ///
    /// # Panics
    ///
    /// `most` is 0.
    pub const fn size(&mut self, most: u64) -> u64 {
        let power = 1 << self.below(most.ilog2() as u64 + 1);
        let size = match self.below(3) {
            0 => power,
            _ => power + self.below(power),
        };
        if size < most { size } else { most }
    }

    /// Consecutive parts of a map of `all` gigabytes, each the first one and the number: holes are between them. The gigabytes
    /// of the window, a first one and a number, are in none of them.
    pub fn parts(&mut self, all: u64, window: (u64, u64)) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        for (mut at, end) in [(0, window.0), (window.0 + window.1, all)] {
            while at < end {
                let length = self.size(end - at);
                if !self.one_in(3) {
                    parts.push((at, length));
                }
                at += length;
            }
        }
        parts
    }
}
