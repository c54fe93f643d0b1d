//! The guard of an operation: it keeps other callers away from what the operation changes.
//!
//! An operation on live tables is the same for a caller who has them alone and for one among many. It asks its guard what it
//! takes to store somewhere, and whether others have a part of it. That of a caller who has the tables alone, [`Alone`], says yes
//! to everything, and compiles to nothing. That of the others holds locks (`hold.rs`).

use core::marker::PhantomData;

use crate::batch::{Invalidated, Issuer, TlbBatch};
use crate::build::{Counters, SplitCost};
use crate::edit::cover::{Claimed, Cover};
use crate::edit::reader::Versions;
use crate::edit::stop::Needs;
use crate::edit::tables::Tables;
use crate::format::Span;
use crate::platform::{Frame, HOLD, Hardware, Memory, Reason};

/// The most ranges of one operation that are claimed together.
pub(crate) const TOGETHER: usize = 16;

/// Ranges that are claimed together.
pub(crate) struct Group {
    spans: [Span; TOGETHER],
    used: usize,
}

impl Group {
    /// Takes the next ranges of several, as many as are claimed together, or `None` if there are no more.
    pub(crate) fn next(ranges: &mut impl Iterator<Item = Span>) -> Option<Self> {
        let mut group = Self { spans: [ranges.next()?; TOGETHER], used: 1 };
        for (place, span) in group.spans[1..].iter_mut().zip(ranges) {
            *place = span;
            group.used += 1;
        }
        Some(group)
    }

    /// Returns the ranges.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans[..self.used]
    }
}

/// The guard of an operation. The answers of the provided methods are those where there are no other callers.
pub(crate) trait Guard: Copy {
    type Platform: Memory + Hardware;
    /// The value that a guard is made from: little, since callers pass it on.
    type Owner: Copy;
    /// Spans that others leave alone until it is dropped, over several holds.
    type Claim;
    /// For as long as it exists nobody merges leaves that were cut.
    type KeptCuts;
    /// A hold.
    type Held<'h>
    where
        Self: 'h;

    /// The most entries of a hold ([`Sharing::HOLD`](crate::Sharing::HOLD)). A caller who has the tables alone has its default.
    const HOLD: usize = HOLD;

    /// Returns a guard that covers nothing yet.
    fn new(owner: Self::Owner) -> Self;

    /// Returns what is known of the tables.
    fn tables_of(owner: &Self::Owner) -> &Tables;

    /// Returns what is known of the tables.
    fn tables(&self) -> &Tables;

    /// Returns the number that changes with the tables, if others may change them.
    fn versions(owner: &Self::Owner) -> Option<&dyn Versions> {
        _ = owner;
        None
    }

    /// Invalidates what a span has pending. `issuer` returns who invalidates with a cover.
    fn flush<I: Issuer>(
        owner: Self::Owner,
        platform: &Self::Platform,
        span: Span,
        issuer: impl Fn(Cover) -> I,
    );

    /// Returns what it takes to store to descriptors of a span.
    fn for_stores(span: Span) -> Cover;

    /// Returns what it takes to store to a descriptor that translates no more than a gigabyte.
    fn for_one(va: u64) -> Cover;

    /// Returns what it takes to link a table into a hole that translates a span.
    fn for_link(entry: Span) -> Cover {
        Self::for_stores(entry)
    }

    /// Returns the guard with this cover, for a hold.
    #[must_use]
    fn with(self, cover: Cover) -> Self;

    /// Returns its cover.
    fn cover(&self) -> Cover;

    /// Runs `work` in a hold: nobody else has any of its cover meanwhile.
    fn hold<R>(&self, platform: &Self::Platform, work: impl FnOnce() -> R) -> R;

    /// Begins a hold with the first part of its cover, which lasts until the value is dropped.
    fn begin<'h>(&'h self, platform: &'h Self::Platform) -> Self::Held<'h>;

    /// Claims spans together: all of them, or none.
    ///
    /// # Errors
    ///
    /// Another caller has a part of them.
    fn claim(
        &self,
        platform: &Self::Platform,
        spans: impl Iterator<Item = Span> + Clone,
    ) -> Result<Self::Claim, Claimed>;

    /// Returns the guard for the owner of a claim.
    #[must_use]
    fn owning(self, claim: &Self::Claim) -> Self;

    /// From here on nobody merges leaves that were cut, until the value is dropped.
    fn keeps_cuts(&self) -> Self::KeptCuts;

    /// Returns true if leaves that others have cut have to stay so.
    fn are_cuts_kept(&self) -> bool {
        false
    }

    /// Returns true if another caller has claimed some addresses of a span.
    #[inline(always)]
    fn is_claimed(&self, span: Span) -> bool {
        _ = span;
        false
    }

    /// Looks for what others have left or claimed in a span of one gigabyte, in a hold. Invalidates what is pending there, unless the
    /// caller leaves its own invalidations `later` as well. Returns false if the span takes the long form.
    #[inline(always)]
    fn is_free(&self, to: &impl Issuer, later: bool, span: Span) -> bool {
        _ = (to, later, span);
        true
    }

    /// Returns true if invalidations of a span are pending.
    fn is_pending(&self, span: Span) -> bool {
        _ = span;
        false
    }

    /// Invalidates what is pending in a span, as far as it is covered.
    #[inline(always)]
    fn settle(&self, to: &impl Issuer, span: Span) {
        _ = (to, span);
    }

    /// Notes that the invalidation of a range is left to a later flush.
    fn leave(&self, range: Invalidated) {
        _ = range;
    }

    /// Notes that translations of a span change in this hold.
    #[inline(always)]
    fn mark(&self, span: Span) {
        _ = span;
    }

    /// Returns what it takes to [mark](Self::mark) a span.
    fn for_mark(&self, span: Span) -> Cover {
        _ = span;
        Cover::NOTHING
    }

    /// Checks that walkers see the tables that the holder has reached.
    ///
    /// # Errors
    ///
    /// It takes more.
    #[inline(always)]
    fn sees_published(&self) -> Result<(), Needs> {
        Ok(())
    }

    /// Publishes tables above a gigabyte in the place of holes, by `stores`, which end with a barrier.
    fn publish_upper(&self, stores: impl FnOnce()) {
        stores();
    }

    /// Notes the first address of an empty table that stays where it is, or that there is none. Returns what was noted before.
    fn leave_empty(&self, first: Option<u64>) -> Option<u64> {
        _ = first;
        None
    }

    /// Returns the counts that the holder may change, if anybody counts.
    #[inline(always)]
    fn counters(&self) -> Option<&Counters> {
        None
    }

    /// Counts a parking.
    fn parked(&self) {}

    /// Returns the reason by which changes of size are counted, if anybody counts.
    #[inline(always)]
    fn reason(&self) -> Reason {
        Reason::NONE
    }

    /// Counts what a change of size has cost, for its reason.
    fn cost(&self, cost: SplitCost) {
        _ = cost;
    }

    /// Waits a moment for another caller. Outside a hold. Returns false if this context cannot wait.
    fn wait(platform: &Self::Platform) -> bool {
        _ = platform;
        false
    }

    /// Runs `work`, which reads the tables. Those that it finds are not given back before it returns.
    #[inline(always)]
    fn read<R>(platform: &Self::Platform, work: impl FnOnce() -> R) -> R {
        _ = platform;
        work()
    }

    /// Gives a page that was a live table back after the readers that may have found it.
    #[inline]
    fn retire(platform: &Self::Platform, frame: Frame) {
        platform.give(frame);
    }
}

/// A form of an address space: [`Alone`] has one caller at a time, [`Hold`](crate::Hold) many.
#[expect(private_bounds, reason = "what a guard answers is for this crate")]
pub trait Form: Guard {}

impl<P: Memory + Hardware> Form for Alone<'_, P> {}

/// The form of [`Live`](crate::Live) for the only caller: nothing keeps others away, since the borrow does.
pub struct Alone<'a, P> {
    tables: &'a Tables,
    platform: PhantomData<P>,
}

impl<P> Clone for Alone<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Alone<'_, P> {}

impl<'a, P: Memory + Hardware> Guard for Alone<'a, P> {
    type Platform = P;
    type Owner = &'a Tables;
    type Claim = ();
    type KeptCuts = ();
    type Held<'h>
        = ()
    where
        Self: 'h;

    fn new(tables: &'a Tables) -> Self {
        Self { tables, platform: PhantomData }
    }

    fn tables_of<'t>(tables: &'t &'a Tables) -> &'t Tables {
        tables
    }

    fn tables(&self) -> &Tables {
        self.tables
    }

    /// Invalidates all of the span, as nobody has noted what is pending.
    fn flush<I: Issuer>(tables: &'a Tables, _: &P, span: Span, issuer: impl Fn(Cover) -> I) {
        let mut batch = TlbBatch::new();
        batch.add(span.first, span.last, tables.geometry().page_shift());
        batch.finish(&issuer(Cover::NOTHING));
    }

    #[inline(always)]
    fn for_stores(_: Span) -> Cover {
        Cover::NOTHING
    }

    #[inline(always)]
    fn for_one(_: u64) -> Cover {
        Cover::NOTHING
    }

    #[inline(always)]
    fn with(self, _: Cover) -> Self {
        self
    }

    #[inline(always)]
    fn begin<'h>(&'h self, _: &'h P) {}

    #[inline(always)]
    fn cover(&self) -> Cover {
        Cover::NOTHING
    }

    #[inline(always)]
    fn hold<R>(&self, _: &P, work: impl FnOnce() -> R) -> R {
        work()
    }

    #[inline(always)]
    fn claim(&self, _: &P, _: impl Iterator<Item = Span> + Clone) -> Result<(), Claimed> {
        Ok(())
    }

    fn owning(self, (): &()) -> Self {
        self
    }

    fn keeps_cuts(&self) {}
}
