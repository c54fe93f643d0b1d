//! Changes pages that are listed one by one, in any order. Pages that follow each other in the list are one range.
//!
//! All ranges change in one hold of all their locks. If these are more pages than a hold may have entries, or ways down to
//! too many ranges, it is under one claim from the lowest to the highest page. If a leaf would have to be cut, nothing is
//! stored; the leaves are cut first, range by range and without a claim, since that takes table pages and changes no
//! translation. Then it is tried again.

use crate::format::{LeafChange, Level, Span, Va};
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
    /// From the lowest page to the highest.
    hull: Span,
    locks: LockSet,
    /// The number of bytes in all of them.
    bytes: u64,
}

/// The number of entries of a hold that a way down to a range counts as.
const WALK: usize = 15;

/// A range of so many pages is short.
const SHORT: usize = 16;

/// The outcome of an attempt.
enum Tried {
    Done,
    /// Nothing has been stored: some leaves have to be cut first.
    Cut,
}

/// Returns the addresses from the lowest to the highest of some ranges, and the locks of all of them.
#[inline(always)]
fn hull_of<P: Platform>(ranges: impl Iterator<Item = Span>) -> Option<(Span, LockSet)> {
    let each = ranges.map(|span| (span, LockSet::of::<P>(span)));
    each.reduce(|(all, locks), (span, more)| {
        (Span { first: all.first.min(span.first), last: all.last.max(span.last) }, locks.and(more))
    })
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
        let checked = ranges.clone().map_while(|span| {
            let more = span.last.wrapping_sub(span.first).wrapping_add(1);
            let pages = more >> state.geometry().page_shift();
            refused = state.span(Va(span.first), pages).map(|_| ());
            (count, bytes) = (count + 1, bytes.saturating_add(more));
            refused.is_ok().then_some(span)
        });
        let all = hull_of::<P>(checked);
        refused?;
        Ok(all.map(|(hull, locks)| Self { change, ranges, count, hull, locks, bytes }))
    }

    /// Returns the range, if there is only one.
    pub(crate) fn only(&self) -> Option<Span> {
        (self.count == 1).then_some(self.hull)
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
            let (mut surveyor, mut way) = (Surveyor::new(self.change, P::HOLD), Way::new());
            for span in self.ranges.clone() {
                surveyor.take(WALK)?;
                surveyor.add(locked, &way.to(locked, span), (span, span))?;
            }
            let survey = surveyor.found();
            if survey.splits {
                return Ok(Tried::Cut);
            }
            let mut batch = TlbBatch::of(later);
            let mut way = Way::new();
            for span in self.ranges.clone() {
                locked.mark(span);
                self.in_place(locked, &way.to(locked, span), span, &mut batch);
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
        let mut surveyor = Surveyor::new(self.change, usize::MAX);
        self.holds(call, false, |locked, table, spans| surveyor.add(locked, table, spans))?;
        let survey = surveyor.found();
        if !survey.splits && survey.changes() {
            let mut batch = TlbBatch::of(call.is_later());
            self.holds(call, true, |locked, table, (_, piece)| {
                self.in_place(locked, table, piece, &mut batch);
                Ok(())
            })?;
            call.last_hold(self.hull, |locked| batch.finish(locked))?;
        }
        call.unclaim();
        Ok(if survey.splits { Tried::Cut } else { Tried::Done })
    }

    /// Calls `work`, which may store, for each range and its table. A hold has as many short ranges as it has room for and as its
    /// first range has locks for: who waits for a lock holds no others. A long range comes piece by piece.
    fn holds<P: Platform>(
        &self,
        call: &mut Call<'_, P>,
        stores: bool,
        mut work: impl FnMut(&Locked<'_, P>, &Table, (Span, Span)) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        let shift = call.state.geometry().page_shift();
        let is_short = |span: &Span| (span.last - span.first) >> shift < SHORT as u64;
        let end = |locked: &Locked<'_, P>| {
            if stores {
                locked.publish_barrier();
            }
        };
        let mut ranges = self.ranges.clone();
        while let Some(first) = ranges.clone().next() {
            let locks = LockSet::of::<P>(first);
            let joins = |span: &Span| is_short(span) && locks.has(LockSet::of::<P>(*span));
            let group = ranges.clone().take_while(joins).take(P::HOLD / (WALK + SHORT));
            let count = group.clone().count();
            let Some((hull, _)) = hull_of::<P>(group) else {
                call.pieces(first, |locked, piece| {
                    work(locked, &locked.deepest(locked.root(), piece), (first, piece))?;
                    end(locked);
                    Ok(())
                })?;
                ranges.next();
                continue;
            };
            call.attempts_with(locks, hull, |locked| {
                let mut way = Way::new();
                // No more than these are read under locks: the next range may be long.
                for span in ranges.clone().take(count) {
                    locked.mark(span);
                    work(locked, &way.to(locked, span), (span, span))?;
                }
                end(locked);
                Ok(())
            })?;
            ranges.by_ref().take(count).for_each(|_| {});
        }
        Ok(())
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
    fn cut<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<(), ChangeError> {
        for span in self.ranges.clone() {
            let ends = [span.first, span.last].map(|va| Span { first: va, last: va });
            let locks = LockSet::of::<P>(ends[0]).and(LockSet::of::<P>(ends[1]));
            call.attempts_with(locks, span, |locked| {
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
