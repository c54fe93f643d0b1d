//! Merges one table of pages into a block, in the shortest way: what a kernel does when it has made pages alike again.
//!
//! It is for a table whose block joins no run and has no uniform neighbours, on CPUs that never abort, and while nobody has claimed
//! or left anything. All else is left to the general way (`collapse.rs`), which is told if the table is not uniform.

use core::mem::ManuallyDrop;

use crate::format::{Level, Span, TableLimits};
use crate::live::deferred_tables::retire;
use crate::live::invalidated::Invalidated;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::live::tlb_batch::finish_range;
use crate::live::uniform::{block_for, follow};
use crate::platform::Platform;
use crate::read::Table;

/// The outcome of a merge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merged {
    /// It is a block now.
    Done,
    /// Nothing has changed: its entries differ.
    Differs,
    /// Nothing has changed: something else has to be looked for.
    Other,
}

/// Merges the table of pages that translates all of a span.
pub(crate) fn merge_table<P: Platform>(state: &MapState, platform: &P, span: Span) -> Merged {
    // It stays empty, and as nobody else sees it, it takes no instruction.
    let (number, reserve) = (LockSet::number::<P>(span.first), ManuallyDrop::new(Reserve::new(platform)));
    let _held = platform.lock(number);
    if state.attention.is_needed() || !state.may_resize(platform) {
        return Merged::Other;
    }
    let locked = &Locked::of_one(platform, state, number, &reserve);
    let Some((above, index)) = entry_above(locked, span.first) else { return Merged::Other };
    merge(locked, &above, index)
}

/// Returns the place of the entry that may point to the table of pages for an address.
#[inline(always)]
fn entry_above<P: Platform>(locked: &Locked<'_, P>, va: u64) -> Option<(Table, usize)> {
    let (mut table, last) = (locked.root(), Level::PAGE.down(-1));
    while table.level != last {
        let index = table.index_of(va);
        let entry = locked.load(&table, index);
        if !entry.is_link() {
            return None;
        }
        table = locked.below(&table, index, entry);
    }
    Some((table, table.index_of(va)))
}

/// Merges the table that an entry points to.
#[inline(always)]
fn merge<P: Platform>(locked: &Locked<'_, P>, above: &Table, index: usize) -> Merged {
    let (state, g, entry) = (locked.state, locked.geometry, locked.load(above, index));
    if !entry.is_link() || !TableLimits::of(entry).is_empty() {
        return Merged::Other;
    }
    let pages = locked.below(above, index, entry);
    let raw = locked.load(&pages, 0);
    let Some(block) = block_for(g, &pages, raw) else { return Merged::Differs };
    // A run has both of two, and so has a table that is uniform.
    let other = locked.load(above, index ^ 1).without_contiguous().0;
    if other ^ block.0 == 1 << above.shift {
        return Merged::Other;
    }
    match follow(locked, &pages, raw, 1 << pages.shift, true) {
        Some(false) => {}
        Some(true) => return Merged::Other,
        None => return Merged::Differs,
    }
    let (at, entries) = (above.span_of(index), g.entries(Level::PAGE) as i64);
    let share = state.share(locked.locks.lowest());
    let version = share.changes_begin();
    locked.store(above, index, block);
    share.counters.no_table();
    share.counters.leaves(Level::PAGE, raw.is_contiguous(), -entries);
    share.counters.leaves(above.level, false, 1);
    share.counters.collapsed(1);
    let range = Invalidated { first: at.first, last: at.last, entry_shift: pages.shift };
    finish_range(locked.platform, g, &share.counters, &range);
    retire(locked, &pages);
    share.changes_end(version);
    Merged::Done
}
