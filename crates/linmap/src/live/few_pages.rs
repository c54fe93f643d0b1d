//! Changes a few pages that lie next to each other: a module, a stack, a buffer.
//!
//! The common case alone: entries of one page table that differ only in their addresses, and no run that is dissolved. Anything
//! else is left to the general way (`protect.rs`), and nothing has been done then.

use core::mem::ManuallyDrop;

use crate::format::{Descriptor, LeafChange, Level, Span};
use crate::live::invalidated::Invalidated;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::live::tlb_batch::complete_range;
use crate::platform::Platform;
use crate::read::Table;

/// The most pages that are changed in this way. More are compared by vectors, where there are any (`alike.rs`).
pub(crate) const FEW: u64 = 16;

/// Changes a span of at most [`FEW`] pages. Returns false, and has done nothing, if it is to be changed in another way.
#[inline(never)]
pub(crate) fn change_few<P: Platform>(
    state: &MapState,
    platform: &P,
    change: &LeafChange,
    span: Span,
) -> bool {
    let number = LockSet::number::<P>(span.first);
    let Some(_held) = platform.try_lock(number) else { return false };
    if state.attention.is_needed() {
        return false;
    }
    // It stays empty, and as nobody else sees it, it takes no instruction.
    let reserve = ManuallyDrop::new(Reserve::new(platform));
    let locked = &Locked::of_one(platform, state, number, &reserve);
    let table = locked.table_of(span);
    if table.level != Level::PAGE {
        return false;
    }
    let (first, end) = (table.index_of(span.first), table.index_of(span.last) + 1);
    let old = locked.load(&table, first);
    let new = change.of_page(old);
    if !state.is_leaf(old, Level::PAGE)
        || new.is_write_execute()
        || !are_alike(locked, &table, (first, end), (old, span))
    {
        return false;
    }
    if new != old {
        let share = state.share(number);
        let version = share.changes_begin();
        for index in first..end {
            let entry = locked.load(&table, index);
            locked.store(&table, index, Descriptor(entry.0 ^ old.0 ^ new.0));
        }
        let range = Invalidated { first: span.first, last: span.last, entry_shift: table.shift };
        complete_range(platform, state.geometry(), &share.counters, old.is_valid(), &range);
        share.changes_end(version);
    }
    true
}

/// Returns true if entries differ from the first only in their addresses and runs, and all of each run is in the span.
#[inline(always)]
fn are_alike<P: Platform>(
    locked: &Locked<'_, P>,
    table: &Table,
    (first, end): (usize, usize),
    (old, span): (Descriptor, Span),
) -> bool {
    // A call that compares by vectors would take longer.
    let mut differ = 0;
    for index in first + 1..end {
        differ |= locked.load(table, index).0 ^ old.0;
    }
    differ & !Descriptor::PAGE == 0
        && !locked.dissolves(table, first, old, span)
        && !locked.dissolves(table, end - 1, locked.load(table, end - 1), span)
}
