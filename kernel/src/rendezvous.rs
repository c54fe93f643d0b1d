//! One CPU has all others come to where they do nothing: what the numbers mean that they tell each other. Pure.
//!
//! Each rendezvous has a number, one more than the last. The CPU that asks for it stores the number, interrupts the
//! others, and waits until each has said that number. When it is done, or has given up, it stores the number again as
//! the last that is over, and the others go on. A CPU that comes late finds it over, and goes on at once.
//!
//! A number is never used twice, so what a CPU says of one rendezvous is no answer to another, however late it is said:
//! [`has_come`] is false for it. And a CPU waits until its number *or a later one* is over, so it never waits for
//! something that has passed. The model beside this tries every interleaving, with these rules and with wrong ones.
//! `parking` has CPUs come so, and `smp::stopped`.

/// Whether a CPU is asked to come that sees these as the last number asked for and, *read after it*, the last one over.
#[inline]
pub const fn is_asked(asked: u64, over: u64) -> bool {
    over < asked
}

/// Whether a CPU that last said `said` has come to the rendezvous with this number.
#[inline]
pub const fn has_come(said: u64, number: u64) -> bool {
    said == number
}

/// Whether a CPU may go on that has come to the rendezvous with this number. `park.s` has it as `b.hs`.
#[inline]
pub const fn is_over(over: u64, number: u64) -> bool {
    over >= number
}

#[cfg(test)]
mod model;
