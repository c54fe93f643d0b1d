//! Long operations, piece by piece: each piece in a hold of its own locks, so that nobody waits long.

use crate::format::{Level, Span};
use crate::live::attempt::Call;
use crate::live::error::ChangeError;
use crate::live::lock_set::GIGABYTE;
use crate::live::locked::Locked;
use crate::live::stop::Stop;
use crate::platform::Platform;

/// The most gigabytes of a piece.
const MOST: u64 = 64;
/// An entry above the page tables counts as so many: some operations look at each of them.
const ABOVE: usize = 8;

impl<P: Platform> Call<'_, P> {
    /// Calls `work` for a span piece by piece. A piece has at most [`HOLD`](crate::Hardware::HOLD) entries, and those
    /// that are left of a run, and ends where a leaf ends, except at the end of the span. It is in one gigabyte
    /// unless it is one larger entry, or the piece before it had few entries. The piece is marked for a repaint under way.
    /// `work` makes visible what it stores, since the next holder of a lock may build on it, or park the CPUs. No piece follows one that
    /// it calls [too long](Stop::TooLong).
    ///
    /// # Errors
    ///
    /// The first error of `work`. What it did to earlier pieces stays.
    pub(crate) fn pieces(
        &mut self,
        span: Span,
        mut work: impl FnMut(&Locked<'_, P>, Span) -> Result<(), Stop>,
    ) -> Result<(), ChangeError> {
        let (mut first, mut gigabytes) = (span.first, 1);
        loop {
            let more = (gigabytes - 1) << GIGABYTE;
            let last = span.last.min(first.saturating_add(more) | ((1 << GIGABYTE) - 1));
            let window = Span { first, last };
            let done = self.attempts(window, |locked| {
                let (piece, left) = piece(locked, window, span.last, P::HOLD);
                locked.covers(piece)?;
                locked.mark(piece);
                work(locked, piece)?;
                Ok((piece.last, left))
            })?;
            let Some((last, left)) = done else { return Ok(()) };
            if last >= span.last {
                return Ok(());
            }
            first = last + 1;
            gigabytes = if left >= P::HOLD / 2 { (2 * gigabytes).min(MOST) } else { 1 };
        }
    }

    /// Ends the changes of a claimed span in a hold of its own.
    ///
    /// # Errors
    ///
    /// None, since the span is claimed.
    pub(crate) fn last_hold(
        &mut self,
        span: Span,
        mut work: impl FnMut(&Locked<'_, P>),
    ) -> Result<(), ChangeError> {
        let first = Span { first: span.first, last: span.first };
        self.attempts(first, |locked| {
            work(locked);
            Ok(())
        })
        .map(|_| ())
    }
}

/// Returns the piece at the start of a window, as many whole leaves, runs and holes as a hold may have, and how many more it
/// could have had. The last of them may end after the window.
pub(crate) fn piece<P: Platform>(
    locked: &Locked<'_, P>,
    window: Span,
    end: u64,
    mut left: usize,
) -> (Span, usize) {
    let mut last = window.first;
    loop {
        let (table, index) = locked.entry_of(last);
        let each = if table.level == Level::PAGE { 1 } else { ABOVE };
        let most = table.index_of(window.last).min(locked.geometry.entries(table.level) - 1);
        let most = most.min(index + (left / each).max(1) - 1);
        let mut at = most;
        if table.level != Level::PAGE {
            // There may be tables among them.
            at = locked.slots(&table).alike((index, most), locked.load(&table, index)) - 1;
        }
        left = left.saturating_sub((at - index + 1) * each);
        let members = locked.run(&table, locked.load(&table, at)).unwrap_or(1);
        last = table.run_of(at, members).last.min(end);
        if left == 0 || last >= window.last {
            return (Span { first: window.first, last }, left);
        }
        last += 1;
    }
}
