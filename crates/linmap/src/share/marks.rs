//! The parts of the map that have changed since a repaint began: a bit for each 64th of a gigabyte.
//!
//! The marks of a gigabyte are stored by the holder of its lock only. Gigabytes whose numbers differ by a multiple of the
//! [number of words](words) share their bits, so each of them is copied again.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::edit::GIGABYTE;
use crate::format::Span;
use crate::platform::{Sharing, with_locks};
use crate::share::map_state::{MapState, Marks};

/// Returns the number of words with marks: one for each lock, and not fewer than 32.
pub(crate) const fn words<const LOCKS: usize>() -> usize {
    if LOCKS > Marks::FEW { LOCKS } else { Marks::FEW }
}

/// Returns a word with marks.
fn word<const LOCKS: usize>(state: &MapState<LOCKS>, number: usize) -> &AtomicU64 {
    state.marks.get(number).unwrap_or_else(|| &state.share(number).marks)
}

/// log2 of the bytes of a part: 16 MB.
const PART: u32 = GIGABYTE - 6;

/// Marks all parts of a span that a repaint copies. The caller holds the locks of all of it.
#[cold]
pub(crate) fn mark<const LOCKS: usize>(state: &MapState<LOCKS>, span: Span) {
    let Some(span) = state.copied.part_of(span) else { return };
    let (first, last) = (span.first >> GIGABYTE, span.last >> GIGABYTE);
    // After so many gigabytes all words have been seen.
    let words = words::<LOCKS>() as u64;
    for gigabyte in first..=last.min(first + (words - 1)) {
        let part = |va: u64| va >> PART & 63;
        let from = if gigabyte == first { part(span.first) } else { 0 };
        let to = if gigabyte == last { part(span.last) } else { 63 };
        let bits = u64::MAX >> (63 - to) & u64::MAX << from;
        // A longer span has several gigabytes for some words: all parts of these are marked.
        let bits = if last - first >= words { u64::MAX } else { bits };
        let marks = word(state, (gigabyte % words) as usize);
        marks.store(marks.load(Relaxed) | bits, Relaxed);
    }
}

/// Returns true if a word has marks. If the caller does not hold its lock, others may change that at once.
pub(crate) fn has_marks<const LOCKS: usize>(state: &MapState<LOCKS>, number: usize) -> bool {
    word(state, number).load(Relaxed) != 0
}

/// Clears all marks, lock by lock. On return, all callers have left the holds that they were in when it was called.
pub(crate) fn clear<S: Sharing, const LOCKS: usize>(state: &MapState<LOCKS>, sharing: &S) {
    for lock in 0..S::LOCKS {
        with_locks(sharing, 1 << lock, || {
            let of_lock = (lock..words::<LOCKS>()).step_by(S::LOCKS);
            of_lock.for_each(|number| word(state, number).store(0, Relaxed));
        });
    }
}

/// The marked parts of a word in all gigabytes of a range, from one address on.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    word: u64,
    words: u64,
    bits: u64,
    /// The first address that is not done with.
    pub(crate) from: u64,
}

impl Parts {
    /// Takes the marks of a word. The caller holds its lock.
    pub(crate) fn take<const LOCKS: usize>(state: &MapState<LOCKS>, number: usize, from: u64) -> Self {
        let marks = word(state, number);
        let bits = marks.load(Relaxed);
        marks.store(0, Relaxed);
        Self { word: number as u64, words: words::<LOCKS>() as u64, bits, from }
    }

    /// Returns the next adjacent parts, as far as they are in a range.
    pub(crate) fn next(&self, range: Span) -> Option<Span> {
        let mut from = self.from;
        loop {
            let ahead = self.word.wrapping_sub(from >> GIGABYTE) % self.words;
            if ahead != 0 {
                from = ((from >> GIGABYTE) + ahead).checked_mul(1 << GIGABYTE)?;
            }
            if self.bits == 0 || from > range.last {
                return None;
            }
            let base = from & (u64::MAX << GIGABYTE);
            let left = self.bits & u64::MAX << (from >> PART & 63);
            if left != 0 {
                let start = left.trailing_zeros();
                let parts = (left >> start).trailing_ones();
                let first = base + (u64::from(start) << PART);
                let last = first + ((u64::from(parts) << PART) - 1);
                return Some(Span { first: first.max(from), last: last.min(range.last) });
            }
            from = base.checked_add(1 << GIGABYTE)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Geometry, Granule, Half, OaFormat, Pa};
    use crate::plan::Stats;
    use test_support::prelude::*;
    extern crate std;
    use std::vec::Vec;

    const MB: u64 = 1 << 20;
    const GB: u64 = 1 << 30;

    fn state<const LOCKS: usize>() -> MapState<LOCKS> {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
        MapState::over(Pa(0), g, Half::Lower, &Stats::EMPTY)
    }

    fn all<const LOCKS: usize>(state: &MapState<LOCKS>, range: Span) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for word in (0..words::<LOCKS>()).filter(|&word| has_marks(state, word)) {
            let mut parts = Parts::take(state, word, range.first);
            assert!(!has_marks(state, word));
            while let Some(part) = parts.next(range) {
                found.push((part.first / MB, (part.last + 1) / MB));
                parts.from = part.last + 1;
            }
        }
        found
    }

    #[test]
    fn parts_of_the_range_are_marked_and_nothing_in_between() {
        let (state, range) = (state::<64>(), Span { first: GB, last: 80 * GB - 1 });
        let marked = |spans: &[(u64, u64)]| {
            spans.iter().for_each(|&(first, last)| mark(&state, Span { first, last: last - 1 }));
            all(&state, range)
        };
        assert_eq!(marked(&[(0, u64::MAX)]), [], "there is no repaint");
        state.copied.set(Span { first: GB, last: 10 * GB - 1 });
        assert_eq!(marked(&[(0, GB), (10 * GB, 11 * GB)]), []);
        // Gigabyte 66 shares the marks of gigabyte 2.
        let both = |first: u64, last: u64| [(first, last), (first + 65536, last + 65536)];
        assert_eq!(marked(&[(2 * GB, 2 * GB + 1)]), both(2048, 2064));
        let two = 2 * GB + 16 * MB;
        let found = marked(&[(two - 1, two + 1), (3 * GB - 1, 3 * GB)]);
        assert_eq!(found, [(2048, 2080), (3056, 3072), (67584, 67616), (68592, 68608)]);
        // All of one gigabyte, and the ends of its neighbours.
        let found = marked(&[(20 * GB - 1, 20 * GB), (4 * GB - 1, 5 * GB + 1)]);
        assert_eq!(found[..2], both(4080, 4096)[..]);
        state.copied.set(range);
        // Every gigabyte, once.
        let found = marked(&[(0, u64::MAX)]);
        assert_eq!(found.iter().map(|part| part.1 - part.0).sum::<u64>(), 79 * 1024);
        // More than 64 gigabytes mark everything.
        let found = marked(&[(10 * GB + 5, 75 * GB + 5)]);
        assert_eq!(found.iter().map(|part| part.1 - part.0).sum::<u64>(), 79 * 1024);
        state.copied.forget();
        assert_eq!(marked(&[(0, u64::MAX)]), []);
    }

    /// Marks are found again in every gigabyte of their word that is in the range, and nothing else.
    fn finds_what_was_marked<const LOCKS: usize>(range: Span, marked: Span) {
        let state = state::<LOCKS>();
        state.copied.set(range);
        mark(&state, marked);
        let found: Vec<(u64, u64)> = all(&state, range);
        let has = |va: u64| found.iter().any(|part| (part.0..part.1).contains(&(va / MB)));
        let words = words::<LOCKS>() as u64;
        let wanted = marked.common(range);
        let is_wanted = |va: u64| {
            // The same place in the gigabytes of a word.
            let period = words * GB;
            let from = (va % period + wanted.first / period * period).wrapping_sub(period);
            (0..3 + (wanted.last - wanted.first) / period)
                .map(|n| from.wrapping_add(n * period))
                .any(|at| wanted.first >> PART <= at >> PART && at >> PART <= wanted.last >> PART)
        };
        for va in (range.first..=range.last).step_by(1 << PART) {
            assert!(
                has(va) || !is_wanted(va),
                "{LOCKS} locks, {va:#x} is not found: {marked:x?} in {range:x?}"
            );
            // Where the first word comes around again, all of its parts are marked.
            let is_short = (wanted.last >> GIGABYTE) - (wanted.first >> GIGABYTE) < words;
            assert!(
                !has(va) || is_wanted(va) || !is_short,
                "{LOCKS} locks, {va:#x}: {marked:x?} in {range:x?}"
            );
        }
    }

    proptest! {
        #[test]
        fn marks_are_found_again(first in 0u64..200, gigabytes in 1u64..200, from in 0u64..25_600, parts in 1u64..9_000) {
            let range = Span { first: first * GB, last: (first + gigabytes) * GB - 1 };
            let marked = Span { first: from << PART, last: ((from + parts) << PART) - 1 };
            if marked.first <= range.last && range.first <= marked.last {
                finds_what_was_marked::<1>(range, marked);
                finds_what_was_marked::<8>(range, marked);
                finds_what_was_marked::<64>(range, marked);
            }
        }
    }

    #[test]
    fn the_highest_address_is_the_end() {
        let (state, range) = (state::<64>(), Span { first: u64::MAX << 40, last: u64::MAX });
        state.copied.set(range);
        mark(&state, Span { first: u64::MAX, last: u64::MAX });
        let parts = Parts::take(&state, 63, range.first);
        let part = Parts { from: u64::MAX - 4 * MB, ..parts }.next(range).expect("the last part");
        assert_eq!((part.first, part.last), (u64::MAX - 4 * MB, u64::MAX));
        assert!(Parts { from: u64::MAX - 64 * GB + 1, ..parts }.next(range).is_some());
        let part = Parts { bits: 1, from: u64::MAX - GB / 2, ..parts }.next(range);
        assert!(part.is_none());
    }
}
