//! The survey of one alias in several holds: does the linear map have any of it, and may all of it change?

use crate::alias::budget::Budget;
use crate::alias::sides::Reach;
use crate::format::{Descriptor, LeafChange, Span, Va};
use crate::live::{ChangeError, LeafVisitor, Locked, Stop, Survey, refusal};
use crate::platform::Platform;
use crate::read::Table;

/// A survey under way.
pub(crate) struct AliasSurvey {
    change: LeafChange,
    pub(crate) alias: Span,
    pub(crate) found: Survey,
    /// True if something is mapped.
    any: bool,
    /// The reason to refuse the change if anything is mapped.
    refused: Option<ChangeError>,
    /// The last address that was visited, if there is one.
    done: Option<u64>,
}

impl AliasSurvey {
    pub(crate) fn new(change: LeafChange, &Reach { alias, beyond }: &Reach) -> Self {
        let refused = beyond.map(|va| ChangeError::Hole { va: Va(va) });
        Self { change, alias, found: Survey::default(), any: false, refused, done: None }
    }

    /// Goes on with a part of the alias.
    ///
    /// # Errors
    ///
    /// The change is refused, or no entries are left for this hold.
    pub(crate) fn go_on<P: Platform>(
        &mut self,
        locked: &Locked<'_, P>,
        part: Span,
        budget: &Budget,
    ) -> Result<(), Stop> {
        let table = locked.deepest(locked.root(), part);
        locked.visit_leaves(&table, part, &mut Walk { survey: self, budget })
    }

    /// Returns the address at which to go on, if not all of the alias has been visited.
    pub(crate) fn next(&self) -> Option<u64> {
        self.done.map_or(Some(self.alias.first), |last| (last < self.alias.last).then(|| last + 1))
    }

    /// Returns true if the linear map has any of what was visited.
    pub(crate) const fn is_mapped(&self) -> bool {
        self.any
    }
}

/// A part of a survey, in one hold.
struct Walk<'s> {
    survey: &'s mut AliasSurvey,
    budget: &'s Budget,
}

impl<P: Platform> LeafVisitor<P> for Walk<'_> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let AliasSurvey { change, alias, found, any, refused, done } = &mut *self.survey;
        let last = self.budget.last(index, last)?;
        let mut end = index + 1;
        if old.is_leaf(locked.geometry, table.level) {
            *any = true;
            end = locked.slots(table).alike((index, last), old);
            if refused.is_none() {
                found.leaves(locked, (*change, *alias), (table, index, end - 1), old)?;
            }
        } else {
            let va = table.va(index).max(alias.first);
            refused.get_or_insert(refusal(va, table.level, old, locked.geometry));
        }
        if let (true, Some(error)) = (*any, *refused) {
            return Err(error.into());
        }
        self.budget.take(end - index)?;
        *done = Some(table.span_of(end - 1).last.min(alias.last));
        Ok(end)
    }
}
