//! A range in pages: every leaf in it is split down to the last level, and translates as before.

use crate::build::{Error, Replacement, page_tables_for};
use crate::format::{Descriptor, Edit, Level, Span, TableLimits, Va};
use crate::live::address_space::AddressSpace;
use crate::live::edit::refusal;
use crate::live::locked::Access;
use crate::live::reserve::Reserve;
use crate::live::resize::Resize;
use crate::live::tlb_batch::Batch;
use crate::plan::Policy;
use crate::platform::Platform;
use crate::read::Table;

/// A range being split to pages.
pub(crate) struct Pages<'a, P> {
    pub(crate) access: Access<'a, P>,
    pub(crate) span: Span,
    pub(crate) policy: Policy,
}

/// What a survey found.
#[derive(Default)]
struct Survey {
    /// Whether anything has to be split.
    any: bool,
    /// The tables that it takes.
    tables: u64,
    /// The first leaf in use that is split.
    in_use: Option<u64>,
}

impl<P: Platform> Pages<'_, P> {
    /// Splits what has to be split, or nothing at all.
    pub(crate) fn run(&self, space: &AddressSpace) -> Result<(), Error> {
        let node = self.access.deepest(space.root_table(&self.access), self.span);
        let mut survey = Survey::default();
        self.survey(&node, &mut survey)?;
        if !survey.any {
            return Ok(());
        }
        self.access.may_resize(self.policy, survey.in_use)?;
        let reserve = Reserve::take(self.access.platform, survey.tables)?;
        // Once in vain, so that CPUs that do not park are found out before the first store.
        self.access.resizing(self.policy, survey.in_use.is_some(), &[])?;
        let result = self.split(&node, &reserve);
        // What TLBs hold of the old leaves says the same as the pages: nothing is invalidated.
        Batch::new().finish(&self.access);
        result
    }

    /// Whether a leaf is no single page.
    fn is_large(level: Level, old: Descriptor) -> bool {
        level != Level::PAGE || old.is_contiguous()
    }

    /// Decides whether it can be done and what it takes. Stores nothing.
    fn survey(&self, table: &Table, survey: &mut Survey) -> Result<(), Error> {
        let g = self.access.geometry;
        let (first, last) = table.entries_of(self.span, g);
        for index in first..=last {
            let old = self.access.load(table, index);
            let at = table.span_of(index);
            let va = Va(at.first.max(self.span.first));
            if old.is_table(table.level) {
                if !TableLimits::of(old).is_empty() {
                    return Err(Error::NotUnderstood { va });
                }
                self.survey(&self.access.below(table, index, old), survey)?;
            } else if !old.is_leaf(g, table.level) {
                return Err(refusal(va.0, table.level, old, g));
            } else if Self::is_large(table.level, old) {
                if old.is_valid() {
                    survey.in_use.get_or_insert(at.first);
                }
                survey.any = true;
                survey.tables += page_tables_for(g, table.level, at, self.span);
            }
        }
        Ok(())
    }

    fn split(&self, table: &Table, reserve: &Reserve<'_, P>) -> Result<(), Error> {
        let g = self.access.geometry;
        let (first, last) = table.entries_of(self.span, g);
        for index in first..=last {
            let old = self.access.load(table, index);
            if old.is_table(table.level) {
                self.split(&self.access.below(table, index, old), reserve)?;
            } else if Self::is_large(table.level, old) {
                self.split_leaf(table, index, old, reserve)?;
            }
        }
        Ok(())
    }

    fn split_leaf(
        &self,
        table: &Table,
        index: usize,
        old: Descriptor,
        reserve: &Reserve<'_, P>,
    ) -> Result<(), Error> {
        let mut link = None;
        if table.level != Level::PAGE {
            let (edit, span, geometry) = (Edit::NONE, self.span, self.access.geometry);
            let counters = self.access.counters();
            let split = Replacement { memory: reserve, geometry, edit, span, pages: true, counters };
            link = Some(split.leaf(old, table, table.va(index))?);
        }
        // If that fails, what was split before stays so, and translates as it did.
        let step = Resize { table: *table, index, dissolves: self.access.run(table, old), link };
        self.access.resize(self.policy, old.is_valid(), &[step], false)
    }
}
