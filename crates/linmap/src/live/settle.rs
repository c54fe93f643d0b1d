//! Pending invalidations in a hold: they are noted, looked for, and made up for.

use core::sync::atomic::{Ordering::Acquire, fence};

use crate::format::Span;
use crate::live::invalidated::Invalidated;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::{Platform, with_locks};

impl MapState {
    /// Notes that the invalidation of a range is left to a later flush. The caller has all its locks.
    pub(crate) fn leave_pending<P: Platform>(&self, range: Invalidated) {
        let span = Span { first: range.first, last: range.last };
        for number in LockSet::of::<P>(span).numbers() {
            self.leave_pending_in(number, range);
        }
    }

    /// Does the same for a range of one lock, which the caller has.
    #[inline]
    pub(crate) fn leave_pending_in(&self, number: usize, range: Invalidated) {
        if self.pending(number).add(range) {
            self.attention.pending_begins();
        }
    }

    /// Returns true if invalidations of a span are pending in some locks. These are found out if there are any at all.
    #[inline]
    fn has_pending(&self, locks: impl FnOnce() -> LockSet, span: Span) -> bool {
        let overlaps = |number| self.pending(number).overlaps(span);
        self.attention.is_pending() && locks().numbers().any(overlaps)
    }
}

/// Looks for what others have left or claimed in a span, whose one lock the caller holds. Invalidates what is pending there,
/// unless the caller leaves its own invalidations `later` as well. Returns false if a part of it is claimed, or if a repaint
/// has to be told of changes.
#[cold]
#[inline(never)]
pub(crate) fn heed<P: Platform>(state: &MapState, platform: &P, later: bool, span: Span) -> bool {
    let attention = &state.attention;
    if attention.is_needed_for_more() && (attention.is_repaint() || state.claims.overlap(span, 0)) {
        return false;
    }
    if !later {
        let reserve = Reserve::new(platform);
        Locked::of_one(platform, state, LockSet::number::<P>(span.first), &reserve).settle(span);
    }
    true
}

impl<P: Platform> Locked<'_, P> {
    /// Returns true if invalidations of a span are pending. The holder has its locks.
    pub(crate) fn is_pending(&self, span: Span) -> bool {
        self.state.has_pending(|| LockSet::of::<P>(span), span)
    }

    /// Invalidates what is pending and overlaps a span, as far as its locks are held.
    #[inline]
    pub(crate) fn settle(&self, span: Span) {
        if self.state.has_pending(|| LockSet::of::<P>(span).common(self.locks), span) {
            self.settle_pending(span);
        }
    }

    #[cold]
    fn settle_pending(&self, span: Span) {
        let held = LockSet::of::<P>(span).common(self.locks).numbers();
        // One batch for all locks, so that a hold invalidates no more than a batch has.
        let (mut batch, mut ended) = (TlbBatch::new(), 0);
        for pending in held.map(|number| self.state.pending(number)) {
            let was_empty = pending.is_empty();
            pending.take(span, |range| batch.add_once(range));
            ended += u64::from(!was_empty && pending.is_empty());
        }
        if !batch.is_empty() {
            batch.finish(self);
            self.state.attention.pending_ends(ended);
        }
    }
}

/// Invalidates all pending ranges that overlap a span.
pub(crate) fn flush<P: Platform>(state: &MapState, platform: &P, span: Span) {
    if !state.attention.is_pending() {
        // What this caller does next comes after the invalidations of the one who said so.
        return fence(Acquire);
    }
    let reserve = Reserve::new(platform);
    for number in LockSet::of::<P>(span).numbers() {
        with_locks(platform, LockSet::one(number).bits(), || {
            Locked::of_one(platform, state, number, &reserve).settle(span);
        });
    }
}
