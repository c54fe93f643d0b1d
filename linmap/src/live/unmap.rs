//! Removes mappings, and the tables that become empty.

use core::convert::Infallible;

use crate::format::{Descriptor, LeafChange, Level, Span, Va};
use crate::live::error::{ChangeError, refusal};
use crate::live::locked::{LeafVisitor, LiveVisitor, Locked};
use crate::live::protect::prepare;
use crate::live::table_pages::DeferredTables;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::Platform;
use crate::read::{Table, visit_span};

/// Removes the mappings of a span, or does nothing.
///
/// # Errors
///
/// As for a change of permissions.
pub(crate) fn unmap<P: Platform>(locked: &Locked<'_, P>, span: Span) -> Result<(), ChangeError> {
    let root = locked.root();
    let mut unmap = Unmap::new(span);
    prepare(locked, locked.state.policy(), &root, (LeafChange::REMOVE, span), &mut unmap.batch)?;
    unmap.span(locked, span);
    unmap.finish(locked);
    Ok(())
}

/// Removes the mappings of several ranges of pages with one batch of invalidations, or does nothing. No leaf changes
/// its size.
///
/// # Errors
///
/// A range that is not mapped everywhere, or that contains only a part of a leaf.
pub(crate) fn unmap_all<P: Platform>(
    locked: &Locked<'_, P>,
    ranges: &[(Va, u64)],
) -> Result<(), ChangeError> {
    let spans = || ranges.iter().filter_map(|&(va, pages)| locked.state.span(va, pages).transpose());
    let Some(first) = spans().next() else { return Ok(()) };
    for span in spans() {
        let span = span?;
        locked.visit_leaves(&locked.deepest(locked.root(), span), span, &mut WholeLeaves(span))?;
    }
    let mut unmap = Unmap::new(first?);
    for span in spans() {
        let span = span?;
        locked.state.dirty.mark(span);
        unmap.span(locked, span);
    }
    unmap.finish(locked);
    Ok(())
}

/// Checks that all of a span is mapped, by leaves and runs within the span.
struct WholeLeaves(Span);

impl<P: Platform> LeafVisitor<P> for WholeLeaves {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, ChangeError> {
        if !old.is_leaf(locked.geometry, table.level) {
            return Err(refusal(table.va(index).max(self.0.first), table.level, old, locked.geometry));
        }
        let leaf = table.run_of(index, locked.run(table, old).unwrap_or(1));
        if !self.0.covers(leaf.first, leaf.last) {
            let policy = locked.state.policy();
            return Err(ChangeError::NeedsResize { va: Va(leaf.first), policy });
        }
        Ok(index + 1)
    }
}

/// The removal of mappings.
struct Unmap {
    span: Span,
    batch: TlbBatch,
    deferred: DeferredTables,
}

impl Unmap {
    const fn new(span: Span) -> Self {
        Self { span, batch: TlbBatch::new(), deferred: DeferredTables::new() }
    }

    /// Removes the leaves of a span, which are all within it. It starts at the root, since tables above can become
    /// empty.
    fn span<P: Platform>(&mut self, locked: &Locked<'_, P>, span: Span) {
        self.span = span;
        let Ok(()) = visit_span(locked, &locked.root(), span, self);
    }

    fn finish<P: Platform>(mut self, locked: &Locked<'_, P>) {
        self.batch.finish(locked);
        self.deferred.give(locked);
    }

    /// Removes a table from the tree, with the tables below it down to `level`.
    fn table<P: Platform>(
        &mut self,
        locked: &Locked<'_, P>,
        (table, index): (&Table, usize),
        (below, level): (&Table, Level),
    ) {
        locked.store(table, index, Descriptor::HOLE);
        self.deferred.add((below.pa, level), &mut self.batch, locked);
    }
}

impl<P: Platform> LiveVisitor<P> for Unmap {
    type Stop = Infallible;

    #[inline(always)]
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Infallible> {
        if old != Descriptor::HOLE {
            locked.store(table, index, Descriptor::HOLE);
            locked.counters().leaves(table.level, old.is_contiguous(), -1);
            if old.is_valid() {
                let at = table.span_of(index);
                self.batch.add(at.first, at.last, table.shift);
            }
        }
        Ok(index + 1)
    }

    /// A table within the span is removed entirely.
    fn enter(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
        old: Descriptor,
    ) -> Result<bool, Infallible> {
        let at = table.span_of(index);
        if !self.span.covers(at.first, at.last) {
            return Ok(true);
        }
        let below = locked.below(table, index, old);
        uncount_table(locked);
        let Ok(()) = visit_span(locked, &below, at, &mut Uncount);
        self.batch.add(at.first, at.last, locked.geometry.page_shift());
        self.table(locked, (table, index), (&below, below.level));
        Ok(false)
    }

    fn leave(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
        below: &Table,
    ) -> Result<(), Infallible> {
        if is_empty(locked, below) {
            uncount_table(locked);
            // The leaves are in the batch. Walk caches drop the table by any of its addresses.
            let (first, g) = (table.va(index), locked.geometry);
            self.batch.add(first, first + (g.page_size() - 1), g.page_shift());
            // There are no tables below it.
            self.table(locked, (table, index), (below, Level::PAGE));
        }
        Ok(())
    }
}

/// Subtracts a table from the counts.
fn uncount_table<P: Platform>(locked: &Locked<'_, P>) {
    locked.counters().no_table();
    locked.counters().collapsed(1);
}

/// Subtracts everything below a table from the counts.
struct Uncount;

impl<P: Platform> LiveVisitor<P> for Uncount {
    type Stop = Infallible;

    #[inline(always)]
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Infallible> {
        if old.is_leaf(locked.geometry, table.level) {
            locked.counters().leaves(table.level, old.is_contiguous(), -1);
        }
        Ok(index + 1)
    }

    fn enter(
        &mut self,
        locked: &Locked<'_, P>,
        _: &Table,
        _: usize,
        _: Descriptor,
    ) -> Result<bool, Infallible> {
        uncount_table(locked);
        Ok(true)
    }
}

fn is_empty<P: Platform>(locked: &Locked<'_, P>, table: &Table) -> bool {
    let entries = locked.geometry.entries(table.level);
    // A root may have fewer than eight entries.
    let eights = entries & !7;
    let is_hole = |entry: &Descriptor| *entry == Descriptor::HOLE;
    (0..eights).step_by(8).all(|index| locked.load_eight(table, index).iter().all(is_hole))
        && (eights..entries).all(|index| is_hole(&locked.load(table, index)))
}
