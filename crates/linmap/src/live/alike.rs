//! Changes pages that differ only in their addresses and contiguous runs, in the first hold of a call. So pages that lie next to
//! each other cost little more than their entries.

use core::mem::ManuallyDrop;

use crate::format::{Descriptor, LeafChange, Level, Span};
use crate::live::in_place::InPlace;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::Platform;
use crate::read::Table;

/// Changes all of a span if it is mapped in pages that differ only in that, and no run has to be dissolved. Returns false, and
/// has done nothing, in all other cases. `table` translates all of the span. The holder has its lock, and nothing else has to
/// be looked for.
#[inline(never)]
pub(crate) fn change_alike<P: Platform>(
    state: &MapState,
    platform: &P,
    table: Table,
    &(change, later, span): &(LeafChange, bool, Span),
) -> bool {
    let (reserve, number) = (ManuallyDrop::new(Reserve::new(platform)), LockSet::number::<P>(span.first));
    let (locked, table) = (&Locked::of_one(platform, state, number, &reserve), &table);
    if (span.last - span.first) >> locked.geometry.page_shift() >= P::HOLD as u64 {
        return false;
    }
    let Some((old, new)) = what_all_become(locked, table, (change, span)) else { return false };
    if new == old {
        return true;
    }
    let share = state.share(number);
    let (version, mut batch) = (share.changes_begin(), TlbBatch::of(later));
    each_table(locked, table, span, |table, part| {
        InPlace::new(change, true, &mut batch).run(locked, table, part);
        true
    });
    batch.finish(locked);
    share.changes_end(version);
    true
}

/// Returns the first entry of a span and what it becomes, if all entries are pages that differ only in their addresses and
/// runs, and may change without a change of size.
#[inline(always)]
fn what_all_become<P: Platform>(
    locked: &Locked<'_, P>,
    table: &Table,
    (change, span): (LeafChange, Span),
) -> Option<(Descriptor, Descriptor)> {
    let mut all = None;
    let same = each_table(locked, table, span, |table, part| {
        let (index, last) = (table.index_of(part.first), table.index_of(part.last));
        let (old, new) = *all.get_or_insert_with(|| {
            let old = locked.load(table, index);
            (old, change.of(old, Level::PAGE))
        });
        let refused = change.refuse_write_execute && new.is_write_execute();
        let cuts = |index| locked.dissolves(table, index, locked.load(table, index), span);
        let cut = part.first == span.first && cuts(index) || part.last == span.last && cuts(last);
        !refused
            && locked.state.is_leaf(old, Level::PAGE)
            && !cut
            && locked.same_but(Descriptor::PAGE, table, (index, last), old) > last
    });
    all.filter(|_| same)
}

/// Calls `work` for each page table of a span and what it has of the span, until that returns false. Returns true if it has
/// not, and if there are page tables everywhere.
#[inline(always)]
fn each_table<P: Platform>(
    locked: &Locked<'_, P>,
    above: &Table,
    span: Span,
    mut work: impl FnMut(&Table, Span) -> bool,
) -> bool {
    let mut part = span;
    loop {
        let at = Span { first: part.first, last: part.first };
        let table = if above.level == Level::PAGE { *above } else { locked.deepest(*above, at) };
        part.last = span.last.min(table.span_of_all(locked.geometry).last);
        if table.level != Level::PAGE || !work(&table, part) {
            return false;
        }
        if part.last == span.last {
            return true;
        }
        part.first = part.last + 1;
    }
}
