//! Changes one page that has to be cut out of a larger leaf, where that needs nothing but table pages: on CPUs that never abort,
//! and while nobody has claimed or left anything. All else is left to the general way (`protect.rs`).

use crate::format::{Change, LeafChange, Level, Span, Va};
use crate::live::change_flags::ChangeFlags;
use crate::live::error::ChangeError;
use crate::live::lock_set::{GIGABYTE, LockSet};
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::protect::change_part;
use crate::live::reserve::Reserve;
use crate::live::resize::Resize;
use crate::live::tlb_batch::finish_one;
use crate::platform::Platform;

/// Changes a page that was in a leaf at this level, above the last, a moment ago.
///
/// # Errors
///
/// As for [`change_part`].
#[inline(never)]
pub(crate) fn change_in_leaf<P: Platform>(
    state: &MapState,
    platform: &P,
    va: Va,
    change: Change,
    flags: ChangeFlags,
    level: Level,
) -> Result<(), ChangeError> {
    let (reserve, number) = (Reserve::new(platform), LockSet::number::<P>(va.0));
    // It is looked at again under the lock. A table of each level below it.
    if state.may_resize(platform) && reserve.fill((Level::PAGE.number() - level.number()) as u64).is_ok() {
        let _held = platform.lock(number);
        let locked = &Locked::of_one(platform, state, number, &reserve);
        if !state.attention.is_needed() && change_below(locked, (state.leaf_change(change), va), level) {
            return Ok(());
        }
    }
    let span = Span { first: va.0, last: va.0 + (state.geometry().page_size() - 1) };
    change_part(state, platform, &(state.leaf_change_with(change, flags), false, span), reserve, None)
}

/// Changes the page if there is still a leaf at that level. Returns false, and has done nothing, where that is refused, or takes
/// more than is there.
#[inline(always)]
fn change_below<P: Platform>(locked: &Locked<'_, P>, (change, va): (LeafChange, Va), level: Level) -> bool {
    let (state, g, mut table) = (locked.state, locked.geometry, locked.root());
    let (index, old) = loop {
        let index = table.index_of(va.0);
        let old = locked.load(&table, index);
        if table.level == level {
            break (index, old);
        }
        if !old.is_link() {
            return false;
        }
        table = locked.below(&table, index, old);
    };
    let new = change.of(old, level);
    let is_leaf = old.is_valid() && state.is_leaf(old, level);
    let span = Span { first: va.0, last: va.0 + (g.page_size() - 1) };
    let dissolves = locked.run(&table, old);
    // A leaf and its run are as large, and aligned; the map has all of it, or nothing.
    let run_shift = table.shift + dissolves.map_or(0, usize::ilog2);
    let has_lock = run_shift <= GIGABYTE && state.owned().covers(va.0, va.0);
    if !is_leaf
        || !state.may_resize(locked.platform)
        || !has_lock
        || change.refuse_write_execute && new.is_write_execute()
    {
        return false;
    }
    if new == old {
        return true;
    }
    let Ok(link) = locked.replacement(change, span).page(old, &table) else { return false };
    let share = state.share(locked.locks.lowest());
    let version = share.changes_begin();
    Resize { table, index, dissolves, link: Some(link) }.one_in_place(locked);
    finish_one(locked.platform, g, &share.counters, true, va.0);
    share.changes_end(version);
    true
}
