//! Maps a range in pages: every leaf in it is split down to the last level, and translates as before.
//!
//! A long range is split piece by piece. No translation changes, so others may work in the range meanwhile. All table
//! pages are taken before the first piece.

use core::iter::once;

use crate::batch::TlbBatch;
use crate::build::{Replacement, page_tables_for};
use crate::edit::call::{Call, Caller};
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::error::{ChangeError, refusal};
use crate::edit::guard::Guard;
use crate::edit::resize::{self, Resize};
use crate::edit::stop::Stop;
use crate::format::{Descriptor, LeafChange, Level, Span};
use crate::plan::Policy;
use crate::read::{Entries, Table, visit_span};

/// Splits everything that has to be split.
///
/// # Errors
///
/// A hole; a descriptor that the library would not write; out of frames; a change of size that the policy or the CPUs
/// do not permit. Nothing is split then, except where several holds are needed: leaves that were split in earlier ones stay
/// split, and translate as before.
pub(crate) fn split_to_pages<G: Guard>(caller: Caller<'_, G>, span: Span) -> Result<(), ChangeError> {
    let mut call = Call::new(caller);
    // A piece is a number of pages, since it becomes that many entries; at least one table.
    let entries = caller.tables().geometry().entries(Level::PAGE).max(G::HOLD);
    let bytes = (entries as u64) << caller.tables().geometry().page_shift();
    if span.last - span.first < bytes {
        return call.attempts(span, |editor| split(editor, span, true)).map(|_| ());
    }
    // A repaint may switch to pages after the survey, so what that found is judged by the policy before it.
    let policy = caller.tables().policy();
    let (mut tables, mut in_use) = (0, None);
    call.pieces(span, |editor, piece| {
        let found = survey(editor, span, piece)?;
        (tables, in_use) = (tables + found.tables, in_use.or(found.in_use));
        Ok(())
    })?;
    let page = Span { last: span.first, ..span };
    call.attempts(page, |editor| Ok(editor.may_resize(policy, in_use)?))?;
    call.frames(tables)?;
    call.attempts(page, |editor| can_park(editor, policy, in_use))?;
    let mut first = span.first;
    loop {
        let piece = Span { first, last: span.last.min((first - first % bytes).saturating_add(bytes - 1)) };
        call.attempts(piece, |editor| split(editor, piece, false))?;
        if piece.last == span.last {
            return Ok(());
        }
        first = piece.last + 1;
    }
}

/// Splits the leaves of a piece. Before the first piece it is found out whether they may be.
fn split<G: Guard>(editor: &Editor<'_, G>, span: Span, first: bool) -> Result<(), Stop> {
    let survey = survey(editor, span, span)?;
    if !survey.any {
        return Ok(());
    }
    let policy = editor.policy;
    editor.may_resize(policy, survey.in_use)?;
    editor.has_frames(survey.tables)?;
    if first {
        can_park(editor, policy, survey.in_use)?;
    }
    editor.guard.mark(span);
    let table = editor.table_of(span);
    let result = visit_span(editor, &table, span, &mut Splits { span, policy });
    // The old leaves that TLBs hold translate as the pages do, so nothing is invalidated.
    TlbBatch::new().finish(editor);
    result
}

/// Parks without a change if leaves in use are split so: CPUs that do not park are detected before the first store.
fn can_park<G: Guard>(editor: &Editor<'_, G>, policy: Policy, in_use: Option<u64>) -> Result<(), Stop> {
    resize::update(editor, (policy, in_use.is_some()), &[])
}

/// Surveys a piece of a span that is to be split.
fn survey<G: Guard>(editor: &Editor<'_, G>, span: Span, piece: Span) -> Result<Survey, Stop> {
    let table = editor.table_of(piece);
    let mut survey = Survey { span, any: false, tables: 0, in_use: None };
    visit_span(editor, &table, piece, &mut survey)?;
    Ok(survey)
}

/// Returns true if a leaf is larger than a page, or in a run.
fn is_large(level: Level, old: Descriptor) -> bool {
    level != Level::PAGE || old.is_contiguous()
}

/// Finds the leaves to split, and counts the tables that are needed.
struct Survey {
    span: Span,
    /// True if a leaf has to be split.
    any: bool,
    /// The number of tables that are needed.
    tables: u64,
    /// The first leaf in use that is split.
    in_use: Option<u64>,
}

impl<G: Guard> LiveVisitor<G> for Survey {
    type Stop = Stop;

    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        let Entries { table, index, entry: old, .. } = at;
        let (g, at) = (editor.geometry, table.span_of(index));
        if !old.is_leaf(g, table.level) {
            return Err(refusal(at.first.max(self.span.first), table.level, old, g).into());
        }
        if is_large(table.level, old) {
            editor.covers(table.run_of(index, editor.run(table, old).unwrap_or(1)))?;
            if old.is_valid() {
                self.in_use.get_or_insert(at.first);
            }
            self.any = true;
            self.tables += page_tables_for(g, table.level, at, self.span);
        }
        Ok(index + 1)
    }
}

/// Splits the leaves of a range.
struct Splits {
    span: Span,
    policy: Policy,
}

impl<G: Guard> LiveVisitor<G> for Splits {
    type Stop = Stop;

    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        if is_large(at.table.level, at.entry) {
            self.leaf(editor, (at.table, at.index), at.entry)?;
        }
        Ok(at.index + 1)
    }
}

impl Splits {
    /// Splits a leaf.
    #[inline(never)]
    fn leaf<G: Guard>(
        &self,
        editor: &Editor<'_, G>,
        (table, index): (&Table, usize),
        old: Descriptor,
    ) -> Result<(), Stop> {
        let mut link = None;
        if table.level != Level::PAGE {
            let replacement = Replacement { pages: true, ..editor.replacement(LeafChange::NONE, self.span) };
            link = Some(replacement.leaf(old, table, table.va(index))?);
        }
        let resize = Resize { table: *table, index, dissolves: editor.run(table, old), link };
        Resize::all::<G, 1>(editor, (self.policy, old.is_valid()), once(resize), false)
    }
}
