//! The loops over many entries of a live table. None is inlined, so that what they take can be seen.
//!
//! Others may store to the table while it is compared. What is stored, only the caller stores to.

use super::memory::Memory;
use super::slots::{Slots, SlotsMut};
use crate::format::Descriptor;

/// The number of entries between two branches.
const CHUNK: usize = 16;

impl<M: Memory> Slots<'_, M> {
    /// Returns the index after the last entry, from `first` at an index on and up to `last`, that differs from it only in its address.
    /// All of them are leaves, or all are holes.
    #[inline(always)]
    pub(crate) fn alike(self, (index, last): (usize, usize), first: Descriptor) -> usize {
        // A single entry is not worth a call.
        if index == last {
            last + 1
        } else {
            self.same_but(Descriptor::ADDRESS, (index, last), first).max(index + 1)
        }
    }

    /// Returns the index of the first entry, from one on and up to `last`, that differs from `other` in more than these bits, or the
    /// index after the last.
    #[inline(never)]
    pub(crate) fn same_but(self, bits: u64, range: (usize, usize), other: Descriptor) -> usize {
        self.compare(bits, range, other)
    }

    /// Returns true if the entries from one index to another, both included, are holes.
    #[inline(never)]
    pub(crate) fn are_holes(self, range: (usize, usize)) -> bool {
        self.compare(0, range, Descriptor::HOLE) > range.1
    }

    #[inline(always)]
    fn compare(self, bits: u64, (index, last): (usize, usize), other: Descriptor) -> usize {
        let differ = |all: u64, entry: &Descriptor| all | entry.0 ^ other.0;
        let mut next = index;
        for _ in 0..(last + 1).saturating_sub(index) / CHUNK {
            let eights = [self.load_eight(next), self.load_eight(next + 8)];
            if eights.as_flattened().iter().fold(0, differ) & !bits != 0 {
                break;
            }
            next += CHUNK;
        }
        while next <= last && differ(0, &self.load(next)) & !bits == 0 {
            next += 1;
        }
        next
    }

    /// Returns the index of the first entry, from one on and up to `last`, that does not continue a series in more than these bits:
    /// `first`, and from entry to entry `step` more. If there is none, the index after the last. Returns besides in which of the bits
    /// some of the entries differ from the series.
    #[inline(never)]
    pub(crate) fn series(
        self,
        bits: u64,
        (index, last): (usize, usize),
        (first, step): (Descriptor, u64),
    ) -> (usize, u64) {
        // In what the last entry differs: those that follow mostly do as well.
        let (mut next, mut expected, mut differs, mut all) = (index, first.0, 0, 0);
        while next <= last {
            let mut value = expected ^ differs;
            for _ in 0..(last + 1 - next) / 8 {
                let mut after = value;
                if !self.eight_follow(next, (&mut after, step)) {
                    break;
                }
                (next, value) = (next + 8, after);
            }
            expected = value ^ differs;
            for _ in 0..CHUNK.min(last + 1 - next) {
                let more = self.load(next).0 ^ expected;
                if more & !bits != 0 {
                    return (next, all);
                }
                (differs, all) = (more, all | more);
                (next, expected) = (next + 1, expected.wrapping_add(step));
            }
        }
        (next, all)
    }

    /// Returns true if eight entries are `value` and what follows it by `step`, and advances `value` by eight. There is no branch between
    /// them.
    #[inline(always)]
    fn eight_follow(self, index: usize, (value, step): (&mut u64, u64)) -> bool {
        let [a, b, c, d, e, f, g, h] = self.load_eight(index);
        let mut follows = |entry: Descriptor| {
            let same = entry.0 == *value;
            *value = value.wrapping_add(step);
            same
        };
        let half = follows(a) & follows(b) & follows(c) & follows(d);
        half & follows(e) & follows(f) & follows(g) & follows(h)
    }
}

impl<M: Memory> SlotsMut<'_, M> {
    /// Flips bits of the entries from one index to before another.
    #[inline(never)]
    pub(crate) fn flip(self, range: (usize, usize), bits: u64) {
        self.change(range, |entry| Descriptor(entry.0 ^ bits));
    }

    /// Clears the contiguous bit of the run of `members` entries that an entry is in.
    #[inline(never)]
    pub(crate) fn dissolve(self, index: usize, members: usize) {
        let first = index & !(members - 1);
        self.change((first, first + members), Descriptor::without_contiguous);
    }

    #[inline(always)]
    fn change(self, (mut index, end): (usize, usize), changed: impl Fn(Descriptor) -> Descriptor) {
        let eight = |index| self.store_eight(index, self.load_eight(index).map(&changed));
        for _ in 0..end.saturating_sub(index) / CHUNK {
            eight(index);
            eight(index + 8);
            index += CHUNK;
        }
        for index in index..end {
            self.store(index, changed(self.load(index)));
        }
    }

    /// Stores a series from one index to before another: `first`, and from entry to entry `step` more.
    #[inline(never)]
    pub(crate) fn store_series(self, range: (usize, usize), series: (Descriptor, u64)) {
        self.store_each(range, series);
    }

    /// Stores holes from one index to before another.
    #[inline(never)]
    pub(crate) fn clear(self, range: (usize, usize)) {
        self.store_each(range, (Descriptor::HOLE, 0));
    }

    #[inline(always)]
    fn store_each(self, (mut index, end): (usize, usize), (first, step): (Descriptor, u64)) {
        let mut next = first.0;
        let mut new = || {
            let new = Descriptor(next);
            next = next.wrapping_add(step);
            new
        };
        for _ in 0..end.saturating_sub(index) / 8 {
            self.store_eight(index, core::array::from_fn(|_| new()));
            index += 8;
        }
        (index..end).for_each(|index| self.store(index, new()));
    }
}
