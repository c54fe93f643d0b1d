//! Numbers that repeat with their seed (xorshift64*).

/// A generator of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed; those of the next seed have nothing in common with them.
    pub const fn new(seed: u64) -> Self {
        // An odd factor gives each seed a state of its own; of all states 0 alone never changes.
        let state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(if state == 0 { 1 } else { state })
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12u32;
        self.0 ^= self.0 << 25u32;
        self.0 ^= self.0 >> 27u32;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number less than `end`.
    ///
    /// # Panics
    ///
    /// `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        // The high bits are the better ones.
        self.bits().rotate_left(32) % end
    }

    /// True once in `n` times.
    ///
    /// # Panics
    ///
    /// `n` is 0.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A fraction from 0 to less than 1.
    pub const fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The index of one of `count` things.
    ///
    /// # Panics
    ///
    /// There are none.
    pub const fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// One of these.
    ///
    /// # Panics
    ///
    /// There are none.
    pub const fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }
}
