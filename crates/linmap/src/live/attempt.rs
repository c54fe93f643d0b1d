//! Operations as attempts. An attempt holds the locks of its addresses and works with the table pages that it was handed.
//! If it finds that it needs more, it stores nothing and says so; then all locks are dropped, what it needs is
//! provided, and it is tried again. So nothing is allocated and no CPU is waited for under a lock.

use crate::build::OutOfFrames;
use crate::format::{Span, Va};
use crate::live::claims::{Claim, Claimed};
use crate::live::error::ChangeError;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::live::stop::{Needs, Stop};
use crate::platform::Platform;

/// A call of an operation: everything that its attempts have in common.
pub(crate) struct Call<'a, P: Platform> {
    pub(crate) state: &'a MapState,
    pub(crate) platform: &'a P,
    /// The claim under which it works, if it is long. It goes before the table pages: an allocator may change the map.
    claim: Option<Claim<'a>>,
    /// The table pages of all attempts. Those that are left are given back at the end.
    pub(crate) reserve: Reserve<'a, P>,
    /// True if the CPUs have answered since the operation began.
    answered: bool,
    /// True if invalidations are left to a flush.
    later: bool,
    /// True if claims of others do not count.
    regardless: bool,
}

impl<'a, P: Platform> Call<'a, P> {
    pub(crate) const fn new(state: &'a MapState, platform: &'a P) -> Self {
        Self::of(state, platform, false)
    }

    /// Returns a call that leaves its invalidations to a flush if `later`.
    pub(crate) const fn of(state: &'a MapState, platform: &'a P, later: bool) -> Self {
        Self {
            state,
            platform,
            reserve: Reserve::new(platform),
            claim: None,
            answered: false,
            later,
            regardless: false,
        }
    }

    /// Returns true if invalidations are left to a flush.
    pub(crate) const fn is_later(&self) -> bool {
        self.later
    }

    /// Goes on regardless of claims. Its addresses are those of memory that the caller has to itself, so another caller who has
    /// claimed some of them changes memory of others.
    pub(crate) const fn regardless(&mut self) {
        self.regardless = true;
    }

    /// Lets go of the claim.
    pub(crate) fn unclaim(&mut self) {
        self.claim = None;
    }

    /// Tries until it is done or refused. Others must not have claimed anything of `span`; what is pending there is
    /// invalidated first, unless this call leaves its own invalidations to a flush as well. Returns `None` if it is too long
    /// for one hold; nothing has been stored then.
    ///
    /// # Errors
    ///
    /// The operation is refused.
    pub(crate) fn attempts<R>(
        &mut self,
        span: Span,
        attempt: impl FnMut(&Locked<'_, P>) -> Result<R, Stop>,
    ) -> Result<Option<R>, ChangeError> {
        self.attempts_with(LockSet::of::<P>(span), core::iter::once(span), attempt)
    }

    /// Tries until it is done or refused, with these locks from the start. It neither waits for claims of others nor invalidates what is
    /// pending: the attempt itself leaves out what has to stay as it is.
    ///
    /// # Errors
    ///
    /// The operation is refused.
    pub(crate) fn looks(
        &mut self,
        locks: LockSet,
        span: Span,
        attempt: impl FnMut(&Locked<'_, P>) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        self.tries(locks, span, attempt).map(|_| ())
    }

    /// Tries as [`attempts`](Self::attempts) does, for several spans, with these locks from the start. What is claimed or pending
    /// between the spans does not count.
    pub(crate) fn attempts_with<R>(
        &mut self,
        locks: LockSet,
        spans: impl Iterator<Item = Span> + Clone,
        mut attempt: impl FnMut(&Locked<'_, P>) -> Result<R, Stop>,
    ) -> Result<Option<R>, ChangeError> {
        let (later, Some(first)) = (self.is_later(), spans.clone().next()) else { return Ok(None) };
        // Who has a claim waits for nobody: what he changes is his.
        let waits = self.claim.is_none();
        self.tries(locks, first, |locked| {
            for span in spans.clone() {
                if waits && locked.is_claimed(span) {
                    return Err(Needs::Patience.into());
                }
                if !later {
                    locked.settle(span);
                }
            }
            attempt(locked)
        })
    }

    /// Tries as [`attempts`](Self::attempts) does, with the locks of the two ends of a span from the start: for an attempt that
    /// changes only the leaves there.
    pub(crate) fn attempts_at_ends(
        &mut self,
        span: Span,
        attempt: impl FnMut(&Locked<'_, P>) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        let end = |va| LockSet::of::<P>(Span { first: va, last: va });
        let locks = end(span.first).and(end(span.last));
        self.attempts_with(locks, core::iter::once(span), attempt).map(|_| ())
    }

    fn tries<R>(
        &mut self,
        mut locks: LockSet,
        span: Span,
        mut attempt: impl FnMut(&Locked<'_, P>) -> Result<R, Stop>,
    ) -> Result<Option<R>, ChangeError> {
        loop {
            // The policy is read under the locks: a repaint that has switched by then has made it another.
            match self.locked(locks).hold(|| attempt(&self.locked(locks))) {
                Ok(done) => return Ok(Some(done)),
                Err(Stop::TooLong) => return Ok(None),
                Err(Stop::Refused(error)) => return Err(error),
                Err(Stop::Needs(Needs::Locks(others))) => locks = locks.and(others),
                Err(Stop::Needs(needs)) => self.provide(needs, span)?,
            }
        }
    }

    /// Returns the view of a holder of these locks.
    pub(crate) fn locked(&self, locks: LockSet) -> Locked<'_, P> {
        Locked {
            platform: self.platform,
            geometry: self.state.geometry(),
            state: self.state,
            locks,
            reserve: &self.reserve,
            policy: self.state.policy(),
            own: if self.regardless { u64::MAX } else { self.claim.as_ref().map_or(0, Claim::bits) },
            answered: self.answered,
        }
    }

    /// Provides what an attempt needs. No lock is held.
    #[cold]
    fn provide(&mut self, needs: Needs, span: Span) -> Result<(), ChangeError> {
        match needs {
            Needs::Frames(least) => self.frames(least)?,
            Needs::MoreFrames { least, wish } => {
                self.frames(least)?;
                // Fewer will do for another attempt.
                _ = self.frames(wish);
            }
            Needs::Answers => {
                self.platform.call()?;
                self.answered = true;
            }
            Needs::Patience => self.wait(span)?,
            Needs::Locks(_) => {}
        }
        Ok(())
    }

    /// Takes table pages, so that at least so many are there.
    ///
    /// # Errors
    ///
    /// There are not that many.
    pub(crate) fn frames(&self, least: u64) -> Result<(), ChangeError> {
        self.reserve.fill(least).map_err(|OutOfFrames(taken)| ChangeError::OutOfFrames { taken })
    }

    /// Claims a range, after all claims in the way have gone.
    ///
    /// # Errors
    ///
    /// There is one, and this context cannot wait.
    pub(crate) fn claim(&mut self, span: Span) -> Result<(), ChangeError> {
        // An allocator that changes the map could not do so in the claimed range. Fewer pages may do.
        _ = self.frames(self.state.most_tables());
        self.claim_all([span].into_iter())
    }

    /// Claims ranges together, the operation's own first, after all claims in the way have gone: at most
    /// [`TOGETHER`](super::claims::TOGETHER). They may overlap. The call has none yet: who has one does not wait for another.
    ///
    /// # Errors
    ///
    /// There is one, and this context cannot wait.
    pub(crate) fn claim_all(&mut self, spans: impl Iterator<Item = Span> + Clone) -> Result<(), ChangeError> {
        loop {
            match self.state.claims.claim(&self.state.attention, self.platform, spans.clone()) {
                Ok(claim) => {
                    self.claim = Some(claim);
                    return Ok(());
                }
                Err(Claimed) => spans.clone().next().map_or(Ok(()), |span| self.wait(span))?,
            }
        }
    }

    fn wait(&self, span: Span) -> Result<(), ChangeError> {
        if self.platform.wait() { Ok(()) } else { Err(ChangeError::Busy { va: Va(span.first) }) }
    }
}
