//! Takes the access flag of a range: clears it, and says how much of the range has been accessed.

use core::convert::Infallible;

use crate::batch::TlbBatch;
use crate::edit::call::{Call, Caller};
use crate::edit::driver::{Operation, Piece, Spans, Way};
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::format::{Attributes, LeafChange, Va};
use crate::read::{Entries, visit_span};

const CLEARED: LeafChange = LeafChange::of_bits((Attributes::ACCESSED.bits(), 0));

/// The operation: the bytes that had been accessed, and what TLBs may hold of them.
struct TakeAccessFlag {
    accessed: u64,
    batch: TlbBatch,
}

impl<G: Guard> Operation<G> for TakeAccessFlag {
    fn change(&self) -> LeafChange {
        LeafChange { skip_holes: true, ..CLEARED }
    }

    /// A leaf that is cut has its change in its new tables, so nobody would count it.
    fn cuts(&self) -> bool {
        false
    }

    fn batch(&mut self) -> &mut TlbBatch {
        &mut self.batch
    }

    fn apply(&mut self, editor: &Editor<'_, G>, way: &mut Way, Piece { piece, .. }: Piece, _: bool) {
        let Ok(()) = visit_span(editor, &way.to(editor, piece), piece, self);
    }

    fn end(&mut self, editor: &Editor<'_, G>) {
        self.batch.finish(editor);
    }
}

impl<G: Guard> LiveVisitor<G> for TakeAccessFlag {
    type Stop = Infallible;

    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Infallible> {
        let Entries { table, index, entry: old, .. } = at;
        let new = CLEARED.of(old, table.level);
        if new != old && old.is_valid() {
            let leaf = table.span_of(index);
            editor.store(table, index, new);
            self.batch.add(leaf.first, leaf.last, table.shift);
            self.accessed += 1 << table.shift;
        }
        Ok(index + 1)
    }
}

/// Clears the access flags of `pages` pages from `va` on. Returns the bytes of those leaves that had it.
///
/// # Errors
///
/// A leaf that is only partly in the range, or a claim in the way.
pub(crate) fn take_access_flag<G: Guard>(caller: Caller<'_, G>, va: Va, pages: u64) -> Result<u64, ChangeError> {
    let Some(span) = caller.tables().span(va, pages)? else { return Ok(0) };
    let mut taken = TakeAccessFlag { accessed: 0, batch: TlbBatch::new() };
    Spans::one::<G>(span).run(&mut Call::new(caller), &mut taken)?;
    Ok(taken.accessed)
}
