//! Whether a range can be changed, and what that takes. Nothing is stored.

use crate::build::Error;
use crate::format::{Descriptor, TableLimits, Va};
use crate::live::edit::{Editor, refusal};
use crate::platform::Platform;
use crate::read::Table;

/// What a survey found.
#[derive(Clone, Copy, Default)]
pub(crate) struct Survey {
    /// The first leaf in use that has to change its size.
    pub(crate) resizes: Option<u64>,
    /// Whether a leaf has to be split or a run dissolved, in use or not.
    pub(crate) splits: bool,
    /// Whether leaves change in place.
    pub(crate) in_place: bool,
    /// Which bits change in the first leaf, and whether it is valid.
    first: Option<(u64, bool)>,
    /// Whether that is otherwise in another one.
    differs: bool,
}

impl Survey {
    /// Whether anything changes.
    pub(crate) const fn changes(&self) -> bool {
        self.in_place || self.splits
    }

    /// Whether the same bits change in all leaves, of which all are valid or none is.
    pub(crate) fn is_alike(&self) -> bool {
        !self.differs || broken!(TakenForAlike)
    }

    /// Adds what another survey found.
    pub(crate) fn include(&mut self, other: &Self) {
        self.resizes = self.resizes.or(other.resizes);
        self.splits |= other.splits;
        self.in_place |= other.in_place;
        let first = *self.first.get_or_insert(other.first.unwrap_or_default());
        self.differs |= other.differs || other.first.is_some_and(|other| other != first);
    }

    #[inline(always)]
    fn leaf(&mut self, changes: u64, valid: bool) {
        self.differs |= *self.first.get_or_insert((changes, valid)) != (changes, valid);
    }
}

impl<P: Platform> Editor<'_, P> {
    /// Decides whether the range can be changed and what it takes.
    #[inline]
    pub(crate) fn survey(&self, table: &Table, survey: &mut Survey) -> Result<(), Error> {
        let (first, last) = table.entries_of(self.span, self.access.geometry);
        let mut index = first;
        while index <= last {
            let old = self.access.load(table, index);
            if old.is_table(table.level) {
                self.survey_below(table, index, old, survey)?;
                index += 1;
            } else {
                let end = self.alike(table, index, old, last);
                self.survey_leaves(table, (index, end - 1), old, survey)?;
                index = end;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn survey_below(
        &self,
        table: &Table,
        index: usize,
        old: Descriptor,
        survey: &mut Survey,
    ) -> Result<(), Error> {
        if !TableLimits::of(old).is_empty() {
            return Err(Error::NotUnderstood { va: Va(table.va(index).max(self.span.first)) });
        }
        self.survey(&self.access.below(table, index, old), survey)
    }

    /// Where the entries end, from a leaf on and up to the last, that are like it in all but their addresses: leaves
    /// as well.
    #[inline(never)]
    pub(crate) fn alike(&self, table: &Table, index: usize, first: Descriptor, last: usize) -> usize {
        /// What every format keeps of an address.
        const ADDRESS: u64 = (1 << 50) - (1 << 12);
        let mut end = index;
        if index.is_multiple_of(2) {
            for _ in 0..(last + 1 - index) / 8 {
                let eight = self.access.load_eight(table, end);
                if eight.iter().fold(0, |differs, entry| differs | (entry.0 ^ first.0)) & !ADDRESS != 0 {
                    break;
                }
                end += 8;
            }
        }
        end.max(index + 1)
    }

    /// Adds leaves that are alike, from one entry of a table to another, both included.
    ///
    /// # Errors
    ///
    /// They are no leaves, or may not change.
    #[inline(always)]
    pub(crate) fn survey_leaves(
        &self,
        table: &Table,
        (first, last): (usize, usize),
        old: Descriptor,
        survey: &mut Survey,
    ) -> Result<(), Error> {
        let (g, new) = (self.access.geometry, self.edit.of(old, table.level));
        let refused = self.edit.refuse_write_execute && new.is_write_execute();
        if refused || !old.is_leaf(g, table.level) {
            return Err(refusal(table.va(first).max(self.span.first), table.level, old, g));
        }
        survey.leaf(new.0 ^ old.0, old.is_valid());
        if new == old {
            return Ok(());
        }
        let (from, to) = (table.span_of(first).first, table.span_of(last).last);
        if !old.is_contiguous() && self.span.covers(from, to) {
            survey.in_place = true;
            return Ok(());
        }
        // What the range has only a part of can be the first of them, or the last; not what is in between.
        survey.in_place |= last - first > 1;
        self.survey_size(table, (first, first), old, survey);
        if last != first {
            self.survey_size(table, (first, last), old, survey);
        }
        Ok(())
    }

    /// The last of some leaves that are alike: it is one of a run, or the range has a part of it.
    #[inline(never)]
    fn survey_size(
        &self,
        table: &Table,
        (first, index): (usize, usize),
        old: Descriptor,
        survey: &mut Survey,
    ) {
        let at = table.span_of(index);
        let whole = self.span.covers(at.first, at.last);
        survey.in_place |= whole;
        if whole && !self.dissolves(table, index, old) {
            return;
        }
        survey.splits = true;
        if old.is_valid() {
            let run = self.access.geometry.contiguous_entries(table.level);
            let members = if old.is_contiguous() { run } else { 1 };
            survey.resizes.get_or_insert(table.run_of(index, members).first.max(table.va(first)));
        }
    }

    /// Whether a leaf is in a run that the range has only a part of.
    #[inline]
    pub(crate) fn dissolves(&self, table: &Table, index: usize, old: Descriptor) -> bool {
        let run = table.run_of(index, self.access.geometry.contiguous_entries(table.level));
        old.is_contiguous() && !self.span.covers(run.first, run.last)
    }
}
