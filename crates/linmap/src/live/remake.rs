//! The parts of a remake: a look at leaves, and the operation by which they go out and come back.
//!
//! A leaf becomes present-invalid by one store, and TLBs drop it (D8.17.1 RDDMVT). It comes back by one store: nothing is invalidated then,
//! since no TLB holds what faults (D8.17, IWZCBG).

use core::convert::Infallible;

use crate::format::{Descriptor, LeafChange, Remade, Span, Va};
use crate::live::attempt::Call;
use crate::live::driver::{Operation, Piece, Way};
use crate::live::error::{ChangeError, refusal};
use crate::live::locked::{LeafVisitor, LiveVisitor, Locked};
use crate::live::stop::Stop;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::Platform;
use crate::read::{Table, visit_span};

/// Looks at all leaves of a span. Returns true if some are not yet what they shall be.
///
/// # Errors
///
/// A hole; a leaf that would become both writable and executable. If the span `is_cut`, so that no leaf reaches beyond it: a leaf or run that
/// cannot lead where it shall, because of its size.
pub(crate) fn look<P: Platform>(
    call: &mut Call<'_, P>,
    remade: &Remade,
    (span, is_cut): (Span, bool),
) -> Result<bool, ChangeError> {
    let mut look = Look { remade, span, is_cut, changes: false };
    call.pieces(span, |locked, piece| locked.visit_leaves(&locked.table_of(piece), piece, &mut look))?;
    Ok(look.changes)
}

struct Look<'r> {
    remade: &'r Remade,
    span: Span,
    is_cut: bool,
    changes: bool,
}

impl<P: Platform> LeafVisitor<P> for Look<'_> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let (end, first) = (locked.slots(table).alike((index, last), old), table.va(index));
        let va = Va(first.max(self.span.first));
        if !locked.state.is_leaf(old, table.level) {
            return Err(refusal(va.0, table.level, old, locked.geometry).into());
        }
        let refuses =
            LeafChange { refuse_write_execute: !locked.state.allows_write_execute(), ..LeafChange::NONE };
        if locked.refuses(refuses, self.remade.leaf(old, first, table.level), first) {
            return Err(ChangeError::WriteExecute { va }.into());
        }
        let leaf = table.run_of(index, locked.run(table, old).unwrap_or(1));
        if self.is_cut
            && let Some(oa) = self.remade.misfit(leaf)
        {
            let (va, bytes) = (Va(leaf.first), leaf.last - leaf.first + 1);
            return Err(ChangeError::Misfit { va, bytes, oa }.into());
        }
        let is_made = |index: usize| {
            let leaf = table.span_of(index);
            self.remade.is_made(locked.load(table, index), table.level, leaf, leaf.common(self.span))
        };
        self.changes = self.changes || !(index..end).all(is_made);
        Ok(end)
    }
}

/// The operation that takes leaves out, or puts them back.
pub(crate) struct OutOrBack<'r> {
    /// The leaves as they shall be that come back. None of them is in a TLB.
    back: Option<&'r Remade>,
    /// True if the spans are claimed. Otherwise TLBs have dropped the leaves when each hold ends: the next holder may rely on it.
    is_claimed: bool,
    batch: TlbBatch,
}

impl<'r> OutOrBack<'r> {
    pub(crate) const fn out(is_claimed: bool) -> Self {
        Self { back: None, is_claimed, batch: TlbBatch::new() }
    }

    pub(crate) const fn back(remade: &'r Remade) -> Self {
        Self { back: Some(remade), ..Self::out(true) }
    }
}

impl<P: Platform> Operation<P> for OutOrBack<'_> {
    fn change(&self) -> LeafChange {
        LeafChange::REMOVE
    }

    fn batch(&mut self) -> &mut TlbBatch {
        &mut self.batch
    }

    fn apply(&mut self, locked: &Locked<'_, P>, way: &mut Way, Piece { piece, .. }: Piece, _: bool) {
        let Ok(()) = visit_span(locked, &way.to(locked, piece), piece, self);
    }

    fn end_piece(&mut self, locked: &Locked<'_, P>) {
        if self.is_claimed { locked.publish_barrier() } else { self.end(locked) }
    }

    fn end(&mut self, locked: &Locked<'_, P>) {
        self.batch.finish(locked);
        self.batch.clear();
    }
}

impl<P: Platform> LiveVisitor<P> for OutOrBack<'_> {
    type Stop = Infallible;

    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Infallible> {
        let end = locked.slots(table).alike((index, last), old);
        if !old.is_leaf(locked.geometry, table.level) {
            return Ok(end);
        }
        for at in index..end {
            let old = locked.load(table, at);
            let new = match self.back {
                Some(remade) => remade.leaf(old, table.va(at), table.level),
                None => old.taken_out(),
            };
            if new != old {
                locked.store(table, at, new);
            }
        }
        if self.back.is_none() && old.is_valid() {
            let out = Span { first: table.va(index), last: table.span_of(end - 1).last };
            self.batch.add(out.first, out.last, table.shift);
        }
        Ok(end)
    }
}
