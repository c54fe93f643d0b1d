//! Changes the permissions or the validity of any page range, whatever its leaves.
//!
//! Most changes are of one leaf, or of a page of one (`one_leaf.rs`). Any other range is one span for the driver (`driver.rs`).

use crate::build::OutOfFrames;
use crate::format::{Change, Va};
use crate::live::attempt::Call;
use crate::live::change_flags::ChangeFlags;
use crate::live::driver::Spans;
use crate::live::error::ChangeError;
use crate::live::in_place::InPlaceChange;
use crate::live::map_state::MapState;
use crate::live::one_leaf::{Wanted, change as change_leaf, in_one_hold};
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

/// Changes the leaves of a span by the driver.
#[inline(never)]
fn leaves<P: Platform>(
    state: &MapState,
    platform: &P,
    (change, later, span): Wanted,
) -> Result<(), ChangeError> {
    Spans::one::<P>(span).run(&mut Call::of(state, platform, later), &mut InPlaceChange::new(change, later))
}
