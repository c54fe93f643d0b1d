//! Changes the permissions or the validity of any page range, whatever its leaves.
//!
//! Most changes are of one leaf, or of a page of one (`one_leaf.rs`). Any other range takes three steps. *Survey* the range: is the
//! change possible, and must a leaf change its size? *Resize* the leaves that contain the ends of the range, at most two: build the
//! replacement tables off line and in their final state, and publish each with one store; dissolve a contiguous run that contains an end.
//! *Change* the leaves within the range in place. Three things can fail, all before the first store: the survey, the allocation of table
//! pages, and the parking of CPUs.
//!
//! A range of many entries is claimed, and surveyed and changed piece by piece. Its translations are invalidated once, at
//! the end: nobody else gets at these addresses before.

use crate::build::OutOfFrames;
use crate::format::{Change, LeafChange, Span, Va};
use crate::live::attempt::Call;
use crate::live::change_flags::ChangeFlags;
use crate::live::ends::Ends;
use crate::live::error::ChangeError;
use crate::live::in_place::InPlace;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::one_leaf::{Wanted, change as change_leaf, in_one_hold};
use crate::live::stop::Stop;
use crate::live::survey::{Survey, Surveyor};
use crate::live::tlb_batch::TlbBatch;
use crate::platform::Platform;

/// Changes a range of pages.
///
/// # Errors
///
/// A range that is unaligned or outside the half; a change that walkers may undo; as for [`protect`].
#[inline(never)]
pub(crate) fn change<P: Platform>(
    state: &MapState,
    platform: &P,
    (va, pages): (Va, u64),
    change: Change,
    flags: ChangeFlags,
) -> Result<(), ChangeError> {
    let Some(span) = state.span(va, pages)? else { return Ok(()) };
    state.may_change(change, va)?;
    let later = flags.contains(ChangeFlags::LATER);
    protect(state, platform, (state.leaf_change_with(change, flags), later, span))
}

/// Changes all leaves of a span, or none.
///
/// # Errors
///
/// The survey's errors; out of frames; a change of size that the policy or the CPUs do not permit; a claim in the way.
#[inline(always)]
pub(crate) fn protect<P: Platform>(
    state: &MapState,
    platform: &P,
    wanted: Wanted,
) -> Result<(), ChangeError> {
    if one_leaf(state, platform, &wanted)? { Ok(()) } else { leaves(state, platform, wanted) }
}

/// Tries the fast way. In a function of its own, which all callers share, and whose stack the long form does not need.
#[inline(never)]
fn one_leaf<P: Platform>(state: &MapState, platform: &P, wanted: &Wanted) -> Result<bool, OutOfFrames> {
    let &(_, later, span) = wanted;
    in_one_hold(state, platform, (later, span), |locked, found| change_leaf(locked, found, wanted))
}

/// Surveys the leaves of a span, cuts those at its ends, and changes all of them.
#[inline(never)]
fn leaves<P: Platform>(
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
