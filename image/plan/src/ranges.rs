//! Sets of physical ranges, sorted and of bounded size: RAM, and its parts by use.

use core::fmt;
use core::ops::Range;

use arrayvec::ArrayVec;
use linmap::Pa;

/// The most separate ranges in a set.
pub const CAPACITY: usize = 128;

/// Ranges in address order that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub struct Ranges(ArrayVec<Range<Pa>, CAPACITY>);

/// The set has as many ranges as it can hold; it is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Ranges that there was no room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Their number.
    pub ranges: u32,
    /// The bytes in them.
    pub bytes: u64,
}

impl Lost {
    /// Counts a range, if there is one.
    pub fn count(&mut self, lost: Option<Range<Pa>>) {
        if let Some(range) = lost {
            self.ranges += 1;
            self.bytes += bytes(&range);
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranges, bytes } = self;
        write!(f, "{bytes:#x} bytes, the shortest {ranges} of more than {CAPACITY} separate ranges")
    }
}

/// Returns the bytes of a range, which does not end before it starts.
pub(crate) fn bytes(range: &Range<Pa>) -> u64 {
    range.end.0 - range.start.0
}

impl Ranges {
    /// Makes an empty set.
    pub const fn new() -> Self {
        Self(ArrayVec::new_const())
    }

    /// Returns the ranges in address order.
    pub fn as_slice(&self) -> &[Range<Pa>] {
        &self.0
    }

    /// Returns the ranges, for an operation that sorts or cuts them in place.
    pub fn as_mut_slice(&mut self) -> &mut [Range<Pa>] {
        &mut self.0
    }

    /// Returns the bytes in all ranges.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(bytes).sum()
    }

    /// Returns true if an address is in one of the ranges.
    pub fn contains(&self, pa: Pa) -> bool {
        self.0.iter().any(|r| r.contains(&pa))
    }

    /// Returns true if all of a range is in one range of the set.
    pub fn covers(&self, range: &Range<Pa>) -> bool {
        self.0.iter().any(|r| r.start <= range.start && range.end <= r.end)
    }

    /// Returns the longest range; an empty one if there is none.
    pub fn longest(&self) -> Range<Pa> {
        self.0.iter().max_by_key(|r| bytes(r)).cloned().unwrap_or_default()
    }

    /// Adds a range and joins it with those that it touches. Returns true if it overlapped one of them.
    ///
    /// # Errors
    ///
    /// There is no room for another range.
    pub fn add(&mut self, range: Range<Pa>) -> Result<bool, Full> {
        if range.is_empty() {
            return Ok(false);
        }
        let first = self.0.partition_point(|r| r.end < range.start);
        let behind = self.0.partition_point(|r| r.start <= range.end);
        if first == behind {
            self.0.try_insert(first, range).map_err(|_| Full)?;
            return Ok(false);
        }
        let touched = &self.0[first..behind];
        let overlapped = touched.iter().any(|r| r.start < range.end && range.start < r.end);
        let start = touched[0].start.min(range.start);
        let end = touched[touched.len() - 1].end.max(range.end);
        self.0.drain(first + 1..behind);
        self.0[first] = start..end;
        Ok(overlapped)
    }

    /// Removes a range.
    ///
    /// # Errors
    ///
    /// It would cut one range in two, and there is no room for another.
    pub fn remove(&mut self, range: &Range<Pa>) -> Result<(), Full> {
        if range.is_empty() {
            return Ok(());
        }
        let cut = |r: &Range<Pa>| r.start < range.start && range.end < r.end;
        if let Some(index) = self.0.iter().position(cut) {
            let behind = range.end..self.0[index].end;
            self.0.try_insert(index + 1, behind).map_err(|_| Full)?;
            self.0[index].end = range.start;
            return Ok(());
        }
        for r in &mut self.0 {
            if r.start < range.end && range.start < r.end {
                if range.start <= r.start {
                    r.start = range.end.min(r.end);
                } else {
                    r.end = range.start;
                }
            }
        }
        self.0.retain(|r| !r.is_empty());
        Ok(())
    }
}

impl Ranges {
    /// Adds a range. If there is no room for another, drops the shortest of all and returns it.
    pub fn add_or_lose(&mut self, range: Range<Pa>) -> Option<Range<Pa>> {
        if self.add(range.clone()).is_ok() {
            return None;
        }
        let shortest = self.0.iter_mut().min_by_key(|r| bytes(r)).filter(|r| bytes(r) < bytes(&range));
        let Some(shortest) = shortest else { return Some(range) };
        let lost = shortest.clone();
        self.0.retain(|r| *r != lost);
        // There is room, as a range has just been dropped.
        _ = self.add(range);
        Some(lost)
    }

    /// Removes a range. If that cuts one in two and there is no room for another, drops the shortest of all that remain
    /// and returns it.
    pub fn remove_or_lose(&mut self, range: &Range<Pa>) -> Option<Range<Pa>> {
        if self.remove(range).is_ok() {
            return None;
        }
        let cut = self.0.iter_mut().find(|r| r.contains(&range.start))?;
        let after = range.end..cut.end;
        cut.end = range.start;
        self.add_or_lose(after)
    }

    /// Iterates over what is in none of the ranges `taken`, in address order.
    pub fn without(&self, taken: impl Iterator<Item = Range<Pa>> + Clone) -> impl Iterator<Item = Range<Pa>> {
        self.0.iter().flat_map(move |r| {
            let (mut at, taken) = (r.start, taken.clone());
            core::iter::from_fn(move || {
                while at < r.end {
                    let from_here = taken.clone().filter(|t| !t.is_empty() && t.end > at && t.start < r.end);
                    let next = from_here.min_by_key(|t| t.start).unwrap_or(r.end..r.end);
                    let gap = at..next.start;
                    at = next.end;
                    if !gap.is_empty() {
                        return Some(gap);
                    }
                }
                None
            })
        })
    }

    /// Keeps what lies within `limits`, and removes the rest.
    pub fn keep(&mut self, limits: &Range<Pa>) {
        for r in &mut self.0 {
            *r = r.start.max(limits.start)..r.end.min(limits.end);
        }
        self.0.retain(|r| !r.is_empty());
    }

    /// Moves ends inward to multiples of `size`, a power of two.
    pub fn keep_whole(&mut self, size: u64) {
        for r in &mut self.0 {
            let start = r.start.0.checked_next_multiple_of(size).unwrap_or(u64::MAX);
            *r = Pa(start)..Pa(r.end.0 & !(size - 1));
        }
        self.0.retain(|r| !r.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use test_support::prelude::*;

    fn set(ranges: &Ranges) -> Vec<(u64, u64)> {
        ranges.as_slice().iter().map(|r| (r.start.0, r.end.0)).collect()
    }

    #[test]
    fn touching_ranges_join_and_overlaps_are_told() {
        let mut r = Ranges::new();
        assert_eq!(r.add(Pa(10)..Pa(20)), Ok(false));
        assert_eq!(r.add(Pa(30)..Pa(40)), Ok(false));
        assert_eq!(r.add(Pa(20)..Pa(25)), Ok(false));
        assert_eq!(set(&r), [(10, 25), (30, 40)]);
        assert_eq!(r.add(Pa(24)..Pa(35)), Ok(true));
        assert_eq!(set(&r), [(10, 40)]);
        assert_eq!(r.remove(&(Pa(15)..Pa(18))), Ok(()));
        assert_eq!(set(&r), [(10, 15), (18, 40)]);
    }

    #[test]
    fn a_full_set_says_so_and_stays() {
        let mut r = Ranges::new();
        for i in 0..CAPACITY as u64 {
            r.add(Pa(i * 100)..Pa(i * 100 + 50)).unwrap();
        }
        assert_eq!(r.add(Pa(99_960)..Pa(99_970)), Err(Full));
        assert_eq!(r.remove(&(Pa(10)..Pa(20))), Err(Full));
        assert_eq!(r.bytes(), 50 * CAPACITY as u64);
    }

    /// If not all fit, the shortest is dropped and returned.
    #[test]
    fn the_shortest_of_all_is_lost() {
        let mut r = Ranges::new();
        for i in 0..CAPACITY as u64 {
            r.add(Pa(i * 100)..Pa(i * 100 + 20 + i % 50)).unwrap();
        }
        // One that is longer than others, and one that is not.
        assert_eq!(r.add_or_lose(Pa(20_000)..Pa(30_000)), Some(Pa(0)..Pa(20)));
        assert_eq!(r.add_or_lose(Pa(19_900)..Pa(19_920)), Some(Pa(19_900)..Pa(19_920)));
        // One that touches another needs no room.
        assert_eq!(r.add_or_lose(Pa(121)..Pa(130)), None);
        // The parts after a cut: neither is the shortest, then one is.
        assert_eq!(r.remove_or_lose(&(Pa(22_000)..Pa(23_000))), Some(Pa(5000)..Pa(5020)));
        assert_eq!(r.remove_or_lose(&(Pa(24_000)..Pa(29_999))), Some(Pa(29_999)..Pa(30_000)));
        assert_eq!((r.as_slice().len(), r.longest()), (CAPACITY, Pa(20_000)..Pa(22_000)));
    }

    #[test]
    fn what_is_kept_is_inside() {
        let mut r = Ranges::new();
        for range in [5..10, 12..31, 40..u64::MAX] {
            r.add(Pa(range.start)..Pa(range.end)).unwrap();
        }
        r.keep_whole(8);
        assert_eq!(set(&r), [(16, 24), (40, u64::MAX - 7)]);
        r.keep(&(Pa(20)..Pa(41)));
        assert_eq!(set(&r), [(20, 24), (40, 41)]);
        assert!(r.covers(&(Pa(21)..Pa(24))) && !r.covers(&(Pa(21)..Pa(25))));
    }

    proptest! {
        /// For any ranges in any order, those kept are at least as long as those dropped, and nothing else is lost.
        #[test]
        fn what_is_lost_is_the_least(
            lengths in prop::collection::vec(1u64..1000, 1..300),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 1u64..100), 0..60),
        ) {
            let (mut ranges, mut lost) = (Ranges::new(), Vec::new());
            for (i, length) in lengths.iter().enumerate() {
                let start = i as u64 * 7919 % 300 * 2000;
                lost.extend(ranges.add_or_lose(Pa(start)..Pa(start + length)));
            }
            let mut sorted = lengths.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(ranges.bytes(), sorted.iter().take(CAPACITY).sum::<u64>());
            prop_assert_eq!(ranges.bytes() + lost.iter().map(bytes).sum::<u64>(), lengths.iter().sum::<u64>());
            for (at, length) in cuts {
                if ranges.as_slice().is_empty() {
                    break;
                }
                let of = ranges.as_slice()[at.index(ranges.as_slice().len())].clone();
                let middle = Pa(of.start.0 + bytes(&of) / 2);
                let out = middle..of.end.min(Pa(middle.0 + length));
                let before = ranges.bytes();
                let lost = ranges.remove_or_lose(&out);
                let lost_bytes = lost.as_ref().map_or(0, bytes);
                prop_assert_eq!(ranges.bytes() + lost_bytes + bytes(&out), before);
                prop_assert!(ranges.as_slice().iter().all(|r| bytes(r) >= lost_bytes && !r.contains(&middle)));
                prop_assert!(lost.is_none() || ranges.as_slice().len() == CAPACITY);
            }
        }

        /// Gaps are what is in the set and in nothing that is taken, each as long as possible.
        #[test]
        fn gaps_are_what_removal_leaves(
            added in prop::collection::vec((0u64..64, 1u64..16), 0..8),
            taken in prop::collection::vec((0u64..80, 0u64..16), 0..8),
        ) {
            let mut ranges = Ranges::new();
            for (start, length) in added {
                ranges.add(Pa(start)..Pa(start + length)).unwrap();
            }
            let taken: Vec<_> = taken.into_iter().map(|(start, length)| Pa(start)..Pa(start + length)).collect();
            let gaps: Vec<_> = ranges.without(taken.iter().cloned()).collect();
            for range in &taken {
                ranges.remove(range).unwrap();
            }
            prop_assert_eq!(ranges.as_slice(), gaps);
        }

        /// A bitmap with a bit for each address is the reference.
        #[test]
        fn agrees_with_a_bitmap(ops in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..16), 0..40)) {
            let mut ranges = Ranges::new();
            let mut bits = [false; 80];
            for (add, start, len) in ops {
                let range = Pa(start)..Pa(start + len);
                let span = start as usize..(start + len) as usize;
                if add {
                    let overlaps = bits[span.clone()].iter().any(|b| *b);
                    prop_assert_eq!(ranges.add(range), Ok(overlaps));
                } else {
                    prop_assert_eq!(ranges.remove(&range), Ok(()));
                }
                bits[span].fill(add);
                for (address, bit) in bits.iter().enumerate() {
                    let inside = ranges.as_slice().iter().any(|r| r.contains(&Pa(address as u64)));
                    prop_assert_eq!(inside, *bit);
                }
                let apart = ranges.as_slice().windows(2).all(|w| w[0].end < w[1].start);
                prop_assert!(apart && ranges.as_slice().iter().all(|r| !r.is_empty()));
            }
        }
    }
}
