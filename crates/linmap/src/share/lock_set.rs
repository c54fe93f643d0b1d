//! The locks for addresses. Pure.
//!
//! The gigabyte with the number `n` has the lock `n % LOCKS`. To store to a descriptor takes the locks of all addresses
//! that it translates, and that the other members of its contiguous run translate. To rely on a descriptor takes one of
//! them. So a walk down to a gigabyte is safe under its lock alone: nobody can change the tables above it.
//!
//! A table that maps nothing takes the place of a hole under fewer locks, since it changes nothing that others rely on: their
//! addresses are unmapped before and after. Two callers must not both do so, which one lock of the entry decides that all agree
//! on ([`Cover::first`]). With it go the locks of what is mapped below the table in the same store.

use crate::edit::{Cover, GIGABYTE};
use crate::format::Span;
use crate::platform::Sharing;

/// A set of locks: a bit for each number.
impl Cover {
    /// Returns the locks of all addresses of a span.
    #[inline]
    pub(crate) const fn of<S: Sharing>(span: Span) -> Self {
        let (first, last) = (span.first >> GIGABYTE, span.last >> GIGABYTE);
        let locks = S::LOCKS as u64;
        if first == last {
            return Self::one(Self::number::<S>(span.first));
        }
        if last - first >= locks - 1 {
            return Self(u64::MAX >> (64 - locks));
        }
        let run = u64::MAX >> (63 - (last - first));
        let at = first & (locks - 1);
        // Those beyond the last lock start again with the first.
        let wide = (run as u128) << at;
        Self((wide as u64 | (wide >> locks) as u64) & (u64::MAX >> (64 - locks)))
    }

    /// Returns the set of one lock.
    #[inline(always)]
    pub(crate) const fn one(number: usize) -> Self {
        Self(1 << number)
    }

    /// Returns the lock of an address.
    #[inline(always)]
    pub(crate) const fn number<S: Sharing>(va: u64) -> usize {
        (va >> GIGABYTE) as usize & (S::LOCKS - 1)
    }

    /// Returns the set as bits.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the others than the lowest number of a set, which is not empty.
    #[inline(always)]
    pub(crate) const fn but_lowest(self) -> Self {
        Self(self.0 & (self.0 - 1))
    }

    /// Returns true if a set, which is not empty, is of one lock.
    #[inline(always)]
    pub(crate) const fn is_one(self) -> bool {
        self.0 & (self.0 - 1) == 0
    }

    /// Returns the lowest number of a set, which is not empty.
    #[inline]
    pub(crate) const fn lowest(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// Returns the numbers in ascending order.
    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let number = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::host::Threads;
    use test_support::prelude::*;

    /// Compares the locks of a number of gigabytes with those that a loop finds.
    fn compare<const LOCKS: usize>(first: u64, gigabytes: u64) {
        let expected = (first..first + gigabytes.min(64)).fold(0, |set, n| set | 1 << (n % LOCKS as u64));
        // The last address is the first or the last one of its gigabyte.
        for within in [0, (1 << GIGABYTE) - 1] {
            let last = ((first + (gigabytes - 1)) << GIGABYTE) + within;
            let span = Span { first: first << GIGABYTE, last };
            let found = Cover::of::<Threads<LOCKS>>(span);
            assert_eq!(found, Cover(expected), "{gigabytes} from {first} on, {LOCKS} locks");
            let numbers = (0..LOCKS).filter(|number| expected >> number & 1 == 1);
            assert!(found.numbers().eq(numbers));
        }
    }

    /// Compares them for each number of locks.
    fn compare_all(first: u64, gigabytes: u64) {
        compare::<1>(first, gigabytes);
        compare::<2>(first, gigabytes);
        compare::<4>(first, gigabytes);
        compare::<8>(first, gigabytes);
        compare::<16>(first, gigabytes);
        compare::<32>(first, gigabytes);
        compare::<64>(first, gigabytes);
    }

    #[test]
    fn a_span_has_the_locks_of_all_its_gigabytes() {
        for first in 0..64 {
            (1..=130).for_each(|gigabytes| compare_all(first, gigabytes));
        }
        // All that there is.
        compare_all(0, 1 << 34);
        compare_all((1 << 34) - 64, 64);
    }

    proptest! {
        #[test]
        fn wherever_it_is(first in 0u64..1 << 34, length: u64, bits in 0u32..35) {
            compare_all(first, 1 + length % ((1 << 34) - first).min(1u64 << bits));
        }
    }
}
