//! Claims: ranges that long operations have to themselves, although they let go of all locks now and then.
//!
//! A claim is written under the first lock. Then its owner takes and drops each lock of the range once. Callers that were
//! inside have left by then, and a caller that takes one of these locks later sees the claim. So a short operation takes
//! its lock first and looks for claims afterwards: to look before would race with a claim that is being written.
//!
//! A claim has the ranges that its operation names, and no address between them: others have pages there whose changes
//! cannot fail.

use crate::edit::{Claimed, Cover, TOGETHER};
use crate::platform::atomic::AtomicU64;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::format::Span;
use crate::platform::{Sharing, with_locks};
use crate::share::begun::Begun;

/// The claims on a map.
#[derive(Debug)]
pub(crate) struct Claims<const LOCKS: usize> {
    /// The slots that are in use, as bits.
    taken: AtomicU64,
    begun: Begun,
    slots: [Slot; TOGETHER],
    /// One more for each lock.
    more: [Slot; LOCKS],
}

/// A range that is claimed: the first and the last address.
#[derive(Debug)]
struct Slot {
    first: AtomicU64,
    last: AtomicU64,
}

impl Slot {
    const fn free() -> Self {
        Self { first: AtomicU64::new(0), last: AtomicU64::new(0) }
    }
}

/// The reasons to look further in a hold: the number of claimed ranges, the number of operations whose cuts stay, a repaint
/// under way, and the number of locks with pending invalidations.
///
/// Every operation reads it, and hardly any writes it.
#[derive(Debug)]
pub(crate) struct Attention(AtomicU64);

impl Attention {
    const ONE_CUTTER: u64 = 1 << 16;
    const REPAINT: u64 = 1 << 32;
    const ONE_PENDING: u64 = 1 << 33;

    pub(crate) const fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns true if there is any. The caller holds a lock.
    #[inline(always)]
    pub(crate) fn is_needed(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Returns true if there is any besides pending invalidations. The caller holds a lock.
    #[inline(always)]
    pub(crate) fn is_needed_for_more(&self) -> bool {
        self.0.load(Relaxed) & (Self::ONE_PENDING - 1) != 0
    }

    /// Returns true if invalidations are pending.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        self.0.load(Relaxed) >= Self::ONE_PENDING
    }

    /// Says that a lock has pending invalidations. The caller holds it.
    pub(crate) fn pending_begins(&self) {
        self.0.fetch_add(Self::ONE_PENDING, Relaxed);
    }

    /// Says that so many locks have none any more, whose invalidations are complete. The caller holds them.
    pub(crate) fn pending_ends(&self, locks: u64) {
        self.0.fetch_sub(locks * Self::ONE_PENDING, Release);
    }

    /// From here on, until this is dropped, nobody merges leaves: an operation cuts what it changes later.
    pub(crate) fn keeps_cuts(&self) -> KeptCuts<'_> {
        self.0.fetch_add(Self::ONE_CUTTER, Relaxed);
        KeptCuts(self)
    }

    /// Returns true if leaves that were cut have to stay so. The caller holds a lock of what it would merge, so that the cutter
    /// has said so before, or cuts after it.
    pub(crate) fn are_cuts_kept(&self) -> bool {
        self.0.load(Relaxed) & (Self::REPAINT - Self::ONE_CUTTER) != 0
    }

    /// Returns true if a repaint is under way.
    pub(crate) fn is_repaint(&self) -> bool {
        self.0.load(Relaxed) & Self::REPAINT != 0
    }

    /// Begins a repaint. Returns false if one is under way already. What the last one stored comes before.
    pub(crate) fn repaint_begins(&self) -> bool {
        self.0.fetch_or(Self::REPAINT, Acquire) & Self::REPAINT == 0
    }

    pub(crate) fn repaint_ends(&self) {
        self.0.fetch_and(!Self::REPAINT, Release);
    }
}

/// An operation whose cuts stay until it ends.
pub(crate) struct KeptCuts<'a>(&'a Attention);

impl Drop for KeptCuts<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(Attention::ONE_CUTTER, Release);
    }
}

/// Ranges that belong to one caller until this is dropped.
pub(crate) struct Claim<'a> {
    taken: &'a AtomicU64,
    attention: &'a Attention,
    /// The set of their slots, as bits.
    slots: u64,
}

impl<const LOCKS: usize> Claims<LOCKS> {
    pub(crate) const fn new() -> Self {
        Self {
            taken: AtomicU64::new(0),
            begun: Begun::never(),
            slots: [const { Slot::free() }; TOGETHER],
            more: [const { Slot::free() }; LOCKS],
        }
    }

    /// Returns the slots, at most 64. A caller who finds none free waits, as for a range that is claimed.
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().chain(&self.more).take(64)
    }

    /// Claims at most [`TOGETHER`](crate::edit::TOGETHER) ranges, all of them or none, so that nobody has one and waits for another. They may overlap.
    /// On return no other caller works on them, and none begins to until the claim is dropped.
    ///
    /// # Errors
    ///
    /// Another claim is in the way. Nothing has changed.
    pub(crate) fn claim<'a, S: Sharing>(
        &'a self,
        attention: &'a Attention,
        sharing: &S,
        spans: impl Iterator<Item = Span> + Clone,
    ) -> Result<Claim<'a>, Claimed> {
        let slots = with_locks(sharing, 1, || self.write(attention, spans.clone()))?;
        let claim = Claim { taken: &self.taken, attention, slots };
        let locks = spans.map(Cover::of::<S>).reduce(Cover::and);
        for number in locks.into_iter().flat_map(Cover::numbers) {
            drop(sharing.lock(number));
        }
        Ok(claim)
    }

    /// Writes claims. The caller holds the first lock, under which all claims are written.
    fn write(
        &self,
        attention: &Attention,
        spans: impl Iterator<Item = Span> + Clone,
    ) -> Result<u64, Claimed> {
        let taken = self.taken.load(Acquire);
        let is_free = |&(number, _): &(u32, &Slot)| taken >> number & 1 == 0;
        let free = || (0..).zip(self.slots()).filter(is_free);
        if spans.clone().count() > free().count() || spans.clone().any(|span| self.overlap(span, 0)) {
            return Err(Claimed);
        }
        let mut slots = 0;
        for (span, (number, slot)) in spans.zip(free()) {
            // Who reads a part of this claim and a part of the one before knows that that one is over.
            slot.first.store(span.first, Release);
            slot.last.store(span.last, Release);
            slots |= 1 << number;
        }
        self.taken.fetch_or(slots, Release);
        attention.0.fetch_add(u64::from(slots.count_ones()), Relaxed);
        self.begun.another();
        Ok(slots)
    }

    /// Looks at a range without a lock. Returns what was found, and whether the range may have been claimed then, or an operation
    /// whose cuts stay have been under way. If not, the look has found all that was stored under claims of it, and the last of
    /// them was over.
    pub(crate) fn beside<T>(&self, attention: &Attention, span: Span, look: impl FnOnce() -> T) -> (T, bool) {
        self.begun.look(|| self.overlap(span, 0) || attention.are_cuts_kept(), look)
    }

    /// Returns true if a range overlaps a claim other than the caller's own, which are bits of a set. The caller holds a lock
    /// of the range, or finds out otherwise whether a claim has begun meanwhile.
    pub(crate) fn overlap(&self, span: Span, own: u64) -> bool {
        let others = self.taken.load(Acquire) & !own;
        let is_taken = |&(number, _): &(u32, &Slot)| others >> number & 1 != 0;
        others != 0
            && (0..).zip(self.slots()).filter(is_taken).any(|(_, slot)| {
                slot.first.load(Relaxed) <= span.last && span.first <= slot.last.load(Relaxed)
            })
    }
}

impl Claim<'_> {
    /// Returns the set of its ranges, by which their owner is told from others.
    pub(crate) const fn bits(&self) -> u64 {
        self.slots
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.taken.fetch_and(!self.slots, Release);
        self.attention.0.fetch_sub(u64::from(self.slots.count_ones()), Release);
    }
}
