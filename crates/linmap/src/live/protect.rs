//! Changes the permissions or the validity of any page range, whatever its leaves.
//!
//! Most changes are of one page and take one store (`one_page.rs`), of one leaf ([`change_part`]), or of pages that differ only in
//! their addresses: a few (`few_pages.rs`), or many (`alike.rs`). Any other range takes three steps. *Survey* the range: is the change possible, and must a leaf change its
//! size? *Resize* the leaves that contain the ends of the range, at most two: build the replacement tables off line and in
//! their final state, and publish each with one store; dissolve a contiguous run that contains an end. *Change* the leaves
//! within the range in place. Three things can fail, all before the first store: the survey, the allocation of table
//! pages, and the parking of CPUs.
//!
//! A range of many entries is claimed, and surveyed and changed piece by piece. Its translations are invalidated once, at
//! the end: nobody else gets at these addresses before.

use crate::format::{Change, Descriptor, LeafChange, Span, Va};
use crate::live::alike::change_alike;
use crate::live::attempt::Call;
use crate::live::change_flags::ChangeFlags;
use crate::live::ends::{Ends, tables_for_ends};
use crate::live::error::ChangeError;
use crate::live::few_pages::{FEW, change_few};
use crate::live::in_place::InPlace;
use crate::live::invalidated::Invalidated;
use crate::live::lock_set::{GIGABYTE, LockSet};
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::live::resize::Resize;
use crate::live::settle::heed;
use crate::live::stop::Stop;
use crate::live::survey::{Survey, Surveyor};
use crate::live::tlb_batch::{TlbBatch, finish_one};
use crate::platform::Platform;
use crate::read::Table;

/// A change, whether its invalidations are left to a flush, and the span.
type Wanted = (LeafChange, bool, Span);

/// Changes all leaves of a span, or none.
///
/// # Errors
///
/// The survey's errors; out of frames; a change of size that the policy or the CPUs do not permit; a claim in the way.
#[inline(never)]
pub(crate) fn protect<P: Platform>(
    state: &MapState,
    platform: &P,
    (change, later, span): Wanted,
) -> Result<(), ChangeError> {
    let mut call = Call::of(state, platform, later);
    let done = call.attempts(span, |locked| {
        locked.mark(span);
        let mut batch = TlbBatch::of(later);
        let survey = prepare(locked, (change, span), &mut batch)?;
        if survey.in_place {
            let table = locked.deepest(locked.root(), span);
            InPlace::new(change, survey.is_alike(), &mut batch).run(locked, &table, span);
        }
        if survey.changes() {
            batch.finish(locked);
        }
        Ok(())
    })?;
    if done.is_none() { long(&mut call, change, span) } else { Ok(()) }
}

/// Changes a range of many entries.
#[cold]
fn long<P: Platform>(call: &mut Call<'_, P>, change: LeafChange, span: Span) -> Result<(), ChangeError> {
    call.claim(span)?;
    let mut batch = TlbBatch::of(call.is_later());
    let survey = prepare_pieces(call, (change, span), &mut batch)?;
    if survey.changes() {
        // Also where only the ends were to be cut: another caller may have cut a leaf that goes on outside the range, and
        // left the part within it as it was.
        let alike = survey.is_alike();
        call.pieces(span, |locked, piece| {
            let table = locked.deepest(locked.root(), piece);
            InPlace::new(change, alike, &mut batch).run(locked, &table, piece);
            batch.leave(locked);
            locked.publish_barrier();
            Ok(())
        })?;
        call.last_hold(span, |locked| batch.finish(locked))?;
    }
    Ok(())
}

/// Does everything that can fail: the survey, and the changes of size.
///
/// # Errors
///
/// As for [`protect`]. Nothing has been stored.
pub(crate) fn prepare<P: Platform>(
    locked: &Locked<'_, P>,
    (change, span): (LeafChange, Span),
    batch: &mut TlbBatch,
) -> Result<Survey, Stop> {
    let table = locked.deepest(locked.root(), span);
    let survey = Surveyor::survey(locked, &table, (change, span), (span, P::HOLD))?;
    if survey.splits {
        Ends::new(locked, &change, (&locked.root(), span)).resize(survey.resizes, batch)?;
    }
    Ok(survey)
}

/// Does the same for a claimed range, piece by piece.
///
/// # Errors
///
/// As for [`protect`]. Leaves that contain an end of the range may have been split.
pub(crate) fn prepare_pieces<P: Platform>(
    call: &mut Call<'_, P>,
    (change, span): (LeafChange, Span),
    batch: &mut TlbBatch,
) -> Result<Survey, ChangeError> {
    let mut survey = Survey::default();
    call.pieces(span, |locked, piece| {
        let table = locked.deepest(locked.root(), piece);
        survey.include(&Surveyor::survey(locked, &table, (change, span), (piece, usize::MAX))?);
        Ok(())
    })?;
    if survey.splits {
        call.attempts_at_ends(span, |locked| {
            Ends::new(locked, &change, (&locked.root(), span)).resize(survey.resizes, batch)?;
            batch.leave(locked);
            // The next holder may change what is left of these leaves.
            locked.publish_barrier();
            Ok(())
        })?;
    }
    Ok(survey)
}

/// The result of the first try of a change.
pub(crate) enum Tried {
    Done,
    /// Nothing has changed. It takes so many table pages, or another way.
    Not(u64),
}

/// Changes a range that is not one page in a page table.
///
/// # Errors
///
/// As for [`protect`].
#[inline(never)]
pub(crate) fn change_range<P: Platform>(
    state: &MapState,
    platform: &P,
    va: Va,
    pages: u64,
    change: Change,
    flags: ChangeFlags,
) -> Result<(), ChangeError> {
    let Some(span) = state.span(va, pages)? else { return Ok(()) };
    state.may_change(change, va)?;
    let wanted = (state.leaf_change_with(change, flags), flags.contains(ChangeFlags::LATER), span);
    if (span.first ^ span.last) >> GIGABYTE != 0 {
        return protect(state, platform, wanted);
    }
    // One page has been tried (`one_page.rs`).
    if (2..=FEW).contains(&pages) && !wanted.1 && change_few(state, platform, &wanted.0, span) {
        return Ok(());
    }
    change_part(state, platform, &wanted, Reserve::new(platform), None)
}

/// Changes one page, whose lock the caller has taken. If `LATER`, its invalidation is left to a flush.
///
/// # Errors
///
/// As for [`protect`].
#[inline(never)]
pub(crate) fn change_held<'a, P: Platform, const LATER: bool>(
    state: &MapState,
    platform: &'a P,
    va: Va,
    change: Change,
    held: P::Held<'a>,
) -> Result<(), ChangeError> {
    let span = Span { first: va.0, last: va.0 + (state.geometry().page_size() - 1) };
    let wanted = (state.leaf_change(change), LATER, span);
    change_part(state, platform, &wanted, Reserve::new(platform), Some(held))
}

/// Changes a range in one gigabyte: the one leaf that contains it, or pages that are alike, or by [`protect`]. Its lock is taken,
/// unless it is `held`. There may be table pages from before.
///
/// # Errors
///
/// As for [`protect`].
#[inline(never)]
pub(crate) fn change_part<'a, P: Platform>(
    state: &MapState,
    platform: &'a P,
    wanted: &Wanted,
    reserve: Reserve<'a, P>,
    mut held: Option<P::Held<'a>>,
) -> Result<(), ChangeError> {
    let &(change, later, span) = wanted;
    loop {
        let taken = held.take().unwrap_or_else(|| platform.lock(LockSet::number::<P>(span.first)));
        let tried = match one_hold(state, &reserve, platform, (later, span)) {
            Some((locked, table)) => {
                let old = locked.load(&table, table.index_of(span.first));
                change_other(state, &reserve, platform, &table, wanted, (old, change.of(old, table.level)))
            }
            None => Tried::Not(0),
        };
        drop(taken);
        match tried {
            Tried::Done => return Ok(()),
            Tried::Not(0) => break,
            Tried::Not(frames) => reserve.fill(frames)?,
        }
    }
    drop(reserve);
    protect(state, platform, *wanted)
}

/// Returns the view of the holder of a span's lock, with the deepest table that translates all of the span, or `None` if others
/// have claimed some of it, or a repaint is under way.
#[inline(always)]
fn one_hold<'a, P: Platform>(
    state: &'a MapState,
    reserve: &'a Reserve<'a, P>,
    platform: &'a P,
    (later, span): (bool, Span),
) -> Option<(Locked<'a, P>, Table)> {
    let number = LockSet::number::<P>(span.first);
    let looks = if later { state.attention.is_needed_for_more() } else { state.attention.is_needed() };
    if looks && !heed(state, platform, later, span) {
        return None;
    }
    let locked = Locked::of_one(platform, state, number, reserve);
    let table = locked.deepest(locked.root(), span);
    Some((locked, table))
}

/// Goes on, in the same hold, where the entry of a span is not a leaf as large as the span that is in no run. `old` becomes
/// `new`.
#[inline(never)]
fn change_other<P: Platform>(
    state: &MapState,
    reserve: &Reserve<'_, P>,
    platform: &P,
    table: &Table,
    wanted: &Wanted,
    (old, new): (Descriptor, Descriptor),
) -> Tried {
    let (table, &(change, _, span)) = (*table, wanted);
    let index = table.index_of(span.first);
    let at = table.span_of(index);
    if span.last > at.last {
        let done = change_alike(state, platform, table, wanted);
        return if done { Tried::Done } else { Tried::Not(0) };
    }
    let refused = change.refuse_write_execute && new.is_write_execute();
    if refused || !state.is_leaf(old, table.level) {
        return Tried::Not(0);
    }
    if new == old {
        return Tried::Done;
    }
    let whole = span.covers(at.first, at.last);
    let resizes = !whole || old.is_contiguous();
    if resizes && old.is_valid() && !state.may_resize(platform) {
        return Tried::Not(0);
    }
    if !whole {
        let frames = tables_for_ends(state.geometry(), table.level, at, span);
        if reserve.count() < frames {
            return Tried::Not(frames);
        }
    }
    let number = LockSet::number::<P>(span.first);
    let locked = &Locked::of_one(platform, state, number, reserve);
    let dissolves = locked.run(&table, old);
    let changing = table.run_of(index, dissolves.unwrap_or(1));
    if !state.owned().covers(changing.first, changing.last) || locked.covers(changing).is_err() {
        return Tried::Not(0);
    }
    let share = state.share(number);
    let version = share.changes_begin();
    let changed =
        resize_one(locked, Resize { table, index, dissolves, link: None }, wanted, (old, new), whole);
    share.changes_end(version);
    if changed { Tried::Done } else { Tried::Not(0) }
}

/// Changes a leaf, which may be in a run, or only partly in a span. Returns false, and has done nothing, if there are too few
/// table pages.
#[inline(always)]
fn resize_one<P: Platform>(
    locked: &Locked<'_, P>,
    mut resize: Resize,
    &(change, later, span): &Wanted,
    (old, new): (Descriptor, Descriptor),
    whole: bool,
) -> bool {
    let Resize { table, index, .. } = resize;
    if !whole {
        let Ok(link) = locked.replacement(change, span).leaf(old, &table, table.va(index)) else {
            return false;
        };
        resize.link = Some(link);
    }
    // A list of one page may have come here with a whole leaf in no run: it keeps its size.
    if resize.link.is_some() || resize.dissolves.is_some() {
        locked.settle(span);
        resize.one_in_place(locked);
    }
    if whole {
        locked.store(&table, index, new.without_contiguous());
    }
    let later = later && old.is_valid();
    if later {
        let (Span { first, last }, entry_shift) = (span, table.shift);
        locked.state.leave_pending::<P>(Invalidated { first, last, entry_shift });
    }
    let invalidates = old.is_valid() && !later;
    finish_one(locked.platform, locked.geometry, locked.counters(), invalidates, span.first);
    true
}
