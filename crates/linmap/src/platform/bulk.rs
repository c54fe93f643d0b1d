//! The loops over many entries of a live table, in functions of their own, so that `make cycles` finds them.
//!
//! Others may store to entries that are compared. Only the caller stores to those that it changes.

use super::memory::Memory;
use super::slots::{Slots, SlotsMut};
use crate::format::Descriptor;

/// The number of entries between two branches.
const CHUNK: usize = 16;

impl<M: Memory> Slots<'_, M> {
    /// Returns the index after the last entry, from `first` at an index on and up to `last`, that differs from it only in its address.
    /// All of them are of the same kind.
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
    pub(crate) fn same_but(self, bits: u64, (index, last): (usize, usize), other: Descriptor) -> usize {
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

    /// Returns true if all of the first entries, so many, are holes.
    #[inline(never)]
    pub(crate) fn are_holes(self, entries: usize) -> bool {
        let eights = entries & !7;
        // The first eight show most tables that are in use.
        (0..eights)
            .step_by(8)
            .all(|index| self.load_eight(index).iter().fold(0, |all, entry| all | entry.0) == 0)
            && (eights..entries).all(|index| self.load(index) == Descriptor::HOLE)
    }

    /// Returns the index of the first entry, after one that is `first` and up to `last`, that differs from a series in other bits than
    /// these: from entry to entry the series has `step` more. If there is none, the index after the last. Returns as well those of the
    /// bits in which an entry before it differs.
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
                    // The first is known, whatever others have stored there since.
                    return (next.max(index + 1), all);
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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::format::{Geometry, Granule, Level, OaFormat};
    use crate::platform::Memory;
    use crate::platform::host::HostMemory;
    use test_support::prelude::*;

    /// Calls `work` for the entries of a table, and returns what they are then.
    fn with_table<R>(entries: &[u64], work: impl FnOnce(SlotsMut<'_, HostMemory>) -> R) -> (R, Vec<u64>) {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let memory = HostMemory::new(g, 1);
        let mut frame = memory.take().expect("a page");
        memory.with_slots(&mut frame, Level::PAGE, |slots| slots[..entries.len()].copy_from_slice(entries));
        // SAFETY: the page is this function's, and no CPU uses it as a table.
        let slots = unsafe {
            let slots = Slots::new(&memory, (frame.pa(), Slots::words(&memory, frame.pa())));
            SlotsMut::new(slots, false)
        };
        let result = work(slots);
        let after = memory.with_slots(&mut frame, Level::PAGE, |slots| slots[..entries.len()].to_vec());
        memory.give(frame);
        (result, after)
    }

    /// Entries that continue each other, in runs or not, but for some.
    fn entries() -> impl Strategy<Value = (Vec<u64>, usize, usize)> {
        let entry = (0u64..8, 0u64..12);
        let table = proptest::collection::vec(entry, 1..72).prop_map(|kinds| {
            let value = |n: usize, (run, odd): (u64, u64)| {
                let contiguous = if run == 0 { Descriptor::CONTIGUOUS } else { 0 };
                (0x4000_0703 + ((n as u64) << 12)) ^ contiguous ^ if odd == 0 { 1 << 54 } else { 0 }
            };
            kinds.into_iter().enumerate().map(|(n, kind)| value(n, kind)).collect::<Vec<_>>()
        });
        (table, 0usize..72, 0usize..72).prop_map(|(table, a, b)| {
            let (a, b) = (a % table.len(), b % table.len());
            (table, a.min(b), a.max(b))
        })
    }

    proptest! {
        #[test]
        fn loops_compare_as_one_by_one((table, index, last) in entries(), ignored in 0usize..3) {
            let bits = [0, Descriptor::CONTIGUOUS, Descriptor::PAGE][ignored];
            let end = |differs: &dyn Fn(usize) -> u64| {
                (index..=last).find(|n| differs(*n) & !bits != 0).unwrap_or(last + 1)
            };
            let other = |n: usize| table[n] ^ table[index];
            let same = |slots: SlotsMut<'_, _>| slots.same_but(bits, (index, last), Descriptor(table[index]));
            prop_assert_eq!(with_table(&table, same).0, end(&other));
            let next = |n: usize| table[n] ^ (table[index] + ((n - index) as u64) * 0x1000);
            let series = |slots: SlotsMut<'_, _>| slots.series(bits, (index, last), (Descriptor(table[index]), 0x1000));
            let expected = end(&next);
            let differ = (index..expected).fold(0, |all, n| all | next(n));
            prop_assert_eq!(with_table(&table, series).0, (expected, differ));
            let holes = |slots: SlotsMut<'_, _>| slots.are_holes(last + 1);
            let mut one = vec![0; table.len()];
            prop_assert!(with_table(&one, holes).0);
            one[index] = table[index];
            prop_assert!(!with_table(&one, holes).0);
            prop_assert!(with_table(&one, |slots| slots.are_holes(index)).0);
        }

        #[test]
        fn loops_store_as_one_by_one((table, index, end) in entries()) {
            let expected = |new: &dyn Fn(usize) -> u64| -> Vec<u64> {
                (0..table.len()).map(|n| if (index..end).contains(&n) { new(n) } else { table[n] }).collect()
            };
            let flip = |slots: SlotsMut<'_, _>| slots.flip((index, end), 1 << 7);
            prop_assert_eq!(with_table(&table, flip).1, expected(&|n| table[n] ^ 1 << 7));
            let store = |slots: SlotsMut<'_, _>| slots.store_series((index, end), (Descriptor(3), 0x1000));
            prop_assert_eq!(with_table(&table, store).1, expected(&|n| 3 + (n - index) as u64 * 0x1000));
            let clear = |slots: SlotsMut<'_, _>| slots.clear((index, end));
            prop_assert_eq!(with_table(&table, clear).1, expected(&|_| 0));
        }

        #[test]
        fn a_run_is_dissolved_and_nothing_else((table, index, _) in entries()) {
            let dissolve = |slots: SlotsMut<'_, _>| slots.dissolve(index % 64, 16);
            let whole: Vec<u64> = table.iter().copied().cycle().take(64).collect();
            let run = (index % 64) & !15..((index % 64) & !15) + 16;
            let new = |n: usize| if run.contains(&n) { whole[n] & !Descriptor::CONTIGUOUS } else { whole[n] };
            prop_assert_eq!(with_table(&whole, dissolve).1, (0..64).map(new).collect::<Vec<_>>());
        }
    }
}
