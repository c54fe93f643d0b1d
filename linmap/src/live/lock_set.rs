//! The locks for addresses. Pure.
//!
//! The gigabyte with the number `n` has the lock `n % LOCKS`. To store to a descriptor takes the locks of all addresses
//! that it translates, and that the other members of its contiguous run translate. To rely on a descriptor takes one of
//! them. So a walk down to a gigabyte is safe under its lock alone: nobody can change the tables above it.
//!
//! A table that maps nothing takes the place of a hole under fewer locks, since it changes nothing that others rely on: their
//! addresses are unmapped before and after. Two callers must not both do so, which one lock of the entry decides that all agree
//! on ([`LockSet::agreed`]). With it go the locks of what is mapped below the table in the same store.

use crate::format::Span;
use crate::platform::Hardware;

/// log2 of the bytes that have one lock. No page table translates more.
pub(crate) const GIGABYTE: u32 = 30;

/// A set of lock numbers: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockSet(u64);

impl LockSet {
    /// Returns the locks of all addresses of a span.
    #[inline]
    pub(crate) const fn of<H: Hardware>(span: Span) -> Self {
        let (first, last) = (span.first >> GIGABYTE, span.last >> GIGABYTE);
        let locks = H::LOCKS as u64;
        if first == last {
            return Self::one(Self::number::<H>(span.first));
        }
        if last - first >= locks - 1 {
            return Self(u64::MAX >> (64 - locks));
        }
        let run = (2 << (last - first)) - 1;
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
    pub(crate) const fn number<H: Hardware>(va: u64) -> usize {
        (va >> GIGABYTE) as usize & (H::LOCKS - 1)
    }

    /// Returns all locks of both sets.
    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the locks that are in both sets.
    #[must_use]
    #[inline]
    pub(crate) const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns true if it has all locks of another set.
    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Returns the one of the locks, of which there is at least one, that all agree on who publish a table in the place of a hole
    /// with these locks. It is the lowest.
    #[inline]
    pub(crate) const fn agreed(self) -> Self {
        Self(self.0 & self.0.wrapping_neg())
    }

    /// Returns the set as bits.
    pub(crate) const fn bits(self) -> u64 {
        self.0
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
