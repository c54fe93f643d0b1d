//! Maps a range in pages: every leaf in it is split down to the last level, and translates as before.
//!
//! A long range is split piece by piece. No translation changes, so others may work in the range meanwhile. All table
//! pages are taken before the first piece.

use crate::build::{Replacement, page_tables_for};
use crate::format::{Descriptor, LeafChange, Level, Span};
use crate::live::attempt::Call;
use crate::live::error::{ChangeError, refusal};
use crate::live::locked::{LeafVisitor, Locked};
use crate::live::map_state::MapState;
use crate::live::resize::{self, Resize};
use crate::live::stop::Stop;
use crate::live::tlb_batch::TlbBatch;
use crate::plan::Policy;
use crate::platform::Platform;
use crate::read::Table;

/// Splits everything that has to be split.
///
/// # Errors
///
/// A hole; a descriptor that the library would not write; out of frames; a change of size that the policy or the CPUs
/// do not permit. Nothing is split then, except where several holds are needed: leaves that were split in earlier ones stay
/// split, and translate as before.
pub(crate) fn split_to_pages<P: Platform>(
    state: &MapState,
    platform: &P,
    span: Span,
) -> Result<(), ChangeError> {
    let mut call = Call::new(state, platform);
    // A piece is a number of pages, since it becomes that many entries; at least one table.
    let entries = state.geometry().entries(Level::PAGE).max(P::HOLD);
    let bytes = (entries as u64) << state.geometry().page_shift();
    if span.last - span.first < bytes {
        return call.attempts(span, |locked| split(locked, span, true)).map(|_| ());
    }
    // A repaint may switch to pages after the survey, so what that found is judged by the policy before it.
    let policy = state.policy();
    let (mut tables, mut in_use) = (0, None);
    call.pieces(span, |locked, piece| {
        let found = survey(locked, span, piece)?;
        (tables, in_use) = (tables + found.tables, in_use.or(found.in_use));
        Ok(())
    })?;
    let page = Span { last: span.first, ..span };
    call.attempts(page, |locked| Ok(locked.may_resize(policy, in_use)?))?;
    call.frames(tables)?;
    call.attempts(page, |locked| can_park(locked, policy, in_use))?;
    let mut first = span.first;
    loop {
        let piece = Span { first, last: span.last.min((first - first % bytes).saturating_add(bytes - 1)) };
        call.attempts(piece, |locked| split(locked, piece, false))?;
        if piece.last == span.last {
            return Ok(());
        }
        first = piece.last + 1;
    }
}

/// Splits the leaves of a piece. Before the first piece it is found out whether they may be.
fn split<P: Platform>(locked: &Locked<'_, P>, span: Span, first: bool) -> Result<(), Stop> {
    let survey = survey(locked, span, span)?;
    if !survey.any {
        return Ok(());
    }
    let policy = locked.policy;
    locked.may_resize(policy, survey.in_use)?;
    locked.has_frames(survey.tables)?;
    if first {
        can_park(locked, policy, survey.in_use)?;
    }
    locked.mark(span);
    let table = locked.table_of(span);
    let result = locked.visit_leaves(&table, span, &mut Splits { span, policy });
    // The old leaves that TLBs hold translate as the pages do, so nothing is invalidated.
    TlbBatch::new().finish(locked);
    result
}

/// Parks without a change if leaves in use are split so: CPUs that do not park are detected before the first store.
fn can_park<P: Platform>(locked: &Locked<'_, P>, policy: Policy, in_use: Option<u64>) -> Result<(), Stop> {
    resize::update(locked, (policy, in_use.is_some()), &[])
}

/// Surveys a piece of a span that is to be split.
fn survey<P: Platform>(locked: &Locked<'_, P>, span: Span, piece: Span) -> Result<Survey, Stop> {
    let table = locked.table_of(piece);
    let mut survey = Survey { span, any: false, tables: 0, in_use: None };
    locked.visit_leaves(&table, piece, &mut survey)?;
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

impl<P: Platform> LeafVisitor<P> for Survey {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let (g, at) = (locked.geometry, table.span_of(index));
        if !old.is_leaf(g, table.level) {
            return Err(refusal(at.first.max(self.span.first), table.level, old, g).into());
        }
        if is_large(table.level, old) {
            locked.covers(table.run_of(index, locked.run(table, old).unwrap_or(1)))?;
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

impl<P: Platform> LeafVisitor<P> for Splits {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        if is_large(table.level, old) {
            self.leaf(locked, (table, index), old)?;
        }
        Ok(index + 1)
    }
}

impl Splits {
    /// Splits a leaf. The walk, which has a frame of the stack for each level, is not to have that of this.
    #[inline(never)]
    fn leaf<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        (table, index): (&Table, usize),
        old: Descriptor,
    ) -> Result<(), Stop> {
        let mut link = None;
        if table.level != Level::PAGE {
            let replacement = Replacement { pages: true, ..locked.replacement(LeafChange::NONE, self.span) };
            link = Some(replacement.leaf(old, table, table.va(index))?);
        }
        let resize = Resize { table: *table, index, dissolves: locked.run(table, old), link };
        Resize::all::<P, 4>(locked, (self.policy, old.is_valid()), &[resize], false)
    }
}
