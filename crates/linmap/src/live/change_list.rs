//! Changes pages that are listed one by one, in any order. Pages that follow each other in the list are one range.
//!
//! All ranges change in one hold of all their locks. If these are more pages than a hold may have entries, or ways down to
//! too many ranges, they change under a claim and piece by piece. If there are more ranges than can be claimed together, they
//! change group by group: as many as are sure to fit into a hold, or, where a range is too long for one, as can be claimed.
//! All groups are surveyed before the first of them changes, so that nothing is refused later.
//!
//! If a leaf would have to be cut, nothing is stored; the leaves are cut first, range by range and without a claim, since that
//! takes table pages and changes no translation. Then it is tried again. Nobody merges them before the change ends.

use crate::format::{LeafChange, Level, Span, Va};
use crate::live::attempt::Call;
use crate::live::claims::{Group, TOGETHER};
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
use crate::read::Table;

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
    /// A page that is unaligned or outside the half is first in its range, or the range ends outside the half.
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        let first = self.next.take().or_else(|| self.pages.next())?.0;
        let page = self.state.geometry().page_size();
        let mut end = first.wrapping_add(page);
        for va in self.pages.by_ref() {
            if va.0 != end {
                self.next = Some(va);
                break;
            }
            end = end.wrapping_add(page);
        }
        Some(Span { first, last: end.wrapping_sub(1) })
    }
}

/// A change of several ranges.
pub(crate) struct ListChange<'s, I> {
    change: LeafChange,
    ranges: Ranges<'s, I>,
    count: usize,
    /// The first range.
    first: Span,
    locks: LockSet,
    /// The number of bytes in all of them.
    bytes: u64,
}

/// The number of entries of a hold that a way down to a range counts as.
const WALK: usize = 15;

/// A pass over all groups of a list.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    /// They are surveyed: nothing is stored if the change of any is refused.
    Look,
    /// Leaves are cut, with translations as they are.
    Cut,
    Change,
}

/// The outcome of an attempt.
#[derive(PartialEq)]
enum Tried {
    Done,
    /// Nothing has been stored: some leaves have to be cut first.
    Cut,
}

/// Returns the locks of some ranges.
#[inline(always)]
fn locks_of<P: Platform>(ranges: impl Iterator<Item = Span>) -> LockSet {
    ranges.map(LockSet::of::<P>).reduce(LockSet::and).unwrap_or(LockSet::one(0))
}

/// The deepest table that translates a range. It is looked for again only for a range that is elsewhere.
struct Way {
    table: Option<Table>,
}

impl Way {
    const fn new() -> Self {
        Self { table: None }
    }

    #[inline(always)]
    fn to<P: Platform>(&mut self, locked: &Locked<'_, P>, span: Span) -> Table {
        match self.table {
            Some(table) if table.span_of_all(locked.geometry).covers(span.first, span.last) => table,
            _ => {
                let table = locked.deepest(locked.root(), span);
                // Below a table that is not of the last level there may be a deeper one for another range.
                self.table = (table.level == Level::PAGE).then_some(table);
                table
            }
        }
    }
}

impl<'s, I: Iterator<Item = Va> + Clone> ListChange<'s, I> {
    /// Returns the change of these ranges, or `None` if there are none.
    ///
    /// # Errors
    ///
    /// A page is unaligned or outside the half.
    pub(crate) fn of<P: Platform>(
        change: LeafChange,
        ranges: Ranges<'s, I>,
    ) -> Result<Option<Self>, ChangeError> {
        let (state, mut refused, mut count, mut bytes) = (ranges.state, Ok(()), 0, 0_u64);
        let Some(first) = ranges.clone().next() else { return Ok(None) };
        let checked = ranges.clone().map_while(|span| {
            let more = span.last.wrapping_sub(span.first).wrapping_add(1);
            let pages = more >> state.geometry().page_shift();
            refused = state.span(Va(span.first), pages).map(|_| ());
            (count, bytes) = (count + 1, bytes.saturating_add(more));
            refused.is_ok().then_some(span)
        });
        let locks = locks_of::<P>(checked);
        refused?;
        Ok(Some(Self { change, ranges, count, first, locks, bytes }))
    }

    /// Returns the range, if there is only one.
    pub(crate) fn only(&self) -> Option<Span> {
        (self.count == 1).then_some(self.first)
    }

    /// Changes all leaves of the ranges, or none.
    ///
    /// # Errors
    ///
    /// As for a change of one range. Leaves may have been cut. If another caller changes what is mapped in several groups of
    /// ranges meanwhile, groups before may have changed.
    #[inline(never)]
    pub(crate) fn run<P: Platform>(
        &self,
        state: &MapState,
        platform: &P,
        later: bool,
    ) -> Result<(), ChangeError> {
        let mut call = Call::of(state, platform, later);
        // The list is read in the hold, also where many of its pages are one leaf.
        let is_short = self.bytes >> state.geometry().page_shift() <= P::HOLD as u64;
        if is_short && self.in_hold(&mut call, self.locks, self.ranges.clone(), Pass::Change)?.is_some() {
            return Ok(());
        }
        self.in_groups(&mut call)
    }

    /// Changes what is too much for one hold: under one claim, or group by group.
    #[cold]
    fn in_groups<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<(), ChangeError> {
        let _kept = call.state.attention.keeps_cuts();
        let several = self.count > TOGETHER;
        let passes: &[Pass] = if several { &[Pass::Look, Pass::Cut, Pass::Change] } else { &[Pass::Change] };
        let mut splits = false;
        for &pass in passes {
            if pass == Pass::Cut && !splits {
                continue;
            }
            let mut ranges = self.ranges.clone();
            loop {
                let count = if several { self.fit::<P>(ranges.clone()) } else { 0 };
                let group = ranges.clone().take(count);
                let locks = locks_of::<P>(group.clone());
                if count > 0
                    && let Some(tried) = self.in_hold(call, locks, group, pass)?
                {
                    splits |= tried == Tried::Cut;
                    ranges.by_ref().take(count).for_each(|_| {});
                    continue;
                }
                let Some(group) = Group::next(&mut ranges) else { break };
                splits |= self.in_pieces(call, &group, pass)? == Tried::Cut;
            }
        }
        Ok(())
    }

    /// Does what a pass does for some ranges in one hold, after what it cuts. Returns `None` if it takes several holds.
    #[inline(never)]
    fn in_hold<P: Platform>(
        &self,
        call: &mut Call<'_, P>,
        locks: LockSet,
        ranges: impl Iterator<Item = Span> + Clone,
        pass: Pass,
    ) -> Result<Option<Tried>, ChangeError> {
        loop {
            match self.hold(call, locks, ranges.clone(), pass == Pass::Change)? {
                Some(Tried::Cut) if pass != Pass::Look => self.cut(call, ranges.clone())?,
                tried => return Ok(tried),
            }
        }
    }

    /// Returns how many ranges have no more entries than a hold may have, whatever their leaves are.
    fn fit<P: Platform>(&self, ranges: impl Iterator<Item = Span>) -> usize {
        let shift = self.ranges.state.geometry().page_shift();
        let fits = ranges.scan(P::HOLD, |left, Span { first, last }| {
            let pages = usize::try_from((last - first) >> shift).unwrap_or(usize::MAX).saturating_add(1);
            *left = left.checked_sub(pages.saturating_add(WALK))?;
            Some(())
        });
        fits.count()
    }

    /// Tries some ranges in one hold, in which they change if it `stores`. Returns `None` if it takes several.
    #[inline(never)]
    fn hold<P: Platform>(
        &self,
        call: &mut Call<'_, P>,
        locks: LockSet,
        ranges: impl Iterator<Item = Span> + Clone,
        stores: bool,
    ) -> Result<Option<Tried>, ChangeError> {
        let later = call.is_later();
        call.attempts_with(locks, ranges.clone(), |locked| {
            let (mut surveyor, mut way) = (Surveyor::new(self.change, P::HOLD), Way::new());
            for span in ranges.clone() {
                surveyor.take(WALK)?;
                surveyor.add(locked, &way.to(locked, span), (span, span))?;
            }
            let survey = surveyor.found();
            if survey.splits {
                return Ok(Tried::Cut);
            }
            if !stores {
                return Ok(Tried::Done);
            }
            let mut batch = TlbBatch::of(later);
            let mut way = Way::new();
            for span in ranges.clone() {
                locked.mark(span);
                self.in_place(locked, &way.to(locked, span), span, &mut batch);
            }
            if survey.changes() {
                batch.finish(locked);
            }
            Ok(Tried::Done)
        })
    }

    /// Does one pass for a group in several holds: under a claim if the ranges change.
    #[inline(never)]
    fn in_pieces<P: Platform>(
        &self,
        call: &mut Call<'_, P>,
        group: &Group,
        pass: Pass,
    ) -> Result<Tried, ChangeError> {
        loop {
            if pass == Pass::Change {
                // No table pages: nothing is cut under the claim.
                call.claim_all(group.spans())?;
            }
            let survey = self.survey_pieces(call, group)?;
            if pass == Pass::Change && survey.changes() && !survey.splits {
                self.change_claimed(call, group)?;
            }
            call.unclaim();
            match survey.splits {
                true if pass != Pass::Look => self.cut(call, group.spans())?,
                true => return Ok(Tried::Cut),
                false => return Ok(Tried::Done),
            }
        }
    }

    /// Surveys ranges piece by piece.
    #[inline(never)]
    fn survey_pieces<P: Platform>(
        &self,
        call: &mut Call<'_, P>,
        group: &Group,
    ) -> Result<Survey, ChangeError> {
        let mut surveyor = Surveyor::new(self.change, usize::MAX);
        for span in group.spans() {
            call.pieces(span, |locked, piece| {
                surveyor.add(locked, &locked.deepest(locked.root(), piece), (span, piece))
            })?;
        }
        Ok(*surveyor.found())
    }

    /// Changes claimed ranges piece by piece, in one batch.
    #[inline(never)]
    fn change_claimed<P: Platform>(&self, call: &mut Call<'_, P>, group: &Group) -> Result<(), ChangeError> {
        let mut batch = TlbBatch::of(call.is_later());
        for span in group.spans() {
            call.pieces(span, |locked, piece| {
                self.in_place(locked, &locked.deepest(locked.root(), piece), piece, &mut batch);
                locked.publish_barrier();
                Ok(())
            })?;
        }
        let first = group.spans().next().unwrap_or(self.first);
        call.last_hold(first, |locked| batch.finish(locked))
    }

    /// Surveys an end of a range.
    fn survey<P: Platform>(&self, locked: &Locked<'_, P>, (span, end): (Span, Span)) -> Result<Survey, Stop> {
        let table = locked.deepest(locked.root(), end);
        Surveyor::survey(locked, &table, (self.change, span), (end, 2))
    }

    /// Changes the leaves of a range, or of a piece of one, in a table that translates all of it. What is left to a flush is
    /// noted at once, since the batch may join it with addresses whose locks are not held.
    #[inline(always)]
    fn in_place<P: Platform>(&self, locked: &Locked<'_, P>, table: &Table, span: Span, batch: &mut TlbBatch) {
        InPlace::new(self.change, false, batch).run(locked, table, span);
        batch.leave(locked);
    }

    /// Cuts the leaves that contain the ends of the ranges. Translations stay as they are.
    ///
    /// # Errors
    ///
    /// As for a change of one range.
    #[cold]
    #[inline(never)]
    fn cut<P: Platform>(
        &self,
        call: &mut Call<'_, P>,
        ranges: impl Iterator<Item = Span>,
    ) -> Result<(), ChangeError> {
        for span in ranges {
            let ends = [span.first, span.last].map(|va| Span { first: va, last: va });
            call.attempts_at_ends(span, |locked| {
                let mut found = Survey::default();
                for end in ends {
                    found.include(&self.survey(locked, (span, end))?);
                }
                if found.splits {
                    Ends::cutting(locked, &self.change, (&locked.root(), span))
                        .resize(found.resizes, &mut TlbBatch::new())?;
                    // Translations stay, so nothing is invalidated.
                    TlbBatch::new().finish(locked);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
