//! The guard of one caller among many: it holds the locks of its addresses, knows what others have claimed or left, and makes up for
//! invalidations that they have left pending.

use core::marker::PhantomData;
use core::sync::atomic::{Ordering::Acquire, fence};

use crate::batch::{Invalidated, Issuer, TlbBatch};
use crate::build::{Counters, SplitCost};
use crate::edit::{Claimed, Cover, Form, Guard, Needs, Tables, Versions};
use crate::format::Span;
use crate::platform::{Frame, Platform, Reason, with_locks, with_more_locks};
use crate::share::claims::{Claim, KeptCuts};
use crate::share::map_state::MapState;
use crate::share::marks::mark;
use crate::share::words::Share;

/// The owner of tables as one caller among many knows it: the state of the map, and the reason of the caller's changes.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a, const LOCKS: usize> {
    pub(crate) state: &'a MapState<LOCKS>,
    pub(crate) reason: Reason,
}

/// The form of [`Live`](crate::Live) for one caller among many: locks, claims and marks keep others away from what it changes.
pub struct Hold<'a, P, const LOCKS: usize> {
    pub(crate) state: &'a MapState<LOCKS>,
    /// By which changes of size are counted.
    reason: Reason,
    /// The locks that are held.
    cover: Cover,
    /// The caller's own claims, as bits.
    own: u64,
    platform: PhantomData<P>,
}

impl<P, const LOCKS: usize> Clone for Hold<'_, P, LOCKS> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, const LOCKS: usize> Copy for Hold<'_, P, LOCKS> {}

/// The first lock of a hold. Readers without a lock can tell that tables may change meanwhile, by the version that belongs to the lock:
/// theirs is the sum of all.
pub(crate) struct Held<'h, P: Platform + 'h> {
    share: &'h Share,
    version: u64,
    _lock: P::Held<'h>,
}

impl<P: Platform> Drop for Held<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.share.changes_end(self.version);
    }
}

impl<P: Platform, const LOCKS: usize> Form for Hold<'_, P, LOCKS> {}

impl<'a, P: Platform, const LOCKS: usize> Guard for Hold<'a, P, LOCKS> {
    type Platform = P;
    type Owner = Owner<'a, LOCKS>;
    type Claim = Claim<'a>;
    type KeptCuts = KeptCuts<'a>;
    type Held<'h>
        = Held<'h, P>
    where
        Self: 'h;

    const HOLD: usize = P::HOLD;

    #[inline(always)]
    fn new(Owner { state, reason }: Owner<'a, LOCKS>) -> Self {
        Self { state, reason, cover: Cover::NOTHING, own: 0, platform: PhantomData }
    }

    #[inline(always)]
    fn tables_of<'t>(owner: &'t Owner<'a, LOCKS>) -> &'t Tables {
        &owner.state.tables
    }

    #[inline(always)]
    fn tables(&self) -> &Tables {
        &self.state.tables
    }

    #[inline(always)]
    fn versions<'t>(owner: &'t Owner<'a, LOCKS>) -> Option<&'t dyn Versions> {
        Some(owner.state)
    }

    /// Invalidates all pending ranges that overlap the span.
    fn flush<I: Issuer>(owner: Owner<'a, LOCKS>, platform: &P, span: Span, issuer: impl Fn(Cover) -> I) {
        if !owner.state.attention.is_pending() {
            // What this caller does next comes after the invalidations of the one who said so.
            return fence(Acquire);
        }
        for cover in Self::for_stores(span).numbers().map(Cover::one) {
            let (guard, to) = (Self::new(owner).with(cover), issuer(cover));
            with_locks(platform, cover.bits(), || guard.settle(&to, span));
        }
    }

    #[inline(always)]
    fn for_stores(span: Span) -> Cover {
        Cover::of::<P>(span)
    }

    #[inline(always)]
    fn for_one(va: u64) -> Cover {
        Cover::one(Cover::number::<P>(va))
    }

    #[inline]
    fn for_link(entry: Span) -> Cover {
        Cover::of::<P>(entry).first()
    }

    #[inline(always)]
    fn with(self, cover: Cover) -> Self {
        Self { cover, ..self }
    }

    #[inline(always)]
    fn cover(&self) -> Cover {
        self.cover
    }

    #[inline]
    fn hold<R>(&self, platform: &P, work: impl FnOnce() -> R) -> R {
        let _held = self.begin(platform);
        match self.cover.but_lowest() {
            others if P::LOCKS > 1 && others != Cover::NOTHING => {
                with_more_locks(platform, others.bits(), work)
            }
            _ => work(),
        }
    }

    #[inline(always)]
    fn begin<'h>(&'h self, platform: &'h P) -> Held<'h, P> {
        let number = self.cover.lowest();
        let (lock, share) = (platform.lock(number), self.state.share(number));
        Held { share, version: share.changes_begin(), _lock: lock }
    }

    fn claim(&self, platform: &P, spans: impl Iterator<Item = Span> + Clone) -> Result<Claim<'a>, Claimed> {
        self.state.claims.claim(&self.state.attention, platform, spans)
    }

    fn owning(self, claim: &Claim<'a>) -> Self {
        Self { own: claim.bits(), ..self }
    }

    fn keeps_cuts(&self) -> KeptCuts<'a> {
        self.state.attention.keeps_cuts()
    }

    fn are_cuts_kept(&self) -> bool {
        self.state.attention.are_cuts_kept()
    }

    #[inline]
    fn is_claimed(&self, span: Span) -> bool {
        self.state.attention.is_needed() && self.state.claims.overlap(span, self.own)
    }

    #[inline(always)]
    fn is_free(&self, to: &impl Issuer, later: bool, span: Span) -> bool {
        let attention = &self.state.attention;
        let looks = if later { attention.is_needed_for_more() } else { attention.is_needed() };
        !looks || heed(self.state, to, later, (self.cover, span))
    }

    fn is_pending(&self, span: Span) -> bool {
        self.state.has_pending(|| Self::for_stores(span), span)
    }

    #[inline]
    fn settle(&self, to: &impl Issuer, span: Span) {
        let held = || Self::for_stores(span).common(self.cover);
        if self.state.has_pending(held, span) {
            settle(self.state, to, (held(), span));
        }
    }

    /// A range of several locks is noted with each of them.
    #[inline]
    fn leave(&self, range: Invalidated) {
        let Invalidated { first, last, .. } = range;
        let locks = if self.cover.is_one() { self.cover } else { Self::for_stores(Span { first, last }) };
        locks.numbers().for_each(|number| self.state.leave_pending(number, range));
    }

    #[inline]
    fn mark(&self, span: Span) {
        if self.state.attention.is_repaint() {
            mark(self.state, span);
        }
    }

    /// Marks are made under the locks of all that they are of. A repaint that begins now looks at nothing before this hold ends.
    fn for_mark(&self, span: Span) -> Cover {
        if self.state.attention.is_repaint() { Self::for_stores(span) } else { Cover::NOTHING }
    }

    /// One above a gigabyte may have been published under other locks than its own, and a moment ago. Its publisher has the first
    /// lock of all, since an entry that translates more than a gigabyte translates at least 64. To take that lock is to wait until
    /// walkers see it.
    #[inline]
    fn sees_published(&self) -> Result<(), Needs> {
        let first = Cover::one(0);
        if self.cover.has(first) || !self.state.publishing.is_under_way() {
            return Ok(());
        }
        Err(Needs::Cover(first))
    }

    /// Callers in other gigabytes reach the tables at once.
    fn publish_upper(&self, stores: impl FnOnce()) {
        self.state.publishing.begins();
        stores();
        self.state.publishing.ends();
    }

    fn leave_empty(&self, first: Option<u64>) -> Option<u64> {
        self.state.leave_empty(first)
    }

    #[inline(always)]
    fn counters(&self) -> Option<&Counters> {
        Some(&self.state.share(self.cover.lowest()).counters)
    }

    fn parked(&self) {
        self.state.parked();
    }

    #[inline(always)]
    fn reason(&self) -> Reason {
        self.reason
    }

    fn cost(&self, cost: SplitCost) {
        self.state.split_costs.add(self.reason, cost);
    }

    fn wait(platform: &P) -> bool {
        platform.wait()
    }

    #[inline]
    fn read<R>(platform: &P, work: impl FnOnce() -> R) -> R {
        platform.read(work)
    }

    #[inline]
    fn retire(platform: &P, frame: Frame) {
        platform.retire(platform, frame);
    }
}

impl<const LOCKS: usize> MapState<LOCKS> {
    /// Notes that the invalidation of a range is left to a later flush, with a lock that the caller has.
    #[inline]
    fn leave_pending(&self, number: usize, range: Invalidated) {
        if self.pending(number).add(range) {
            self.attention.pending_begins();
        }
    }

    /// Returns true if invalidations of a span are pending in some locks. These are found out if there are any at all.
    #[inline]
    fn has_pending(&self, locks: impl FnOnce() -> Cover, span: Span) -> bool {
        let overlaps = |number| self.pending(number).overlaps(span);
        self.attention.is_pending() && locks().numbers().any(overlaps)
    }
}

/// Looks for what others have left or claimed in a span, whose one lock the caller holds. Invalidates what is pending there,
/// unless the caller leaves its own invalidations `later` as well. Returns false if a part of it is claimed, or if a repaint
/// has to be told of changes.
#[cold]
#[inline(never)]
fn heed<const LOCKS: usize>(
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
fn settle<const LOCKS: usize>(state: &MapState<LOCKS>, to: &impl Issuer, (locks, span): (Cover, Span)) {
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
