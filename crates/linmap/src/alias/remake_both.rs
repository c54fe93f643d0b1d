//! Break-before-make of an area with its aliases: both go out before the step, and come back after it.
//!
//! Both are claimed together, and surveyed and cut as in `long.rs`. What becomes of a leaf depends on that leaf alone, so an
//! alias that is found twice, or within the area, comes back as it shall, too.
//!
//! Of an area with more aliases than can be claimed together the area alone is claimed. Its aliases go out and come back hold by
//! hold, and each hold invalidates what it has stored, so it leaves nothing to others.

use crate::alias::long::{Findings, Long};
use crate::alias::sides::Sides;
use crate::format::{LeafChange, Remade, Va};
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
    let looks = Sides { area: LeafChange::NONE, aliases: LeafChange::NONE, ..*sides };
    let mut long = Long { call, sides: &looks };
    long.survey().refused.map_or(Ok(()), Err)?;
    if !changes(&mut long, remade)? {
        return Ok(());
    }
    let _kept = state.attention.keeps_cuts();
    let mut long = Long { call, sides };
    let found = long.claim()?;
    changes(&mut long, remade)?;
    fits(long.call, remade, span)?;
    long.mapped_aliases(|long, alias| fits(long.call, remade, alias))?;
    if found.are_many() {
        long.call.regardless();
    }
    both_out(&mut long, &found)?;
    if let Err(error) = step() {
        let pages = ((span.last - span.first) >> state.geometry().page_shift()) + 1;
        return Err(RemakeError::Step { va: Va(span.first), pages, error });
    }
    // The aliases first: they are found by the area.
    long.mapped_aliases(|long, alias| put_back(long.call, remade, alias))?;
    put_back(long.call, remade, span)?;
    long.call.last_hold(span, |locked| TlbBatch::new().finish(locked))?;
    Ok(())
}

/// Returns true if some leaf of either side is not yet what it shall be.
///
/// # Errors
///
/// A leaf must not be what it would be.
fn changes<P: Platform>(long: &mut Long<'_, '_, P>, remade: &Remade) -> Result<bool, ChangeError> {
    let mut changes = survey_remake(long.call, remade, long.sides.span)?.changes;
    long.mapped_aliases(|long, alias| {
        changes |= survey_remake(long.call, remade, alias)?.changes;
        Ok(())
    })?;
    Ok(changes)
}

/// Takes out both sides. No TLB has them on return.
fn both_out<P: Platform>(long: &mut Long<'_, '_, P>, found: &Findings) -> Result<(), ChangeError> {
    let (span, are_claimed, mut batch) = (long.sides.span, !found.are_many(), TlbBatch::new());
    let mut first = None;
    long.mapped_aliases(|long, alias| {
        first = first.or(Some(alias));
        take_out(long.call, (alias, are_claimed), &mut batch)
    })?;
    if let Some(alias) = first {
        long.call.last_hold(alias, |locked| batch.finish(locked))?;
        batch = TlbBatch::new();
    }
    take_out(long.call, (span, true), &mut batch)?;
    long.call.last_hold(span, |locked| batch.finish(locked))
}
