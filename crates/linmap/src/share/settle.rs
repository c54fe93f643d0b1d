//! Pending invalidations in a hold: they are noted, looked for, and made up for.

use crate::batch::{Invalidated, Issuer, TlbBatch};
use crate::edit::Cover;
use crate::format::Span;
use crate::share::map_state::MapState;

impl<const LOCKS: usize> MapState<LOCKS> {
    /// Notes that the invalidation of a range is left to a later flush, with a lock that the caller has.
    #[inline]
    pub(crate) fn leave_pending(&self, number: usize, range: Invalidated) {
        if self.pending(number).add(range) {
            self.attention.pending_begins();
        }
    }

    /// Returns true if invalidations of a span are pending in some locks. These are found out if there are any at all.
    #[inline]
    pub(crate) fn has_pending(&self, locks: impl FnOnce() -> Cover, span: Span) -> bool {
        let overlaps = |number| self.pending(number).overlaps(span);
        self.attention.is_pending() && locks().numbers().any(overlaps)
    }
}

/// Looks for what others have left or claimed in a span, whose one lock the caller holds. Invalidates what is pending there,
/// unless the caller leaves its own invalidations `later` as well. Returns false if a part of it is claimed, or if a repaint
/// has to be told of changes.
#[cold]
#[inline(never)]
pub(crate) fn heed<const LOCKS: usize>(
    state: &MapState<LOCKS>,
    to: &impl Issuer,
    later: bool,
    (lock, span): (Cover, Span),
) -> bool {
    let attention = &state.attention;
    if attention.is_needed_for_more() && (attention.is_repaint() || state.claims.overlap(span, 0)) {
        return false;
    }
    if !later && state.has_pending(|| lock, span) {
        settle(state, to, (lock, span));
    }
    true
}

/// Invalidates what is pending in a span, with these locks, which are held.
#[cold]
pub(crate) fn settle<const LOCKS: usize>(
    state: &MapState<LOCKS>,
    to: &impl Issuer,
    (locks, span): (Cover, Span),
) {
    // One batch for all locks, so that a hold invalidates no more than a batch has.
    let (mut batch, mut ended) = (TlbBatch::new(), 0);
    for pending in locks.numbers().map(|number| state.pending(number)) {
        let was_empty = pending.is_empty();
        pending.take(span, |range| batch.add_once(range));
        ended += u64::from(!was_empty && pending.is_empty());
    }
    if !batch.is_empty() {
        batch.finish(to);
        state.attention.pending_ends(ended);
    }
}
