//! Pending invalidations: ranges that have changed, and of which CPUs may still use the old translations, because the
//! caller has left the invalidations to a later flush.
//!
//! Each lock has a few ranges, which its holder reads and writes. If there are more, ranges are joined, and the addresses
//! between them count as pending, too. A range of several locks is noted with each of them. An operation on a pending range
//! invalidates it first (`hold.rs`).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::batch::Invalidated;
use crate::format::Span;

/// The pending ranges of one lock.
#[derive(Debug)]
pub(crate) struct Pending {
    ranges: [Range; Self::RANGES],
}

/// The first address, with log2 of the size of the smallest entry in the low bits, and the last address. Both are 0 in a
/// free place.
#[derive(Debug)]
struct Range {
    first: AtomicU64,
    last: AtomicU64,
}

/// The bits of an address within the smallest page.
const WITHIN: u64 = (1 << 12) - 1;

impl Range {
    fn get(&self) -> Option<Invalidated> {
        let (first, last) = (self.first.load(Relaxed), self.last.load(Relaxed));
        let entry_shift = (first & WITHIN) as u32;
        (last != 0).then_some(Invalidated { first: first & !WITHIN, last, entry_shift })
    }

    fn set(&self, range: Option<Invalidated>) {
        let (first, last) = range.map_or((0, 0), |r| (r.first | u64::from(r.entry_shift), r.last));
        self.first.store(first, Relaxed);
        self.last.store(last, Relaxed);
    }
}

impl Pending {
    /// No more than a batch of invalidations has.
    const RANGES: usize = 2;

    pub(crate) const fn none() -> Self {
        Self { ranges: [const { Range { first: AtomicU64::new(0), last: AtomicU64::new(0) } }; Self::RANGES] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.iter().all(|range| range.get().is_none())
    }

    /// Adds a range. It is joined with one that it meets, or, if there is no free place, with the last. Returns true if it is
    /// the first.
    pub(crate) fn add(&self, new: Invalidated) -> bool {
        let (mut place, mut is_first) = (&self.ranges[Self::RANGES - 1], true);
        for range in self.ranges.iter().rev() {
            match range.get() {
                Some(old) if old.meets(&new) => {
                    range.set(Some(old.and(&new)));
                    return false;
                }
                Some(_) => is_first = false,
                None => place = range,
            }
        }
        place.set(Some(place.get().map_or(new, |old| old.and(&new))));
        is_first
    }

    pub(crate) fn overlaps(&self, span: Span) -> bool {
        self.ranges.iter().filter_map(Range::get).any(|range| range.overlaps(span))
    }

    /// Hands over the ranges that overlap a span, and forgets them.
    pub(crate) fn take(&self, span: Span, mut each: impl FnMut(Invalidated)) {
        for place in &self.ranges {
            if let Some(range) = place.get().filter(|range| range.overlaps(span)) {
                each(range);
                place.set(None);
            }
        }
    }
}
