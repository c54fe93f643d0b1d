//! Removes mappings, and the tables that become empty.

use core::convert::Infallible;
use core::mem::take;
use core::sync::atomic::{Ordering::SeqCst, fence};

use crate::format::{Descriptor, LeafChange, Level, Span, Va};
use crate::live::attempt::Call;
use crate::live::claims::{Group, TOGETHER};
use crate::live::deferred_tables::DeferredTables;
use crate::live::error::{ChangeError, refusal};
use crate::live::lock_set::{GIGABYTE, LockSet};
use crate::live::locked::{LeafVisitor, LiveVisitor, Locked};
use crate::live::map_state::MapState;
use crate::live::one_leaf::unmap_one;
use crate::live::protect::{prepare, prepare_pieces};
use crate::live::stop::Stop;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::Platform;
use crate::read::{Table, visit_span};

/// Removes the mappings of a span, or does nothing.
///
/// # Errors
///
/// As for a change of permissions.
pub(crate) fn unmap<P: Platform>(state: &MapState, platform: &P, span: Span) -> Result<(), ChangeError> {
    if unmap_one(state, platform, span)? {
        return Ok(());
    }
    let mut call = Call::new(state, platform);
    let done = call.attempts(span, |locked| {
        locked.mark(span);
        let mut unmap = Unmap::new(span);
        prepare(locked, (LeafChange::REMOVE, span), &mut unmap.batch)?;
        unmap.span(locked, span);
        Ok(unmap.finish(locked))
    })?;
    match done {
        Some(emptied) => prune_if(&mut call, span, emptied),
        None => {
            call.claim(span)?;
            unmap_claimed(&mut call, span)
        }
    }
}

/// Removes the mappings of a range of many entries, which the caller has claimed.
///
/// # Errors
///
/// As for [`unmap`], but for a claim.
#[cold]
pub(crate) fn unmap_claimed<P: Platform>(call: &mut Call<'_, P>, span: Span) -> Result<(), ChangeError> {
    let emptied = long(call, span)?;
    prune_if(call, span, emptied)
}

/// Does so. Returns the tables that take more locks and may be empty.
fn long<P: Platform>(call: &mut Call<'_, P>, span: Span) -> Result<Emptied, ChangeError> {
    let mut unmap = Unmap::new(span);
    prepare_pieces(call, (LeafChange::REMOVE, span), &mut unmap.batch)?;
    call.pieces(span, |locked, piece| {
        unmap.piece(locked, piece);
        Ok(())
    })?;
    let mut emptied = Emptied::None;
    call.last_hold(span, |locked| emptied = unmap.finish(locked))?;
    Ok(emptied)
}

/// Removes the mappings of several ranges of pages with one batch of invalidations, or does nothing. No leaf changes
/// its size.
///
/// # Errors
///
/// A range that is not mapped everywhere, or that contains only a part of a leaf.
pub(crate) fn unmap_all<P: Platform>(
    state: &MapState,
    platform: &P,
    ranges: &[(Va, u64)],
) -> Result<(), ChangeError> {
    let mut hull: Option<Span> = None;
    let mut locks = None;
    for &(va, pages) in ranges {
        let Some(span) = state.owned_span(va, pages)? else { continue };
        let all = hull.unwrap_or(span);
        hull = Some(Span { first: all.first.min(span.first), last: all.last.max(span.last) });
        let of = LockSet::of::<P>(span);
        locks = Some(locks.map_or(of, |others: LockSet| others.and(of)));
    }
    let (Some(hull), Some(locks)) = (hull, locks) else { return Ok(()) };
    let spans = || ranges.iter().filter_map(|&(va, pages)| state.span(va, pages).ok().flatten());
    let mut call = Call::new(state, platform);
    let done = call.attempts_with(locks, spans(), |locked| {
        let mut left = P::HOLD;
        for span in spans() {
            let mut whole = WholeLeaves { span, left };
            locked.visit_leaves(&locked.table_of(span), span, &mut whole)?;
            left = whole.left;
        }
        let mut unmap = Unmap::new(hull);
        for span in spans() {
            locked.mark(span);
            unmap.span(locked, span);
        }
        Ok(unmap.finish(locked))
    })?;
    let emptied = match done {
        Some(emptied) => emptied,
        None => unmap_in_groups(&mut call, hull, spans())?,
    };
    leave_one(&mut call, hull, emptied)
}

/// Does the same for ranges with many entries: as many ranges as can be claimed together, piece by piece. Several groups are
/// checked before the first of them goes, and nobody merges their leaves meanwhile.
#[cold]
fn unmap_in_groups<P: Platform>(
    call: &mut Call<'_, P>,
    hull: Span,
    mut spans: impl Iterator<Item = Span> + Clone,
) -> Result<Emptied, ChangeError> {
    let _kept = call.state.attention.keeps_cuts();
    if spans.clone().nth(TOGETHER).is_some() {
        are_whole_leaves(call, spans.clone())?;
    }
    let mut unmap = Unmap::new(hull);
    while let Some(group) = Group::next(&mut spans) {
        call.claim_all(group.spans())?;
        are_whole_leaves(call, group.spans())?;
        for span in group.spans() {
            // A table that goes may have translated addresses that are not claimed.
            unmap.all = span;
            call.pieces(span, |locked, piece| {
                unmap.piece(locked, piece);
                Ok(())
            })?;
        }
        call.last_hold(unmap.all, |locked| _ = unmap.finish(locked))?;
        (unmap.batch, unmap.deferred) = (TlbBatch::new(), DeferredTables::new());
        call.unclaim();
    }
    Ok(unmap.emptied)
}

/// Checks that all of some spans is mapped, by leaves and runs within each.
///
/// # Errors
///
/// That is not so.
fn are_whole_leaves<P: Platform>(
    call: &mut Call<'_, P>,
    spans: impl Iterator<Item = Span>,
) -> Result<(), ChangeError> {
    for span in spans {
        call.pieces(span, |locked, piece| {
            let mut whole = WholeLeaves { span, left: usize::MAX };
            locked.visit_leaves(&locked.table_of(piece), piece, &mut whole)
        })?;
    }
    Ok(())
}

/// Tables that translate more than a gigabyte and have become empty.
#[derive(Clone, Copy)]
enum Emptied {
    None,
    /// The first address that the only one translates.
    One(u64),
    Several,
}

/// Leaves such a table where it is for the next mapping there, since to take it out excludes all other callers, and removes the
/// one that was left before, if that is another.
fn leave_one<P: Platform>(call: &mut Call<'_, P>, span: Span, emptied: Emptied) -> Result<(), ChangeError> {
    let Emptied::One(first) = emptied else { return prune_if(call, span, emptied) };
    match call.state.leave_empty(Some(first)) {
        Some(before) if before != first => prune(call, Span { first: before, last: before }),
        _ => Ok(()),
    }
}

/// Removes the table that was left, if it is still empty.
pub(crate) fn trim<P: Platform>(state: &MapState, platform: &P) {
    if let Some(first) = state.leave_empty(None) {
        // Nothing is refused or allocated.
        _ = prune(&mut Call::new(state, platform), Span { first, last: first });
    }
}

/// Removes such tables.
fn prune_if<P: Platform>(call: &mut Call<'_, P>, span: Span, emptied: Emptied) -> Result<(), ChangeError> {
    if matches!(emptied, Emptied::None) { Ok(()) } else { prune(call, span) }
}

/// Removes the empty tables that translate addresses of a span and more than one gigabyte.
#[cold]
fn prune<P: Platform>(call: &mut Call<'_, P>, span: Span) -> Result<(), ChangeError> {
    let all = Span { first: 0, last: u64::MAX };
    let prunes = call.looks_with(LockSet::of::<P>(all), span, |locked| {
        let mut unmap = Unmap { upper: true, ..Unmap::new(span) };
        locked.mark(span);
        unmap.span(locked, span);
        unmap.finish(locked);
        Ok(())
    });
    prunes.map(|_| ())
}

/// Checks that all of a span is mapped, by leaves and runs within the span.
struct WholeLeaves {
    span: Span,
    /// The number of entries that may still be read.
    left: usize,
}

impl<P: Platform> LeafVisitor<P> for WholeLeaves {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let end = locked.slots(table).alike((index, last.min(index.saturating_add(self.left))), old);
        self.left = self.left.checked_sub(end - index).ok_or(Stop::TooLong)?;
        if !old.is_leaf(locked.geometry, table.level) {
            let va = table.va(index).max(self.span.first);
            return Err(refusal(va, table.level, old, locked.geometry).into());
        }
        let members = locked.run(table, old).unwrap_or(1);
        // Only the first and the last can be partly outside.
        let (from, to) = (table.run_of(index, members), table.run_of(end - 1, members));
        if self.span.covers(from.first, to.last) {
            return Ok(end);
        }
        let outside = if self.span.covers(from.first, from.last) { to } else { from };
        Err(ChangeError::NeedsResize { va: Va(outside.first), policy: locked.policy }.into())
    }
}

/// The removal of mappings.
struct Unmap {
    /// The range of the operation.
    all: Span,
    /// The part of it from which leaves are being removed.
    span: Span,
    batch: TlbBatch,
    deferred: DeferredTables,
    /// True if only empty tables are removed that translate more than a gigabyte.
    upper: bool,
    /// Those that may be empty, but their locks are not held.
    emptied: Emptied,
    /// True if a table was removed that also translated addresses outside the range.
    beyond: bool,
}

impl Unmap {
    const fn new(span: Span) -> Self {
        let (batch, deferred) = (TlbBatch::new(), DeferredTables::new());
        Self { all: span, span, batch, deferred, upper: false, emptied: Emptied::None, beyond: false }
    }

    /// Removes the leaves of a piece of a long range in a hold of its own.
    fn piece<P: Platform>(&mut self, locked: &Locked<'_, P>, piece: Span) {
        self.span(locked, piece);
        if take(&mut self.beyond) {
            // Others may map at those addresses from now on, and walk caches must not have the table then.
            self.batch.finish(locked);
            self.batch = TlbBatch::new();
            self.deferred.retire(locked);
        } else {
            locked.publish_barrier();
        }
    }

    /// Removes the leaves of a span, which are all within it. It starts at the root, since tables above can become
    /// empty.
    fn span<P: Platform>(&mut self, locked: &Locked<'_, P>, span: Span) {
        self.span = span;
        let Ok(()) = visit_span(locked, &locked.root(), span, self);
    }

    /// Completes the removal. Returns the tables that may be empty and take more locks.
    fn finish<P: Platform>(&mut self, locked: &Locked<'_, P>) -> Emptied {
        self.batch.finish(locked);
        self.deferred.retire(locked);
        self.emptied
    }

    /// Removes a table from the tree, with the tables below it down to `level`.
    fn table<P: Platform>(
        &mut self,
        locked: &Locked<'_, P>,
        (table, index): (&Table, usize),
        (below, level): (&Table, Level),
    ) {
        locked.store(table, index, Descriptor::HOLE);
        self.deferred.add((below.pa, level), &mut self.batch, locked);
    }
}

impl<P: Platform> LiveVisitor<P> for Unmap {
    type Stop = Infallible;

    #[inline(always)]
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Infallible> {
        if self.upper {
            return Ok(if table.level == Level::PAGE { last + 1 } else { index + 1 });
        }
        if old == Descriptor::HOLE {
            return Ok(index + 1);
        }
        let end = locked.slots(table).alike((index, last), old);
        locked.slots(table).clear((index, end));
        locked.counters().leaves(table.level, old.is_contiguous(), -((end - index) as i64));
        if old.is_valid() {
            self.batch.add(table.va(index), table.span_of(end - 1).last, table.shift);
        }
        Ok(end)
    }

    /// A table within the span is removed entirely.
    fn enter(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
        old: Descriptor,
    ) -> Result<bool, Infallible> {
        let at = table.span_of(index);
        if self.upper {
            return Ok(table.shift > GIGABYTE);
        }
        if !self.span.covers(at.first, at.last) {
            return Ok(true);
        }
        let below = locked.below(table, index, old);
        uncount_table(locked);
        let Ok(()) = visit_span(locked, &below, at, &mut Uncount);
        self.batch.add(at.first, at.last, locked.geometry.page_shift());
        self.table(locked, (table, index), (&below, below.level));
        Ok(false)
    }

    fn leave(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
        below: &Table,
    ) -> Result<(), Infallible> {
        if !goes_on(locked, below, self.span) && is_empty(locked, below) {
            let at = table.span_of(index);
            if locked.covers(at).is_err() {
                self.emptied = match self.emptied {
                    Emptied::None => Emptied::One(at.first),
                    _ => Emptied::Several,
                };
                return Ok(());
            }
            // Another caller may be about to use it.
            if locked.is_claimed(at) {
                return Ok(());
            }
            uncount_table(locked);
            // The leaves are in the batch. Walk caches drop the table by any of its addresses.
            let (first, g) = (table.va(index), locked.geometry);
            self.batch.add(first, first + (g.page_size() - 1), g.page_shift());
            self.beyond |= !self.all.covers(at.first, at.last);
            // There are no tables below it.
            self.table(locked, (table, index), (below, Level::PAGE));
        }
        Ok(())
    }
}

/// Subtracts a table from the counts.
fn uncount_table<P: Platform>(locked: &Locked<'_, P>) {
    locked.counters().no_table();
    locked.counters().collapsed(1);
}

/// Subtracts everything below a table from the counts.
struct Uncount;

impl<P: Platform> LiveVisitor<P> for Uncount {
    type Stop = Infallible;

    #[inline(always)]
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Infallible> {
        let end = locked.slots(table).alike((index, last), old);
        if old.is_leaf(locked.geometry, table.level) {
            locked.counters().leaves(table.level, old.is_contiguous(), -((end - index) as i64));
        }
        Ok(end)
    }

    fn enter(
        &mut self,
        locked: &Locked<'_, P>,
        _: &Table,
        _: usize,
        _: Descriptor,
    ) -> Result<bool, Infallible> {
        uncount_table(locked);
        Ok(true)
    }
}

/// Returns true if the entry after a span is in use. Pieces are removed in ascending order, so it usually is.
fn goes_on<P: Platform>(locked: &Locked<'_, P>, table: &Table, span: Span) -> bool {
    let next = table.index_of(span.last) + 1;
    next < locked.geometry.entries(table.level) && locked.load(table, next) != Descriptor::HOLE
}

fn is_empty<P: Platform>(locked: &Locked<'_, P>, table: &Table) -> bool {
    if locked.covers(table.span_of_all(locked.geometry)).is_err() {
        // If two callers remove the last entries at once, each under its own lock, one of them sees the other's store.
        fence(SeqCst);
    }
    locked.slots(table).are_holes(locked.geometry.entries(table.level))
}
