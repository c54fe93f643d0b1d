//! Long operations, piece by piece: each piece in a hold of its own, so that nobody waits long.

use crate::edit::call::Call;
use crate::edit::cover::GIGABYTE;
use crate::edit::editor::Editor;
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::stop::Stop;
use crate::format::{Level, Span};

/// The most gigabytes of a piece.
const MOST: u64 = 64;
/// An entry above the page tables counts as so many: some operations look at each of them.
const ABOVE: usize = 8;

/// A span that is visited piece by piece.
pub(crate) struct Pieces {
    /// The rest of it, or `None` at the end.
    left: Option<Span>,
    /// The most gigabytes of the next piece.
    gigabytes: u64,
    /// The number of entries that a table in the span counts as, or `None` if its entries count.
    table: Option<usize>,
}

impl Pieces {
    /// Returns the pieces of a span whose tables are entered.
    pub(crate) const fn of(span: Span) -> Self {
        Self { left: Some(span), gigabytes: 1, table: None }
    }

    /// Returns the pieces of a span in which tables that lie whole in the span are not entered. A piece has at most so many of them.
    pub(crate) const fn of_tables<G: Guard>(span: Span, tables: usize) -> Self {
        Self { table: Some(G::HOLD.div_ceil(tables)), ..Self::of(span) }
    }
}

impl<G: Guard> Call<'_, G> {
    /// Calls `work` for a span piece by piece. A piece has at most [`HOLD`](crate::Sharing::HOLD) entries, and those
    /// that are left of a run, and ends where a leaf ends, except at the end of the span. It is in one gigabyte
    /// unless it is one larger entry, or the piece before it had few entries. The piece is marked for a repaint under way.
    /// `work` makes visible what it stores, since the next holder may build on it, or park the CPUs. No piece follows one that
    /// it calls [too long](Stop::TooLong).
    ///
    /// # Errors
    ///
    /// The first error of `work`. What it did to earlier pieces stays.
    pub(crate) fn pieces(
        &mut self,
        span: Span,
        mut work: impl FnMut(&Editor<'_, G>, Span) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        let mut pieces = Pieces::of(span);
        while self.next_piece(&mut pieces, &mut work)? {}
        Ok(())
    }

    /// Calls `work` for the next piece, in a hold. Returns false if there is none, or it calls this one too long.
    ///
    /// # Errors
    ///
    /// The error of `work`.
    pub(crate) fn next_piece(
        &mut self,
        pieces: &mut Pieces,
        work: &mut impl FnMut(&Editor<'_, G>, Span) -> Result<(), Stop>,
    ) -> Result<bool, ChangeError> {
        let Some(Span { first, last: end }) = pieces.left.take() else { return Ok(false) };
        let more = (pieces.gigabytes - 1) << GIGABYTE;
        let last = end.min(first.saturating_add(more) | ((1 << GIGABYTE) - 1));
        let window = Span { first, last };
        let done = self.attempts(window, |editor| {
            let (piece, left) = piece(editor, window, (end, pieces.table), G::HOLD);
            editor.covers(piece)?;
            editor.guard.mark(piece);
            work(editor, piece)?;
            Ok((piece.last, left))
        })?;
        let Some((last, left)) = done else { return Ok(false) };
        pieces.left = (last < end).then(|| Span { first: last + 1, last: end });
        pieces.gigabytes = if left >= G::HOLD / 2 { (2 * pieces.gigabytes).min(MOST) } else { 1 };
        Ok(true)
    }

    /// Ends the changes of a claimed span in a hold of its own.
    ///
    /// # Errors
    ///
    /// None, since the span is claimed.
    pub(crate) fn last_hold(
        &mut self,
        span: Span,
        mut work: impl FnMut(&Editor<'_, G>),
    ) -> Result<(), ChangeError> {
        let first = Span { first: span.first, last: span.first };
        self.attempts(first, |editor| {
            work(editor);
            Ok(())
        })
        .map(|_| ())
    }
}

/// Returns the piece at the start of a window, as many whole leaves, runs and holes as a hold may have, and how many more it
/// could have had. The last of them may end after the window, but not after `end`. A table that lies whole between its start and `end` counts
/// as `counts_as` entries, if that is given.
pub(crate) fn piece<G: Guard>(
    editor: &Editor<'_, G>,
    window: Span,
    (end, counts_as): (u64, Option<usize>),
    mut left: usize,
) -> (Span, usize) {
    let mut last = window.first;
    loop {
        let whole = counts_as
            .and_then(|entries| Some((entries, whole_table(editor, Span { first: last, last: end })?.last)));
        let (taken, until) = whole.unwrap_or_else(|| leaves(editor, Span { first: last, ..window }, left));
        (left, last) = (left.saturating_sub(taken), until.min(end));
        if left == 0 || last >= window.last {
            return (Span { first: window.first, last }, left);
        }
        last += 1;
    }
}

/// Returns how many entries leaves, runs or holes of one table count as, from the start of a window on, and their last address.
fn leaves<G: Guard>(editor: &Editor<'_, G>, window: Span, left: usize) -> (usize, u64) {
    let (table, index) = editor.entry_of(window.first);
    let each = if table.level == Level::PAGE { 1 } else { ABOVE };
    let most = table.index_of(window.last).min(editor.geometry.entries(table.level) - 1);
    let most = most.min(index + (left / each).max(1) - 1);
    let mut at = most;
    if table.level != Level::PAGE {
        // There may be tables among them.
        at = editor.slots(&table).alike((index, most), editor.load(&table, index)) - 1;
    }
    let members = editor.run(&table, editor.load(&table, at)).unwrap_or(1);
    ((at - index + 1) * each, table.run_of(at, members).last)
}

/// Returns what the largest table translates that begins where a span does and lies in it, if there is one.
fn whole_table<G: Guard>(editor: &Editor<'_, G>, span: Span) -> Option<Span> {
    let mut table = editor.root();
    loop {
        let index = table.index_of(span.first);
        let (entry, at) = (editor.load(&table, index), table.span_of(index));
        if !entry.is_table(table.level) {
            return None;
        }
        if at.first == span.first && at.last <= span.last {
            return Some(at);
        }
        table = editor.below(&table, index, entry);
    }
}
