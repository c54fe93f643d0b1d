//! Changes the leaves of a range in place. No leaf changes its size, and nothing can fail.

use core::convert::Infallible;

use crate::batch::TlbBatch;
use crate::edit::driver::{Operation, Piece, Way};
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::guard::Guard;
use crate::format::{Descriptor, LeafChange, Level, Span};
use crate::read::{Table, visit_span};

/// The operation that changes all leaves of some spans.
pub(crate) struct InPlaceChange {
    change: LeafChange,
    batch: TlbBatch,
}

impl InPlaceChange {
    /// Returns the operation. Its invalidations are left to a flush if `later`.
    pub(crate) const fn new(change: LeafChange, later: bool) -> Self {
        Self { change, batch: TlbBatch::of(later) }
    }
}

impl<G: Guard> Operation<G> for InPlaceChange {
    fn change(&self) -> LeafChange {
        self.change
    }

    fn batch(&mut self) -> &mut TlbBatch {
        &mut self.batch
    }

    #[inline(always)]
    fn apply(&mut self, editor: &Editor<'_, G>, way: &mut Way, Piece { piece, .. }: Piece, alike: bool) {
        InPlace::new(self.change, alike, &mut self.batch).run(editor, &way.to(editor, piece), piece);
    }

    fn end(&mut self, editor: &Editor<'_, G>) {
        self.batch.finish(editor);
    }
}

/// A change in place, of one range or of several with one batch of invalidations.
pub(crate) struct InPlace<'b> {
    change: LeafChange,
    /// True if the same bits change in all leaves, all leaves or none are valid, and each is visited once.
    alike: bool,
    /// The range that is being changed.
    span: Span,
    batch: &'b mut TlbBatch,
}

impl<'b> InPlace<'b> {
    pub(crate) const fn new(change: LeafChange, alike: bool, batch: &'b mut TlbBatch) -> Self {
        Self { change, alike, span: Span { first: 0, last: 0 }, batch }
    }

    /// Changes the leaves within a span, in a table that translates all of the span.
    #[inline]
    pub(crate) fn run<G: Guard>(&mut self, editor: &Editor<'_, G>, table: &Table, span: Span) {
        self.span = span;
        if self.alike && table.level == Level::PAGE {
            return self.page_table(editor, table);
        }
        if table.level == Level::PAGE && (span.first ^ span.last) >> table.shift == 0 {
            let index = table.index_of(span.first);
            return self.one(editor, table, index, editor.load(table, index));
        }
        let Ok(()) = visit_span(editor, table, span, self);
    }

    /// Changes the pages of the span in a page table. The same bits change in all of them.
    #[inline(always)]
    fn page_table<G: Guard>(&mut self, editor: &Editor<'_, G>, table: &Table) {
        let (first, last) = table.entries_of(self.span, editor.geometry);
        self.all_alike(editor, table, (first, last), editor.load(table, first));
    }

    #[inline(always)]
    fn one<G: Guard>(&mut self, editor: &Editor<'_, G>, table: &Table, index: usize, old: Descriptor) {
        let new = self.change.of(old, table.level);
        if new != old && editor.tables().is_leaf(old, table.level) {
            editor.store(table, index, new);
            if old.is_valid() {
                let at = table.span_of(index);
                self.batch.add(at.first, at.last, table.shift);
            }
        }
    }

    /// Changes leaves up to the next table descriptor, as [`each_leaf`](Editor::each_leaf) does.
    #[inline(never)]
    fn entries<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        at: (usize, usize),
        old: Descriptor,
    ) -> usize {
        if !self.alike && table.level == Level::PAGE {
            return self.pages(editor, table, at, old);
        }
        let Ok(end) = editor.each_leaf(table, at, old, |(index, last), old| {
            let end = if self.alike { editor.slots(table).alike((index, last), old) } else { index + 1 };
            match end - index {
                1 => self.one(editor, table, index, old),
                _ => self.all_alike(editor, table, (index, end - 1), old),
            }
            Ok::<_, Infallible>(end)
        });
        end
    }

    /// Changes pages whose bits differ. The bits that change are those of the last page of the same kind, if there was one.
    fn pages<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        (first, last): (usize, usize),
        old: Descriptor,
    ) -> usize {
        let change_of = |entry: Descriptor| {
            let is_leaf = editor.tables().is_leaf(entry, Level::PAGE);
            (entry.kind(), if is_leaf { self.change.of(entry, Level::PAGE).0 ^ entry.0 } else { 0 })
        };
        let mut known = [change_of(old); 2];
        for index in first..=last {
            let entry = editor.load(table, index);
            if known[0].0 != entry.kind() {
                known.swap(0, 1);
                if known[0].0 != entry.kind() {
                    known[0] = change_of(entry);
                }
            }
            let changes = known[0].1;
            if changes != 0 {
                editor.store(table, index, Descriptor(entry.0 ^ changes));
                if entry.is_valid() {
                    let at = table.span_of(index);
                    self.batch.add(at.first, at.last, table.shift);
                }
            }
        }
        last + 1
    }

    /// Changes leaves from one entry of a table to another, both included. The same bits change in all of them, so only
    /// the first is examined. A table that was built for this operation already has the change, as its first entry
    /// shows.
    #[inline(never)]
    fn all_alike<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        (first, last): (usize, usize),
        old: Descriptor,
    ) {
        let changes = self.change.of(old, table.level).0 ^ old.0;
        if changes == 0 {
            return;
        }
        editor.slots(table).flip((first, last + 1), changes);
        if old.is_valid() {
            self.batch.add(table.va(first), table.span_of(last).last, table.shift);
        }
    }
}

impl<G: Guard> LiveVisitor<G> for InPlace<'_> {
    type Stop = Infallible;

    #[inline(always)]
    fn leaves(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Infallible> {
        Ok(self.entries(editor, table, (index, last), old))
    }

    #[inline(always)]
    fn enter(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        index: usize,
        old: Descriptor,
    ) -> Result<bool, Infallible> {
        let below = editor.below(table, index, old);
        if self.alike && below.level == Level::PAGE {
            self.page_table(editor, &below);
            return Ok(false);
        }
        Ok(true)
    }
}
