//! The parts of a remake: a look at leaves, and the operation by which they go out and come back.
//!
//! A leaf becomes present-invalid by one store, and TLBs drop it (D8.17.1 RDDMVT). It comes back by one store: nothing is invalidated then,
//! since no TLB holds what faults (D8.17, IWZCBG).

use core::convert::Infallible;

use crate::batch::TlbBatch;
use crate::edit::call::Call;
use crate::edit::driver::{Operation, Piece, Way};
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::error::{ChangeError, refusal};
use crate::edit::guard::Guard;
use crate::edit::stop::Stop;
use crate::format::{LeafChange, Remade, Span, Va};
use crate::read::{Entries, visit_span};

/// Looks at all leaves of a span. Returns true if some are not yet what they shall be.
///
/// # Errors
///
/// A hole; a leaf that would become both writable and executable. If the span `is_cut`, so that no leaf reaches beyond it: a leaf or run that
/// cannot lead where it shall, because of its size.
pub(crate) fn look<G: Guard>(
    call: &mut Call<'_, G>,
    remade: &Remade,
    (span, is_cut): (Span, bool),
) -> Result<bool, ChangeError> {
    let mut look = Look { remade, span, is_cut, changes: false };
    call.pieces(span, |editor, piece| visit_span(editor, &editor.table_of(piece), piece, &mut look))?;
    Ok(look.changes)
}

struct Look<'r> {
    remade: &'r Remade,
    span: Span,
    is_cut: bool,
    changes: bool,
}

impl<G: Guard> LiveVisitor<G> for Look<'_> {
    type Stop = Stop;

    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        let Entries { table, index, last, entry: old } = at;
        let (end, first) = (editor.slots(table).alike((index, last), old), table.va(index));
        let va = Va(first.max(self.span.first));
        if !editor.tables().is_leaf(old, table.level) {
            return Err(refusal(va.0, table.level, old, editor.geometry).into());
        }
        let new = self.remade.leaf(old, first, table.level);
        if new.is_write_execute() && !editor.tables().allows_write_execute() {
            return Err(ChangeError::WriteExecute { va }.into());
        }
        let leaf = table.run_of(index, editor.run(table, old).unwrap_or(1));
        if self.is_cut
            && let Some(oa) = self.remade.misfit(leaf)
        {
            let (va, bytes) = (Va(leaf.first), leaf.last - leaf.first + 1);
            return Err(ChangeError::Misfit { va, bytes, oa }.into());
        }
        let is_made = |index: usize| {
            let leaf = table.span_of(index);
            self.remade.is_made(editor.load(table, index), table.level, leaf, leaf.common(self.span))
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

impl<G: Guard> Operation<G> for OutOrBack<'_> {
    fn change(&self) -> LeafChange {
        LeafChange::REMOVE
    }

    fn batch(&mut self) -> &mut TlbBatch {
        &mut self.batch
    }

    fn apply(&mut self, editor: &Editor<'_, G>, way: &mut Way, Piece { piece, .. }: Piece, _: bool) {
        let Ok(()) = visit_span(editor, &way.to(editor, piece), piece, self);
    }

    fn end_piece(&mut self, editor: &Editor<'_, G>) {
        if self.is_claimed { editor.publish_barrier() } else { self.end(editor) }
    }

    fn end(&mut self, editor: &Editor<'_, G>) {
        self.batch.finish(editor);
    }
}

impl<G: Guard> LiveVisitor<G> for OutOrBack<'_> {
    type Stop = Infallible;

    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Infallible> {
        let Entries { table, index, last, entry: old } = at;
        let end = editor.slots(table).alike((index, last), old);
        if !old.is_leaf(editor.geometry, table.level) {
            return Ok(end);
        }
        for at in index..end {
            let old = editor.load(table, at);
            let new = match self.back {
                Some(remade) => remade.leaf(old, table.va(at), table.level),
                None => old.taken_out(),
            };
            if new != old {
                editor.store(table, at, new);
            }
        }
        if self.back.is_none() && old.is_valid() {
            let out = Span { first: table.va(index), last: table.span_of(end - 1).last };
            self.batch.add(out.first, out.last, table.shift);
        }
        Ok(end)
    }
}
