//! Rendezvous: one CPU makes all others come to a place where they do nothing. The numbers that they exchange.
//!
//! Each rendezvous has a number, one more than the last. The CPU that asks for it stores the number, interrupts the
//! others, and waits until each has answered with that number. When it is done, or has given up, it stores the number
//! again as the last that is over, and the others continue. A CPU that comes late finds it over, and continues at once.
//!
//! A number is never used twice, so the answer to one rendezvous is no answer to another, however late it comes:
//! [`has_come`] is false for it. A CPU waits until its number *or a later one* is over, so it never waits for a
//! rendezvous that has passed. The model tries every interleaving, with these rules and with wrong ones. `parking` and
//! `smp::held` of the image use them.

/// Returns true if a CPU is asked to come: `asked` is the last number asked for, `over`, *read after it*, the last one
/// over.
#[inline]
pub const fn is_asked(asked: u64, over: u64) -> bool {
    over < asked
}

/// Returns true if a CPU whose last answer was `said` has come to the rendezvous with this number.
#[inline]
pub const fn has_come(said: u64, number: u64) -> bool {
    said == number
}

/// Returns true if a CPU may continue that has come to the rendezvous with this number. `park.s` has it as `b.hs`.
#[inline]
pub const fn is_over(over: u64, number: u64) -> bool {
    over >= number
}

/// Returns true if a CPU whose last answer to a call was `said` has answered the call with this number.
///
/// A call is less than a rendezvous: a CPU says that it is there, and continues. Several CPUs may call at the same time,
/// each with a number of its own, and the answer to a later one is one to all before.
#[inline]
pub const fn has_answered(said: u64, number: u64) -> bool {
    said >= number
}

#[cfg(test)]
mod calls;
#[cfg(test)]
mod model;
