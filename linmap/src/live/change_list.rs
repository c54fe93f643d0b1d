//! Changes pages that are listed one by one, in any order. Pages that follow each other in the list are one range.
//!
//! All ranges change in one hold of all their locks. If these are more pages than a hold may have entries, or ways down to
//! too many ranges, it is under one claim from the lowest to the highest page. If a leaf would have to be cut, nothing is
//! stored; the leaves are cut first, range by range and without a claim, since that takes table pages and changes no
//! translation. Then it is tried again.

use crate::format::{LeafChange, Span, Va};
use crate::live::attempt::Call;
use crate::live::ends::Ends;
use crate::live::error::ChangeError;
use crate::live::in_place::InPlace;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::stop::Stop;
use crate::live::survey::{Survey, Surveyor};
use crate::live::tlb_batch::TlbBatch;
use crate::platform::Platform;

/// The ranges of a list of pages: each as long as pages follow each other.
#[derive(Clone)]
pub(crate) struct Ranges<'s, I> {
    state: &'s MapState,
    pages: I,
    /// The page after the last range, if it is known.
    next: Option<Va>,
}

impl<'s, I: Iterator<Item = Va> + Clone> Ranges<'s, I> {
    pub(crate) const fn of(state: &'s MapState, pages: I) -> Self {
        Self { state, pages, next: None }
    }
}

impl<I: Iterator<Item = Va> + Clone> Iterator for Ranges<'_, I> {
    /// An error for pages that are unaligned or outside the half.
    type Item = Result<Span, ChangeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let first = self.next.take().or_else(|| self.pages.next())?;
        let page = self.state.geometry().page_size();
        let mut end = first.0.wrapping_add(page);
        for va in self.pages.by_ref() {
            if va.0 != end {
                self.next = Some(va);
                break;
            }
            end = end.wrapping_add(page);
        }
        let pages = end.wrapping_sub(first.0) >> page.trailing_zeros();
        self.state.span(first, pages).transpose()
    }
}

/// A change of several ranges.
pub(crate) struct ListChange<I> {
    change: LeafChange,
    ranges: I,
    /// From the lowest page to the highest.
    hull: Span,
    locks: LockSet,
    /// The number of bytes in all of them.
    bytes: u64,
}

/// The number of entries of a hold that a way down to a range counts as.
const WALK: usize = 15;

/// The outcome of an attempt.
enum Tried {
    Done,
    /// Nothing has been stored: some leaves have to be cut first.
    Cut,
}

impl<I: Iterator<Item = Span> + Clone> ListChange<I> {
    /// Returns the change of these ranges.
    pub(crate) fn of<P: Platform>(change: LeafChange, ranges: I, first: Span) -> Self {
        let (mut hull, mut locks, mut bytes) = (first, LockSet::of::<P>(first), 0_u64);
        for span in ranges.clone() {
            bytes = bytes.saturating_add(span.last - span.first + 1);
            hull = Span { first: hull.first.min(span.first), last: hull.last.max(span.last) };
            locks = locks.and(LockSet::of::<P>(span));
        }
        Self { change, ranges, hull, locks, bytes }
    }

    /// Changes all leaves of the ranges, or none.
    ///
    /// # Errors
    ///
    /// As for a change of one range. Leaves may have been cut.
    #[inline(never)]
    pub(crate) fn run<P: Platform>(
        &self,
        state: &MapState,
        platform: &P,
        later: bool,
    ) -> Result<(), ChangeError> {
        let mut call = Call::of(state, platform, later);
        loop {
            let tried = match self.short(&mut call)? {
                Some(tried) => tried,
                None => self.long(&mut call)?,
            };
            match tried {
                Tried::Done => return Ok(()),
                Tried::Cut => self.cut(&mut call)?,
            }
        }
    }

    /// Tries in one hold. Returns `None` if it takes several.
    fn short<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<Option<Tried>, ChangeError> {
        // The list is read in the hold, also where many of its pages are one leaf.
        if self.bytes >> call.state.geometry().page_shift() > P::HOLD as u64 {
            return Ok(None);
        }
        let later = call.is_later();
        call.attempts_with(self.locks, self.hull, |locked| {
            let (mut survey, mut left) = (Survey::default(), P::HOLD);
            for span in self.ranges.clone() {
                left = left.checked_sub(WALK).ok_or(Stop::TooLong)?;
                survey.include(&self.survey(locked, span, (span, &mut left))?);
            }
            if survey.splits {
                return Ok(Tried::Cut);
            }
            let mut batch = TlbBatch::of(later);
            for span in self.ranges.clone() {
                locked.mark(span);
                self.in_place(locked, span, &mut batch);
            }
            if survey.changes() {
                batch.finish(locked);
            }
            Ok(Tried::Done)
        })
    }

    /// Does the same for many entries, under a claim.
    #[cold]
    fn long<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<Tried, ChangeError> {
        // No table pages: nothing is cut under the claim.
        call.claim_all(&[self.hull])?;
        let mut survey = Survey::default();
        for span in self.ranges.clone() {
            call.pieces(span, |locked, piece| {
                survey.include(&self.survey(locked, span, (piece, &mut { usize::MAX }))?);
                Ok(())
            })?;
        }
        if !survey.splits && survey.changes() {
            let mut batch = TlbBatch::of(call.is_later());
            for span in self.ranges.clone() {
                call.pieces(span, |locked, piece| {
                    self.in_place(locked, piece, &mut batch);
                    locked.publish_barrier();
                    Ok(())
                })?;
            }
            call.last_hold(self.hull, |locked| batch.finish(locked))?;
        }
        call.unclaim();
        Ok(if survey.splits { Tried::Cut } else { Tried::Done })
    }

    /// Surveys a piece of a range, and subtracts its entries from those that are left.
    fn survey<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        span: Span,
        (piece, left): (Span, &mut usize),
    ) -> Result<Survey, Stop> {
        let table = locked.deepest(locked.root(), piece);
        Surveyor::survey_some(locked, &table, (self.change, span), (piece, left))
    }

    /// Changes the leaves of a range, or of a piece of one. What is left to a flush is noted at once, since the batch may
    /// join it with addresses whose locks are not held.
    fn in_place<P: Platform>(&self, locked: &Locked<'_, P>, span: Span, batch: &mut TlbBatch) {
        let table = locked.deepest(locked.root(), span);
        InPlace::new(self.change, false, batch).run(locked, &table, span);
        batch.leave(locked);
    }

    /// Cuts the leaves that contain the ends of the ranges. Translations stay as they are.
    ///
    /// # Errors
    ///
    /// As for a change of one range.
    #[cold]
    fn cut<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<(), ChangeError> {
        for span in self.ranges.clone() {
            let ends = [span.first, span.last].map(|va| Span { first: va, last: va });
            let locks = LockSet::of::<P>(ends[0]).and(LockSet::of::<P>(ends[1]));
            call.attempts_with(locks, span, |locked| {
                let mut found = Survey::default();
                for end in ends {
                    found.include(&self.survey(locked, span, (end, &mut 2))?);
                }
                if found.splits {
                    Ends::cutting(locked, self.change, span).resize(found.resizes, &mut TlbBatch::new())?;
                    // Translations stay, so nothing is invalidated.
                    TlbBatch::new().finish(locked);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
