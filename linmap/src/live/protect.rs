//! Changes the permissions or the validity of any page range, whatever its leaves.
//!
//! Most changes are of one whole leaf and take one store ([`one_leaf`]). Any other range takes three steps. *Survey*
//! the range: is the change possible, and must a leaf change its size? *Resize* the leaves that contain the ends of the
//! range, at most two: build the replacement tables off line and in their final state, and publish each with one store;
//! dissolve a contiguous run that contains an end. *Change* the leaves within the range in place. Three things can
//! fail, all before the first store: the survey, the allocation of table pages, and the parking of CPUs.
//!
//! A range of many entries is claimed, and surveyed and changed piece by piece. Its translations are invalidated once, at
//! the end: nobody else gets at these addresses before.

use core::mem::ManuallyDrop;

use crate::format::{LeafChange, Span};
use crate::live::attempt::Call;
use crate::live::ends::Ends;
use crate::live::error::ChangeError;
use crate::live::in_place::InPlace;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::live::stop::Stop;
use crate::live::survey::{Survey, Surveyor};
use crate::live::tlb_batch::{TlbBatch, finish_one};
use crate::plan::Policy;
use crate::platform::Platform;

/// Changes all leaves of a span, or none.
///
/// # Errors
///
/// The survey's errors; out of frames; a change of size that the policy or the CPUs do not permit; a claim in the way.
#[inline(never)]
pub(crate) fn protect<P: Platform>(
    state: &MapState,
    platform: &P,
    change: LeafChange,
    span: Span,
) -> Result<(), ChangeError> {
    let mut call = Call::new(state, platform);
    let done = call.attempts(span, |locked| {
        locked.mark(span);
        let mut batch = TlbBatch::new();
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
    let mut batch = TlbBatch::new();
    let survey = prepare_pieces(call, (change, span), &mut batch)?;
    if survey.in_place {
        let alike = survey.is_alike();
        call.pieces(span, |locked, piece| {
            let table = locked.deepest(locked.root(), piece);
            InPlace::new(change, alike, &mut batch).run(locked, &table, piece);
            locked.publish_barrier();
            Ok(())
        })?;
    }
    if survey.changes() {
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
        Ends::new(locked, change, span).resize(survey.resizes, batch)?;
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
        let end = |va| LockSet::of::<P>(Span { first: va, last: va });
        call.attempts_with(end(span.first).and(end(span.last)), span, |locked| {
            Ends::new(locked, change, span).resize(survey.resizes, batch)
        })?;
    }
    Ok(survey)
}

/// Changes the one leaf that is exactly a span, if there is such a leaf and it is not in a contiguous run. Returns false, and
/// has done nothing, in all other cases. Most changes are of this kind, so it is as short as can be. The span is in one
/// gigabyte.
#[inline(always)]
pub(crate) fn change_one<P: Platform>(
    state: &MapState,
    platform: &P,
    change: LeafChange,
    span: Span,
) -> bool {
    let number = LockSet::number::<P>(span.first);
    let _held = platform.lock(number);
    if state.attention.is_needed() {
        return false;
    }
    // It stays empty, so there is nothing to give back.
    let reserve = ManuallyDrop::new(Reserve::new(platform));
    let locked = Locked {
        platform,
        geometry: state.geometry(),
        state,
        locks: LockSet::one(number),
        reserve: &reserve,
        policy: Policy::Fixed,
        own: 0,
        answered: false,
    };
    let table = locked.deepest(locked.root(), span);
    let index = table.index_of(span.first);
    let old = locked.load(&table, index);
    let new = change.of(old, table.level);
    let refused = change.refuse_write_execute && new.is_write_execute();
    let within = (1 << table.shift) - 1;
    let whole = span.first & within == 0 && span.first ^ span.last == within;
    if refused || !whole || old.is_contiguous() || !state.is_leaf(old, table.level) {
        return false;
    }
    if new != old {
        let share = state.share(number);
        let version = share.changes_begin();
        locked.store(&table, index, new);
        finish_one(platform, state.geometry(), &share.counters, old.is_valid(), span.first);
        share.changes_end(version);
    }
    true
}
