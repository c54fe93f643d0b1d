//! Changes the permissions or the validity of any page range, whatever its leaves.
//!
//! Most changes are within one leaf and take a store or two ([`one_leaf`]). Any other range takes three steps. *Survey*
//! the range: is the change possible, and must a leaf change its size? *Resize* the leaves that contain the ends of the
//! range, at most two: build the replacement tables off line and in their final state, and publish each with one store;
//! dissolve a contiguous run that contains an end. *Change* the leaves within the range in place. Three things can
//! fail, all before the first store: the survey, the allocation of table pages, which are then given back, and the
//! parking of CPUs.

use crate::build::{OutOfFrames, discard};
use crate::format::{LeafChange, Span};
use crate::live::error::{ChangeError, refusal};
use crate::live::in_place::InPlace;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::resize::Resize;
use crate::live::survey::{Survey, Surveyor};
use crate::live::tlb_batch::{TlbBatch, finish_one};
use crate::plan::Policy;
use crate::platform::Platform;
use crate::read::Table;

/// Changes all leaves of a span, or none.
///
/// # Errors
///
/// The survey's errors; out of frames; a change of size that the policy or the CPUs do not permit.
#[inline(always)]
pub(crate) fn protect<P: Platform>(
    locked: Locked<'_, P>,
    change: LeafChange,
    span: Span,
) -> Result<(), ChangeError> {
    let table = locked.deepest(locked.root(), span);
    if (span.first ^ span.last) >> table.shift == 0 {
        let index = table.index_of(span.first);
        return one_leaf(locked, (change, span), (table, index));
    }
    in_general(&locked, locked.state.policy(), change, span)
}

/// Changes the one entry of a table that contains the span, a leaf or a part of one, or nothing.
#[inline(always)]
fn one_leaf<P: Platform>(
    locked: Locked<'_, P>,
    (change, span): (LeafChange, Span),
    (table, index): (Table, usize),
) -> Result<(), ChangeError> {
    let old = locked.load(&table, index);
    let new = change.of(old, table.level);
    let refused = change.refuse_write_execute && new.is_write_execute();
    if refused || !locked.state.is_leaf(old, table.level) {
        return Err(refusal(span.first, table.level, old, locked.geometry));
    }
    if new == old {
        return Ok(());
    }
    let in_use = old.is_valid();
    let whole = span.last - span.first == (1 << table.shift) - 1;
    if !whole || old.is_contiguous() {
        // Read once: another CPU may set it without the lock, and an operation follows one policy.
        let policy = locked.state.policy();
        let in_place = policy == Policy::Live && locked.platform.promise().never_aborts;
        if in_use && !in_place {
            return in_general(&locked, policy, change, span);
        }
        let dissolves = locked.run(&table, old);
        let mut link = None;
        if !whole {
            link = Some(locked.replacement(change, span).leaf(old, &table, table.va(index))?);
        }
        Resize::all_in_place(&locked, [Resize { table, index, dissolves, link }].into_iter(), true);
    }
    if whole {
        locked.store(&table, index, change.of(old.without_contiguous(), table.level));
    }
    finish_one(&locked, in_use, span.first);
    Ok(())
}

/// Handles the remaining cases: a range of several leaves, or a leaf for which CPUs have to be parked.
#[inline(always)]
fn in_general<P: Platform>(
    locked: &Locked<'_, P>,
    policy: Policy,
    change: LeafChange,
    span: Span,
) -> Result<(), ChangeError> {
    let LeafChange { clear, set, validity, refuse_write_execute } = change;
    several_leaves(
        locked.state,
        locked.platform,
        policy,
        [clear, set, validity],
        refuse_write_execute,
        (span.first, span.last),
    )
}

/// Changes all leaves of a span, or none.
///
/// Takes plain values, so the fast path can keep them in registers.
#[inline(never)]
fn several_leaves<P: Platform>(
    state: &MapState,
    platform: &P,
    policy: Policy,
    [clear, set, validity]: [u64; 3],
    refuse_write_execute: bool,
    (first, last): (u64, u64),
) -> Result<(), ChangeError> {
    let locked = Locked::new(platform, state);
    let (change, span) = (LeafChange { clear, set, validity, refuse_write_execute }, Span { first, last });
    let table = locked.deepest(locked.root(), span);
    let mut batch = TlbBatch::new();
    let survey = prepare(&locked, policy, &table, (change, span), &mut batch)?;
    if survey.in_place {
        InPlace::new(change, survey.is_alike(), &mut batch).run(&locked, &table, span);
    }
    if survey.changes() {
        batch.finish(&locked);
    }
    Ok(())
}

/// Does everything that can fail: the survey, and the changes of size.
///
/// # Errors
///
/// As for [`protect`]. Nothing has been stored.
#[inline(always)]
pub(crate) fn prepare<P: Platform>(
    locked: &Locked<'_, P>,
    policy: Policy,
    table: &Table,
    (change, span): (LeafChange, Span),
    batch: &mut TlbBatch,
) -> Result<Survey, ChangeError> {
    let survey = Surveyor::survey(locked, table, change, span)?;
    if survey.splits {
        Ends { locked, policy, table, change, span }.resize(&survey, batch)?;
    }
    Ok(survey)
}

/// The two ends of a range, which may be within leaves.
struct Ends<'a, P> {
    locked: &'a Locked<'a, P>,
    policy: Policy,
    /// A table that translates all of the range.
    table: &'a Table,
    change: LeafChange,
    span: Span,
}

impl<P: Platform> Ends<'_, P> {
    /// Changes the size of the leaves that contain the ends.
    #[inline(never)]
    fn resize(&self, survey: &Survey, batch: &mut TlbBatch) -> Result<(), ChangeError> {
        let locked = self.locked;
        let in_use = survey.resizes.is_some();
        locked.may_resize(self.policy, survey.resizes)?;
        let mut ends = [None; 2];
        ends[0] = self.end(self.span.first)?;
        // The other end may be in the same leaf.
        let both = |s: &Resize| s.link.is_some() && self.span.last <= s.table.span_of(s.index).last;
        if !ends[0].as_ref().is_some_and(both) {
            ends[1] = self.end(self.span.last).map_err(|frames| self.without(ends[0], frames))?;
        }
        if let [Some(first), Some(last)] = &mut ends
            && last.dissolves_run_of(first)
        {
            last.dissolves = None;
        }
        match ends {
            [Some(first), Some(last)] => Resize::all(locked, (self.policy, in_use), &[first, last], true)?,
            [Some(one), None] | [None, Some(one)] => {
                Resize::all(locked, (self.policy, in_use), &[one], true)?;
            }
            [None, None] => {}
        }
        let dropped = in_use && self.policy == Policy::Park;
        for end in ends.into_iter().flatten() {
            if end.link.is_some() && in_use && !dropped {
                // One TLB entry held the leaf, so any of its addresses invalidates it (D8.17, RLGSCG).
                let va = end.table.va(end.index).max(self.span.first);
                let page = locked.geometry.page_shift();
                batch.add(va, va + ((1 << page) - 1), page);
            }
        }
        Ok(())
    }

    /// Gives back the tables that were built for one end after the other end failed.
    #[cold]
    fn without(&self, end: Option<Resize>, frames: OutOfFrames) -> OutOfFrames {
        let Some(Resize { table, link: Some(link), .. }) = end else { return frames };
        let (platform, geometry) = (self.locked.platform, self.locked.geometry);
        frames.and(discard(platform, geometry, self.locked.counters(), (link, table.level.down(1))))
    }

    /// Returns the change of size of the leaf or run that contains an end of the range, if there is one.
    fn end(&self, va: u64) -> Result<Option<Resize>, OutOfFrames> {
        let locked = self.locked;
        let table = locked.deepest(*self.table, Span { first: va, last: va });
        let index = table.index_of(va);
        let old = locked.load(&table, index);
        let at = table.span_of(index);
        if self.change.of(old, table.level) == old {
            return Ok(None);
        }
        let run = locked.run(&table, old);
        let dissolves = run.filter(|_| locked.dissolves(&table, index, old, self.span));
        if self.span.covers(at.first, at.last) {
            return Ok(dissolves.map(|_| Resize { table, index, dissolves, link: None }));
        }
        let link = Some(locked.replacement(self.change, self.span).leaf(old, &table, at.first)?);
        Ok(Some(Resize { table, index, dissolves, link }))
    }
}
