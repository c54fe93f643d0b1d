//! A number of locks that is drawn, and a map that is drawn: no size is special.
//!
//! A platform's number of locks is a constant, and which locks a call takes depends on how many gigabytes it covers. So
//! random tests draw both.

use crate::Random;

/// The numbers of locks that a platform may have.
pub const LOCKS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Evaluates an expression with one of [`LOCKS`] as a constant: `with_locks!(number, LOCKS => holds::<LOCKS>(seed))`. What is
/// large and compiled for each of them can name fewer: `with_locks!(number, LOCKS in [1 8 64] => ...)`.
#[macro_export]
macro_rules! with_locks {
    ($number:expr, $locks:ident => $body:expr) => {
        $crate::with_locks!($number, $locks in [1 2 4 8 16 32 64] => $body)
    };
    ($number:expr, $locks:ident in [$($each:literal)+] => $body:expr) => {
        match $number {
            $($each => { const $locks: usize = $each; $body })+
            other => panic!("no platform has {other} locks"),
        }
    };
}

impl Random {
    /// A number of locks: 64, the most that there are, as often as all others.
    pub const fn locks(&mut self) -> usize {
        if self.one_in(2) { 64 } else { LOCKS[self.index(LOCKS.len())] }
    }

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
