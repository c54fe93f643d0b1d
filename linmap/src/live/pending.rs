//! Pending invalidations: ranges that have changed, and of which CPUs may still use the old translations, because the
//! caller has left the invalidations to a later flush.
//!
//! Each lock has a few ranges, which its holder reads and writes. If there are more, ranges are joined, and the addresses
//! between them count as pending, too. A range of several locks is noted with each of them. Whoever works on a pending range
//! invalidates it first, so it never stays pending longer than somebody has an interest in it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::format::Span;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::live::tlb_batch::{Invalidated, TlbBatch};
use crate::platform::{Platform, with_locks};

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
        Self { ranges: [const { Range { first: AtomicU64::new(0), last: AtomicU64::new(0) } }; _] }
    }

    fn is_empty(&self) -> bool {
        self.ranges.iter().all(|range| range.get().is_none())
    }

    /// Adds a range. It is joined with one that it meets, or, if there is no free place, with the last.
    fn add(&self, new: Invalidated) {
        let meets = |range: &&Range| range.get().is_some_and(|old| old.meets(&new));
        let place = self.ranges.iter().find(meets);
        let free = || self.ranges.iter().find(|range| range.get().is_none());
        let place = place.or_else(free).unwrap_or(&self.ranges[Self::RANGES - 1]);
        place.set(Some(place.get().map_or(new, |old| old.and(&new))));
    }

    fn overlaps(&self, span: Span) -> bool {
        self.ranges.iter().filter_map(Range::get).any(|range| range.overlaps(span))
    }

    /// Moves the ranges that overlap a span to a batch.
    fn take(&self, span: Span, batch: &mut TlbBatch) {
        for place in &self.ranges {
            if let Some(range) = place.get().filter(|range| range.overlaps(span)) {
                batch.add(range.first, range.last, range.entry_shift);
                place.set(None);
            }
        }
    }
}

impl<P: Platform> Locked<'_, P> {
    /// Notes that the invalidation of a range is left to a later flush. The holder has all its locks.
    pub(crate) fn leave_pending(&self, range: Invalidated) {
        let span = Span { first: range.first, last: range.last };
        for number in LockSet::of::<P>(span).numbers() {
            let pending = self.state.pending(number);
            if pending.is_empty() {
                self.state.attention.pending_begins();
            }
            pending.add(range);
        }
    }

    /// Returns true if invalidations of a span are pending. The holder has its locks.
    pub(crate) fn is_pending(&self, span: Span) -> bool {
        let overlaps = |number| self.state.pending(number).overlaps(span);
        self.state.attention.is_pending() && LockSet::of::<P>(span).numbers().any(overlaps)
    }

    /// Invalidates what is pending and overlaps a span, as far as its locks are held.
    #[inline]
    pub(crate) fn settle(&self, span: Span) {
        if self.state.attention.is_pending() {
            self.settle_pending(span);
        }
    }

    #[cold]
    fn settle_pending(&self, span: Span) {
        let held = LockSet::of::<P>(span).numbers().filter(|&number| self.locks.has(LockSet::one(number)));
        for pending in held.map(|number| self.state.pending(number)) {
            let mut batch = TlbBatch::new();
            pending.take(span, &mut batch);
            if batch.is_empty() {
                continue;
            }
            batch.finish(self);
            if pending.is_empty() {
                self.state.attention.pending_ends();
            }
        }
    }
}

/// Invalidates all pending ranges that overlap a span.
pub(crate) fn flush<P: Platform>(state: &MapState, platform: &P, span: Span) {
    if !state.attention.is_pending() {
        return;
    }
    let reserve = Reserve::new(platform);
    for number in LockSet::of::<P>(span).numbers() {
        with_locks(platform, LockSet::one(number).bits(), || {
            Locked::of_one(platform, state, number, &reserve).settle(span);
        });
    }
}
