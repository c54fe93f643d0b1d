//! Maps a range in pages: every leaf in it is split down to the last level, and translates as before.

use crate::build::{Replacement, page_tables_for};
use crate::format::{Descriptor, LeafChange, Level, Span};
use crate::live::error::{ChangeError, refusal};
use crate::live::locked::{LeafVisitor, Locked};
use crate::live::resize::{self, Resize};
use crate::live::table_pages::ReservedPages;
use crate::live::tlb_batch::TlbBatch;
use crate::plan::Policy;
use crate::platform::Platform;
use crate::read::Table;

/// Splits everything that has to be split, or nothing.
///
/// # Errors
///
/// A hole; a descriptor that the library would not write; out of frames; a change of size that the policy or the CPUs
/// do not permit. If CPUs stop parking half way, the leaves that were split stay split, and translate as before.
pub(crate) fn split_to_pages<P: Platform>(locked: &Locked<'_, P>, span: Span) -> Result<(), ChangeError> {
    let table = locked.deepest(locked.root(), span);
    let mut survey = Survey { span, any: false, tables: 0, in_use: None };
    locked.visit_leaves(&table, span, &mut survey)?;
    if !survey.any {
        return Ok(());
    }
    let policy = locked.state.policy();
    locked.may_resize(policy, survey.in_use)?;
    let reserved = ReservedPages::take(locked.platform, survey.tables)?;
    // Parks without a change, to detect CPUs that do not park before the first store.
    resize::update(locked, (policy, survey.in_use.is_some()), &[])?;
    let result = locked.visit_leaves(&table, span, &mut Splits { span, policy, reserved: &reserved });
    // The old leaves that TLBs hold translate as the pages do, so nothing is invalidated.
    TlbBatch::new().finish(locked);
    result
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
    ) -> Result<usize, ChangeError> {
        let (g, at) = (locked.geometry, table.span_of(index));
        if !old.is_leaf(g, table.level) {
            return Err(refusal(at.first.max(self.span.first), table.level, old, g));
        }
        if is_large(table.level, old) {
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
struct Splits<'a, P: Platform> {
    span: Span,
    policy: Policy,
    reserved: &'a ReservedPages<'a, P>,
}

impl<P: Platform> LeafVisitor<P> for Splits<'_, P> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, ChangeError> {
        if is_large(table.level, old) {
            let mut link = None;
            if table.level != Level::PAGE {
                let (memory, geometry, counters) = (self.reserved, locked.geometry, locked.counters());
                let (change, span) = (LeafChange::NONE, self.span);
                let replacement = Replacement { memory, geometry, change, span, pages: true, counters };
                link = Some(replacement.leaf(old, table, table.va(index))?);
            }
            let resize = Resize { table: *table, index, dissolves: locked.run(table, old), link };
            Resize::all(locked, (self.policy, old.is_valid()), &[resize], false)?;
        }
        Ok(index + 1)
    }
}
