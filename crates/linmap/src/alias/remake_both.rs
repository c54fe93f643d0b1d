//! Break-before-make of an area with its aliases: both go out before the step, and come back after it.
//!
//! Both are claimed together, and surveyed and cut as in `long.rs`. What becomes of a leaf depends on that leaf alone, so an
//! alias that is found twice, or within the area, comes back as it shall, too.
//!
//! Of an area with more aliases than can be claimed together the area alone is claimed. Its aliases go out and come back hold by
//! hold, and each hold invalidates what it has stored, so it leaves nothing to others.

use crate::alias::long::{Part, claim, each_alias, survey};
use crate::alias::sides::Sides;
use crate::format::{Remade, Va};
use crate::live::{Call, ChangeError, RemakeError, TlbBatch, fits, put_back, survey_remake, take_out};
use crate::platform::Platform;

/// Remakes both sides, or does nothing; or, if the step fails, leaves both invalid.
///
/// # Errors
///
/// The remake is refused; a claim in the way; the step's error.
#[cold]
pub(crate) fn remake_both<P: Platform, E>(
    call: &mut Call<'_, P>,
    sides: &Sides,
    remade: &Remade,
    step: impl FnOnce() -> Result<(), E>,
) -> Result<(), RemakeError<E>> {
    let (state, span) = (call.state, sides.span);
    // Without a claim: is there anything to take out?
    let (part, _) = survey(call, sides)?;
    if !changes(call, sides, &part, remade)? {
        return Ok(());
    }
    let _kept = state.attention.keeps_cuts();
    let part = claim(call, sides)?;
    changes(call, sides, &part, remade)?;
    fits(call, remade, span)?;
    each_alias(call, sides, &part, |call, alias| fits(call, remade, alias))?;
    if part.area != span {
        call.regardless();
    }
    both_out(call, sides, &part)?;
    if let Err(error) = step() {
        let pages = ((span.last - span.first) >> state.geometry().page_shift()) + 1;
        return Err(RemakeError::Step { va: Va(span.first), pages, error });
    }
    // The aliases first: they are found by the area.
    each_alias(call, sides, &part, |call, alias| put_back(call, remade, alias))?;
    put_back(call, remade, span)?;
    call.last_hold(span, |locked| TlbBatch::new().finish(locked))?;
    Ok(())
}

/// Returns true if some leaf of either side is not yet what it shall be.
///
/// # Errors
///
/// A leaf must not be what it would be.
fn changes<P: Platform>(
    call: &mut Call<'_, P>,
    sides: &Sides,
    part: &Part,
    remade: &Remade,
) -> Result<bool, ChangeError> {
    let mut changes = survey_remake(call, remade, sides.span)?.changes;
    each_alias(call, sides, part, |call, alias| {
        changes |= survey_remake(call, remade, alias)?.changes;
        Ok(())
    })?;
    Ok(changes)
}

/// Takes out both sides. No TLB has them on return.
fn both_out<P: Platform>(call: &mut Call<'_, P>, sides: &Sides, part: &Part) -> Result<(), ChangeError> {
    let (span, mut batch, mut first) = (sides.span, TlbBatch::new(), None);
    let are_claimed = part.area == span;
    each_alias(call, sides, part, |call, alias| {
        first = first.or(Some(alias));
        take_out(call, (alias, are_claimed), &mut batch)
    })?;
    if let Some(alias) = first {
        call.last_hold(alias, |locked| batch.finish(locked))?;
        batch = TlbBatch::new();
    }
    take_out(call, (span, true), &mut batch)?;
    call.last_hold(span, |locked| batch.finish(locked))
}
