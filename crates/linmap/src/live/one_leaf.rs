//! The fast way: what an operation does with one leaf or hole, in one hold of one lock.
//!
//! Most operations need no more: a page changes, is mapped or unmapped, or a page is cut out of a leaf. The lock, the version and what
//! others have left are those of every hold. Whatever takes more than this is left to the operation's long form, and nothing is stored
//! then.

use crate::build::OutOfFrames;
use crate::format::{Attributes, Descriptor, Geometry, Leaf, LeafChange, Span};
use crate::live::ends::tables_for_ends;
use crate::live::invalidated::Invalidated;
use crate::live::lock_set::{GIGABYTE, LockSet};
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::mapping::Mapping;
use crate::live::reserve::Reserve;
use crate::live::resize::Resize;
use crate::live::settle::heed;
use crate::live::tlb_batch::finish_one;
use crate::platform::Platform;
use crate::read::Table;

/// A change, whether its invalidations are left to a flush, and the span.
pub(crate) type Wanted = (LeafChange, bool, Span);

/// The result of a try.
pub(crate) enum Tried {
    Done,
    /// It takes the long form. Nothing has changed.
    Long,
    /// It takes so many table pages. Nothing has changed.
    Frames(u64),
}

/// The deepest entry of a table that translates all of a span, if there is one.
pub(crate) struct Found {
    table: Table,
    index: usize,
    entry: Descriptor,
    /// The addresses of the entry.
    at: Span,
}

/// Tries an operation on a span by its one entry. Returns false, and has done nothing, if it takes the long form.
///
/// # Errors
///
/// There are too few table pages.
#[inline(always)]
pub(crate) fn in_one_hold<P: Platform>(
    state: &MapState,
    platform: &P,
    (later, span): (bool, Span),
    work: impl Fn(&Locked<'_, P>, &Found) -> Tried,
) -> Result<bool, OutOfFrames> {
    if !may_be_a_leaf(state.geometry(), span) {
        return Ok(false);
    }
    let (number, reserve) = (LockSet::number::<P>(span.first), Reserve::new(platform));
    loop {
        let locked = &Locked::of_one(platform, state, number, &reserve);
        let tried = locked.hold_one(|| {
            let attention = &state.attention;
            let looks = if later { attention.is_needed_for_more() } else { attention.is_needed() };
            if looks && !heed(state, platform, later, span) {
                return Tried::Long;
            }
            let table = locked.deepest(locked.root(), span);
            let index = table.index_of(span.first);
            let at = table.span_of(index);
            if span.last > at.last {
                return Tried::Long;
            }
            work(locked, &Found { table, index, entry: locked.load(&table, index), at })
        });
        match tried {
            Tried::Done => return Ok(true),
            Tried::Long => return Ok(false),
            Tried::Frames(frames) => reserve.fill(frames)?,
        }
    }
}

/// Returns true if a span in one lock's range has the size of a leaf and is aligned to it. Another one takes several leaves, or cuts one
/// at both ends, and a try would take its lock in vain.
const fn may_be_a_leaf(g: Geometry, span: Span) -> bool {
    let within = span.last - span.first;
    let shift = within.trailing_ones();
    within >> shift == 0
        && span.first & within == 0
        && shift <= GIGABYTE
        && (shift - g.page_shift()).is_multiple_of(g.index_bits())
}

/// A change of the permissions or the validity of a span.
#[inline(always)]
pub(crate) fn change<P: Platform>(locked: &Locked<'_, P>, found: &Found, wanted: &Wanted) -> Tried {
    let (&Found { table, entry: old, at, .. }, &(ref change, later, span)) = (found, wanted);
    let new = change.of(old, table.level);
    let refused = change.refuse_write_execute && new.is_write_execute();
    let retyped = (old.0 ^ new.0) & Attributes::MEMORY_TYPE.bits() != 0;
    if refused || retyped || !locked.state.is_leaf(old, table.level) {
        return Tried::Long;
    }
    if new == old {
        return Tried::Done;
    }
    if !span.covers(at.first, at.last) || old.is_contiguous() {
        return resize(locked, found, wanted);
    }
    locked.store(&table, found.index, new);
    finish(locked, found, (later, span));
    Tried::Done
}

/// Cuts a larger leaf, or dissolves a run, and changes the part in the span.
#[inline(never)]
fn resize<P: Platform>(locked: &Locked<'_, P>, found: &Found, &(change, later, span): &Wanted) -> Tried {
    let (state, &Found { table, index, entry: old, at }) = (locked.state, found);
    let whole = span.covers(at.first, at.last);
    let dissolves = locked.run(&table, old);
    let changing = table.run_of(index, dissolves.unwrap_or(1));
    if old.is_valid() && !state.may_resize(locked.platform)
        || !state.owned().covers(changing.first, changing.last)
        || locked.covers(changing).is_err()
    {
        return Tried::Long;
    }
    let mut resize = Resize { table, index, dissolves, link: None };
    if !whole {
        let frames = tables_for_ends(locked.geometry, table.level, at, span);
        if locked.reserve.count() < frames {
            return Tried::Frames(frames);
        }
        let Ok(link) = locked.replacement(change, span).leaf(old, &table, table.va(index)) else {
            return Tried::Long;
        };
        resize.link = Some(link);
    }
    locked.settle(span);
    resize.one_in_place(locked);
    if whole {
        locked.store(&table, index, change.of(old, table.level).without_contiguous());
    }
    finish(locked, found, (later, span));
    Tried::Done
}

/// Completes the change of a leaf: one TLB entry held it, so that any of its addresses invalidates it (D8.17, RLGSCG).
#[inline(always)]
fn finish<P: Platform>(locked: &Locked<'_, P>, found: &Found, (later, span): (bool, Span)) {
    let was_valid = found.entry.is_valid();
    if later && was_valid {
        let (Span { first, last }, entry_shift) = (span, found.table.shift);
        locked.state.leave_pending_in(locked.locks.lowest(), Invalidated { first, last, entry_shift });
    }
    finish_one(locked, was_valid && !later, span.first);
}

impl Mapping {
    /// Maps by one leaf in the place of a hole. Returns false, and has done nothing, if it takes the long form.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(crate) fn map_one<P: Platform>(&self, state: &MapState, platform: &P) -> Result<bool, OutOfFrames> {
        in_one_hold(state, platform, (false, self.span), |locked, found| {
            let &Found { table, index, entry, .. } = found;
            let is_free = !entry.is_valid() && !state.is_leaf(entry, table.level);
            if !is_free || !self.is_leaf(locked, &table, index) || locked.sees_published().is_err() {
                return Tried::Long;
            }
            let leaf = Leaf { oa: self.oa, attributes: self.attributes, contiguous: false, valid: true };
            locked.store(&table, index, Descriptor::leaf(leaf, locked.geometry, table.level));
            locked.counters().leaves(table.level, false, 1);
            finish(locked, found, (false, self.span));
            Tried::Done
        })
    }
}

/// Removes one leaf whose table stays in use. Returns false, and has done nothing, if it takes the long form.
///
/// # Errors
///
/// There is none.
pub(crate) fn unmap_one<P: Platform>(
    state: &MapState,
    platform: &P,
    span: Span,
) -> Result<bool, OutOfFrames> {
    in_one_hold(state, platform, (false, span), |locked, found| {
        let (g, &Found { table, index, entry, at }) = (locked.geometry, found);
        let is_whole = span.covers(at.first, at.last) && !entry.is_contiguous();
        let in_use = |index: usize| locked.load(&table, index) != Descriptor::HOLE;
        let stays = index > 0 && in_use(index - 1) || index + 1 < g.entries(table.level) && in_use(index + 1);
        // Nobody else removes those beside it then.
        let alone = locked.covers(table.span_of_all(g)).is_ok();
        if !is_whole || !state.is_leaf(entry, table.level) || !stays || !alone {
            return Tried::Long;
        }
        locked.store(&table, index, Descriptor::HOLE);
        locked.counters().leaves(table.level, false, -1);
        finish(locked, found, (false, span));
        Tried::Done
    })
}
