//! Changes the permissions or the validity of a range, or of pages that are listed one by one, whatever their leaves.
//!
//! Most changes are of one leaf, or of a page of one (`one_leaf.rs`). Any other range is one span for the driver (`driver.rs`). In a list,
//! pages that follow each other are one range. Leaves change in place: where the driver lets this operation store, none changes its size,
//! and nothing can fail.

use core::convert::Infallible;

use crate::batch::TlbBatch;
use crate::edit::call::{Call, Caller};
use crate::edit::driver::{Operation, Piece, Spans, Way};
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::one_leaf::{Wanted, in_one_hold};
use crate::format::{Descriptor, LeafChange, Level, Span, Va};
use crate::read::{Entries, Table, visit_span};

/// Changes all leaves of a span, or none.
///
/// # Errors
///
/// The survey's errors; out of frames; a change of size that the policy or the CPUs do not permit; a claim in the way.
#[inline(always)]
pub(crate) fn protect<G: Guard>(caller: Caller<'_, G>, wanted: Wanted) -> Result<(), ChangeError> {
    if in_one_hold::<G>(caller.platform, caller.owner, &wanted)? { Ok(()) } else { leaves(caller, wanted) }
}

/// Changes the leaves of a span by the driver.
#[inline(never)]
fn leaves<G: Guard>(caller: Caller<'_, G>, (change, later, span): Wanted) -> Result<(), ChangeError> {
    Spans::one::<G>(span).run(&mut Call::of(caller, later), &mut InPlaceChange::new(change, later))
}

/// The ranges of a list of pages: each as long as pages follow each other.
#[derive(Clone)]
pub(crate) struct Ranges<I> {
    /// The bytes of a page.
    page: u64,
    pages: I,
    /// The page after the last range, if it is known.
    next: Option<Va>,
}

impl<I: Iterator<Item = Va> + Clone> Ranges<I> {
    pub(crate) const fn of(page: u64, pages: I) -> Self {
        Self { page, pages, next: None }
    }
}

impl<I: Iterator<Item = Va> + Clone> Iterator for Ranges<I> {
    /// A page that is unaligned or outside the half is first in its range, or the range ends outside the half.
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        let first = self.next.take().or_else(|| self.pages.next())?.0;
        let page = self.page;
        let mut end = first.wrapping_add(page);
        for va in self.pages.by_ref() {
            if va.0 != end {
                self.next = Some(va);
                break;
            }
            end = end.wrapping_add(page);
        }
        Some(Span { first, last: end.wrapping_sub(1) })
    }
}

/// Changes all leaves of some ranges of pages, or none.
///
/// # Errors
///
/// A page is unaligned or outside the half; as for a change of one range.
#[inline(never)]
pub(crate) fn change_ranges<G: Guard, I: Iterator<Item = Va> + Clone>(
    caller: Caller<'_, G>,
    ranges: Ranges<I>,
    (change, later): (LeafChange, bool),
) -> Result<(), ChangeError> {
    let mut listed = 0;
    for span in ranges.clone() {
        let pages =
            span.last.wrapping_sub(span.first).wrapping_add(1) >> caller.tables().geometry().page_shift();
        caller.tables().span(Va(span.first), pages)?;
        listed += pages;
    }
    let Some(spans) = Spans::of::<G>(ranges, listed) else { return Ok(()) };
    match spans.only() {
        Some(span) => protect(caller, (change, later, span)),
        None => change_spans(caller, &spans, (change, later)),
    }
}

/// Changes several spans. One has no use for the stack that this takes.
#[inline(never)]
fn change_spans<G: Guard>(
    caller: Caller<'_, G>,
    spans: &Spans<impl Iterator<Item = Span> + Clone>,
    (change, later): (LeafChange, bool),
) -> Result<(), ChangeError> {
    spans.run(&mut Call::of(caller, later), &mut InPlaceChange::new(change, later))
}

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
        self.all_alike(editor, Entries { table, index: first, last, entry: editor.load(table, first) });
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
    fn entries<G: Guard>(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> usize {
        if !self.alike && at.table.level == Level::PAGE {
            return self.pages(editor, at);
        }
        let Ok(end) = editor.each_leaf(at, |at| {
            let Entries { table, index, last, entry: old } = at;
            let end = if self.alike { editor.slots(table).alike((index, last), old) } else { index + 1 };
            match end - index {
                1 => self.one(editor, table, index, old),
                _ => self.all_alike(editor, Entries { last: end - 1, ..at }),
            }
            Ok::<_, Infallible>(end)
        });
        end
    }

    /// Changes pages whose bits differ. The bits that change are those of the last page of the same kind, if there was one.
    fn pages<G: Guard>(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> usize {
        let Entries { table, index: first, last, entry: old } = at;
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

    /// Changes leaves. The same bits change in all of them, so only the first is examined. A table that was built for this operation
    /// already has the change, as its first entry shows.
    #[inline(never)]
    fn all_alike<G: Guard>(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) {
        let Entries { table, index: first, last, entry: old } = at;
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
    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Infallible> {
        Ok(self.entries(editor, at))
    }

    #[inline(always)]
    fn enter(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<bool, Infallible> {
        let below = editor.below(at.table, at.index, at.entry);
        if self.alike && below.level == Level::PAGE {
            self.page_table(editor, &below);
            return Ok(false);
        }
        Ok(true)
    }
}
