//! Callers, and their operations as attempts. An attempt covers its addresses by a guard and works with the table pages that it was handed.
//! If it finds that it needs more, it stores nothing and says so; then the hold ends, what it needs is
//! provided, and it is tried again. So nothing is allocated and no CPU is waited for in a hold.

use core::iter::once;

use crate::build::OutOfFrames;
use crate::edit::cover::{Claimed, Cover};
use crate::edit::editor::Editor;
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::reserve::Reserve;
use crate::edit::stop::{Needs, Stop};
use crate::edit::tables::Tables;
use crate::format::{Span, Va};
use crate::plan::Policy;
use crate::platform::Hardware;

/// A caller of operations: the platform, and whose the tables are.
pub(crate) struct Caller<'a, G: Guard> {
    pub(crate) platform: &'a G::Platform,
    pub(crate) owner: G::Owner,
}

impl<G: Guard> Clone for Caller<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G: Guard> Copy for Caller<'_, G> {}

impl<'a, G: Guard> Caller<'a, G> {
    /// Returns what is known of the tables.
    #[inline(always)]
    pub(crate) fn tables(&self) -> &Tables {
        G::tables_of(&self.owner)
    }

    /// Returns the view of tables for a hold with this cover, which does not ask for the policy.
    #[inline(always)]
    pub(crate) fn editor(&self, cover: Cover, reserve: &'a Reserve<'a, G::Platform>) -> Editor<'a, G> {
        let (guard, geometry) = (G::new(self.owner).with(cover), self.tables().geometry());
        let policy = Policy::Fixed;
        Editor { platform: self.platform, geometry, guard, reserve, policy, answered: false }
    }
}

/// A call of an operation: everything that its attempts have in common.
pub(crate) struct Call<'a, G: Guard> {
    pub(crate) platform: &'a G::Platform,
    pub(crate) guard: G,
    /// The claim under which it works, if it is long. It goes before the table pages: an allocator may change the map.
    claim: Option<G::Claim>,
    /// The table pages of all attempts. Those that are left are given back at the end.
    pub(crate) reserve: Reserve<'a, G::Platform>,
    /// True if the CPUs have answered since the operation began.
    answered: bool,
    /// True if invalidations are left to a flush.
    later: bool,
}

impl<'a, G: Guard> Call<'a, G> {
    pub(crate) fn new(caller: Caller<'a, G>) -> Self {
        Self::of(caller, false)
    }

    /// Returns a call that leaves its invalidations to a flush if `later`.
    pub(crate) fn of(caller: Caller<'a, G>, later: bool) -> Self {
        let (guard, reserve) = (G::new(caller.owner), Reserve::new(caller.platform));
        Self { platform: caller.platform, guard, claim: None, reserve, answered: false, later }
    }

    /// Returns what is known of the tables.
    pub(crate) fn tables(&self) -> &Tables {
        self.guard.tables()
    }

    /// Returns true if invalidations are left to a flush.
    pub(crate) const fn is_later(&self) -> bool {
        self.later
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
        attempt: impl FnMut(&Editor<'_, G>) -> Result<R, Stop>,
    ) -> Result<Option<R>, ChangeError> {
        self.attempts_with(G::for_stores(span), once(span), attempt)
    }

    /// Tries until it is done or refused, with this cover from the start. It neither waits for claims of others nor invalidates what is
    /// pending: the attempt itself leaves out what has to stay as it is.
    ///
    /// # Errors
    ///
    /// The operation is refused.
    pub(crate) fn looks(
        &mut self,
        cover: Cover,
        span: Span,
        attempt: impl FnMut(&Editor<'_, G>) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        self.tries(cover, span, attempt).map(|_| ())
    }

    /// Tries as [`attempts`](Self::attempts) does, for several spans, with this cover from the start. What is claimed or pending
    /// between the spans does not count.
    pub(crate) fn attempts_with<R>(
        &mut self,
        cover: Cover,
        spans: impl Iterator<Item = Span> + Clone,
        mut attempt: impl FnMut(&Editor<'_, G>) -> Result<R, Stop>,
    ) -> Result<Option<R>, ChangeError> {
        let (later, Some(first)) = (self.is_later(), spans.clone().next()) else { return Ok(None) };
        // Who has a claim waits for nobody: what he changes is his, by whatever address.
        let waits = self.claim.is_none();
        self.tries(cover, first, |editor| {
            for span in spans.clone() {
                if waits && editor.guard.is_claimed(span) {
                    return Err(Needs::Patience.into());
                }
                if !later {
                    editor.guard.settle(editor, span);
                }
            }
            attempt(editor)
        })
    }

    /// Tries as [`attempts`](Self::attempts) does, covering the two ends of a span from the start: for an attempt that
    /// changes only the leaves there.
    pub(crate) fn attempts_at_ends(
        &mut self,
        span: Span,
        attempt: impl FnMut(&Editor<'_, G>) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        let end = |va| G::for_stores(Span { first: va, last: va });
        let cover = end(span.first).and(end(span.last));
        self.attempts_with(cover, once(span), attempt).map(|_| ())
    }

    fn tries<R>(
        &mut self,
        mut cover: Cover,
        span: Span,
        mut attempt: impl FnMut(&Editor<'_, G>) -> Result<R, Stop>,
    ) -> Result<Option<R>, ChangeError> {
        loop {
            // The policy is read in the hold: a repaint that has switched by then has made it another.
            match self.guard.with(cover).hold(self.platform, || attempt(&self.editor(cover))) {
                Ok(done) => return Ok(Some(done)),
                Err(Stop::TooLong) => return Ok(None),
                Err(Stop::Refused(error)) => return Err(error),
                Err(Stop::Needs(Needs::Cover(more))) => cover = cover.and(more),
                Err(Stop::Needs(needs)) => self.provide(needs, span)?,
            }
        }
    }

    /// Returns the view of tables for a hold with this cover.
    pub(crate) fn editor(&self, cover: Cover) -> Editor<'_, G> {
        let &Self { platform, guard, ref claim, ref reserve, answered, .. } = self;
        let tables = self.tables();
        let guard = claim.as_ref().map_or(guard, |claim| guard.owning(claim)).with(cover);
        Editor { platform, geometry: tables.geometry(), guard, reserve, policy: tables.policy(), answered }
    }

    /// Provides what an attempt needs. Outside a hold.
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
            Needs::Cover(_) => {}
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
        _ = self.frames(self.tables().most_tables());
        self.claim_all(once(span))
    }

    /// Claims ranges together, the operation's own first, after all claims in the way have gone: at most
    /// [`TOGETHER`](crate::edit::TOGETHER). They may overlap. The call has none yet: who has one does not wait for another.
    ///
    /// # Errors
    ///
    /// There is one, and this context cannot wait.
    pub(crate) fn claim_all(&mut self, spans: impl Iterator<Item = Span> + Clone) -> Result<(), ChangeError> {
        loop {
            match self.guard.claim(self.platform, spans.clone()) {
                Ok(claim) => {
                    self.claim = Some(claim);
                    return Ok(());
                }
                Err(Claimed) => spans.clone().next().map_or(Ok(()), |span| self.wait(span))?,
            }
        }
    }

    fn wait(&self, span: Span) -> Result<(), ChangeError> {
        if G::wait(self.platform) { Ok(()) } else { Err(ChangeError::Busy { va: Va(span.first) }) }
    }
}
