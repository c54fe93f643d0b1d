//! Claims: ranges that long operations have to themselves, although they let go of all locks now and then.
//!
//! A claim is written under the first lock. Then its owner takes and drops each lock of the range once. Callers that were
//! inside have left by then, and a caller that takes one of these locks later sees the claim. So a short operation takes
//! its lock first and looks for claims afterwards: to look before would race with a claim that is being written.

use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicBool, AtomicU64};

use crate::format::Span;
use crate::live::begun::Begun;
use crate::live::lock_set::LockSet;
use crate::platform::{Hardware, with_locks};

/// The claims on a map.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Claims {
    slots: [Slot; Self::ROOM],
    begun: Begun,
}

#[derive(Debug)]
struct Slot {
    taken: AtomicBool,
    first: AtomicU64,
    last: AtomicU64,
}

impl Slot {
    const fn free() -> Self {
        Self { taken: AtomicBool::new(false), first: AtomicU64::new(0), last: AtomicU64::new(0) }
    }
}

/// The reasons to look further in a hold: the number of claims, a repaint under way, and the number of locks with pending
/// invalidations.
///
/// Every operation reads it, and hardly any writes it.
#[derive(Debug)]
pub(crate) struct Attention(AtomicU64);

impl Attention {
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

/// Another claim overlaps, or there are too many.
pub(crate) struct Claimed;

/// Ranges that belong to one caller until this is dropped.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    attention: &'a Attention,
    /// The set of their slots, as bits.
    slots: u32,
}

impl Claims {
    /// If there are more, callers wait as they do for a range that is claimed.
    const ROOM: usize = 16;

    pub(crate) const fn new() -> Self {
        Self { slots: [const { Slot::free() }; Self::ROOM], begun: Begun::never() }
    }

    /// Claims ranges, all of them or none, so that nobody has one and waits for another. They may overlap. On return no other
    /// caller works on them, and none begins to until the claim is dropped.
    ///
    /// # Errors
    ///
    /// Another claim is in the way. Nothing has changed.
    pub(crate) fn claim<'a, H: Hardware>(
        &'a self,
        attention: &'a Attention,
        hardware: &H,
        spans: &[Span],
    ) -> Result<Claim<'a>, Claimed> {
        let slots = with_locks(hardware, 1, || self.write(attention, spans))?;
        let claim = Claim { claims: self, attention, slots };
        let locks = spans.iter().map(|&span| LockSet::of::<H>(span)).reduce(LockSet::and);
        for number in locks.into_iter().flat_map(LockSet::numbers) {
            drop(hardware.lock(number));
        }
        Ok(claim)
    }

    /// Writes claims. The caller holds the first lock, under which all claims are written.
    fn write(&self, attention: &Attention, spans: &[Span]) -> Result<u32, Claimed> {
        let free = || self.slots.iter().enumerate().filter(|(_, slot)| !slot.taken.load(Acquire));
        if free().count() < spans.len() || spans.iter().any(|&span| self.overlap(span, 0)) {
            return Err(Claimed);
        }
        let mut slots = 0;
        for (span, (n, slot)) in spans.iter().zip(free()) {
            // Who reads a part of this claim and a part of the one before knows that that one is over.
            slot.first.store(span.first, Release);
            slot.last.store(span.last, Release);
            slot.taken.store(true, Release);
            slots |= 1 << n;
        }
        attention.0.fetch_add(spans.len() as u64, Relaxed);
        self.begun.another();
        Ok(slots)
    }

    /// Looks at a range without a lock. Returns what was found, and whether the range may have been claimed then. If not, the look
    /// has found all that was stored under claims of it, and the last of them was over.
    pub(crate) fn beside<T>(&self, span: Span, look: impl FnOnce() -> T) -> (T, bool) {
        self.begun.look(|| self.overlap(span, 0), look)
    }

    /// Returns true if a range overlaps a claim other than the caller's own, which are bits of a set. The caller holds a lock
    /// of the range, or finds out otherwise whether a claim has begun meanwhile.
    pub(crate) fn overlap(&self, span: Span, own: u32) -> bool {
        self.slots.iter().enumerate().any(|(n, slot)| {
            own >> n & 1 == 0
                && slot.taken.load(Acquire)
                && slot.first.load(Relaxed) <= span.last
                && span.first <= slot.last.load(Relaxed)
        })
    }
}

impl Claim<'_> {
    /// Returns the set of its ranges, by which their owner is told from others.
    pub(crate) const fn bits(&self) -> u32 {
        self.slots
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        for (_, slot) in self.claims.slots.iter().enumerate().filter(|(n, _)| self.slots >> n & 1 != 0) {
            slot.taken.store(false, Release);
        }
        self.attention.0.fetch_sub(u64::from(self.slots.count_ones()), Release);
    }
}
