//! Changes of what is mapped: any page range, whatever leaves are there.
//!
//! Four steps. *Survey*: walk the range and decide whether it can be done, and how many tables it takes.
//! *Reserve* those. *Resize*: where an end of the range lies within a leaf, build the tables that replace
//! it, off line and in their final state, and publish each with one store; where it lies within a
//! contiguous run, dissolve the run. There are two such ends at the most. *Change* the leaves that lie
//! within the range, in place. Only the first two can fail, or the parking of CPUs, and they store nothing.

use crate::address_space::AddressSpace;
use crate::live::{Access, Span, Table};
use crate::maintenance::Batch;
use crate::reserve::Reserve;
use crate::retire::Retired;
use crate::split::{Split, tables_for};
use crate::{Descriptor, Error, Geometry, Level, Platform, Policy, Va, table_limits};

/// What becomes of each leaf of a range, bit by bit: a descriptor has its fields where
/// [`Attributes`](crate::Attributes) has them.
#[derive(Clone, Copy)]
pub(crate) struct Edit {
    pub(crate) clear: u64,
    pub(crate) set: u64,
    /// A leaf with any of these bits stays as it is.
    pub(crate) unless: u64,
    /// Whether what becomes writable and executable at once is refused.
    pub(crate) refuse_write_execute: bool,
}

impl Edit {
    /// Nothing changes.
    pub(crate) const NONE: Self = Self { clear: 0, set: 0, unless: 0, refuse_write_execute: false };

    /// Nothing is mapped any more.
    pub(crate) const REMOVE: Self = Self { clear: u64::MAX, set: 0, unless: 0, refuse_write_execute: false };

    #[inline]
    pub(crate) const fn of(self, old: Descriptor) -> Descriptor {
        if old.0 & self.unless != 0 { old } else { Descriptor(old.0 & !self.clear | self.set) }
    }
}

/// What a survey found.
#[derive(Default)]
struct Survey {
    /// Tables that the splits take.
    tables: u64,
    /// The first leaf in use that has to change its size.
    resizes: Option<u64>,
    /// Whether a leaf has to be split or a run dissolved, in use or not.
    splits: bool,
    /// Whether leaves change in place.
    in_place: bool,
}

/// An edit under way.
pub(crate) struct Editor<'a, P> {
    pub(crate) access: Access<'a, P>,
    pub(crate) edit: Edit,
    pub(crate) span: Span,
    pub(crate) batch: Batch,
}

/// What an end of the range lies within, and has to change its size.
#[derive(Clone, Copy)]
struct Resize {
    table: Table,
    index: usize,
    /// Whether the run that it is in is dissolved.
    dissolves: bool,
    /// The tables that take its place, if any do.
    link: Option<Descriptor>,
}

impl<P: Platform> Editor<'_, P> {
    /// Carries out the edit, or nothing at all.
    #[inline(never)]
    pub(crate) fn run(mut self, space: &AddressSpace, node: Table) -> Result<(), Error> {
        let survey = self.prepare(space, &node)?;
        if survey.in_place {
            self.change(&node);
        }
        if survey.in_place || survey.splits {
            self.batch.finish(&self.access);
        }
        Ok(())
    }

    /// Takes the mappings away, or does nothing at all.
    pub(crate) fn run_remove(mut self, space: &AddressSpace) -> Result<(), Error> {
        let root = space.root_table(&self.access);
        self.prepare(space, &root)?;
        let mut retired = Retired::new();
        // From the root on: tables above can be left with nothing in them.
        self.remove(&root, &mut retired);
        self.batch.finish(&self.access);
        retired.give(&self.access);
        Ok(())
    }

    /// All that can fail, and the changes of size.
    fn prepare(&mut self, space: &AddressSpace, node: &Table) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        self.survey(node, &mut survey)?;
        if survey.splits {
            self.resize(space, node, &survey)?;
        }
        Ok(survey)
    }

    /// Decides whether the range can be changed and what it takes. Stores nothing.
    #[inline]
    fn survey(&self, table: &Table, survey: &mut Survey) -> Result<(), Error> {
        let (first, last) = table.entries_of(self.span, self.access.geometry);
        for index in first..=last {
            let old = self.access.load(table, index);
            if old.is_table(table.level) {
                self.survey_below(table, index, old, survey)?;
            } else {
                self.survey_leaf(table, index, old, survey)?;
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
        if table_limits(old) != 0 {
            return Err(Error::NotUnderstood { va: Va(table.va(index).max(self.span.first)) });
        }
        self.survey(&self.access.below(table, index, old), survey)
    }

    #[inline(always)]
    fn survey_leaf(
        &self,
        table: &Table,
        index: usize,
        old: Descriptor,
        survey: &mut Survey,
    ) -> Result<(), Error> {
        let new = self.edit.of(old);
        let refused = self.edit.refuse_write_execute && new.is_write_execute();
        if !old.is_leaf(self.access.geometry, table.level) || refused {
            return Err(refusal(
                table.va(index).max(self.span.first),
                table.level,
                old,
                self.access.geometry,
            ));
        }
        if new == old {
            return Ok(());
        }
        let at = table.span_of(index);
        if !old.is_contiguous() && self.span.covers(at.first, at.last) {
            survey.in_place = true;
            return Ok(());
        }
        self.survey_size(table, index, old, survey);
        Ok(())
    }

    /// A leaf that is one of a run, or that the range has a part of.
    #[inline(never)]
    fn survey_size(&self, table: &Table, index: usize, old: Descriptor, survey: &mut Survey) {
        let at = table.span_of(index);
        let whole = self.span.covers(at.first, at.last);
        survey.in_place |= whole;
        if whole && !self.dissolves(table, index, old) {
            return;
        }
        survey.splits = true;
        if old.is_valid() {
            survey.resizes.get_or_insert(at.first);
        }
        if !whole {
            survey.tables += tables_for(self.access.geometry, table.level, at.first, self.span);
        }
    }

    /// Whether a leaf is in a run that the range has only a part of.
    #[inline]
    fn dissolves(&self, table: &Table, index: usize, old: Descriptor) -> bool {
        let run = table.run_of(index, self.access.geometry.contiguous_entries(table.level));
        old.is_contiguous() && !self.span.covers(run.first, run.last)
    }

    /// Changes the size of what the ends of the range lie within.
    #[inline(never)]
    fn resize(&mut self, space: &AddressSpace, node: &Table, survey: &Survey) -> Result<(), Error> {
        let (platform, policy) = (self.access.platform, space.policy());
        self.access.may_resize(policy, survey.resizes)?;
        let reserve = Reserve::take(platform, survey.tables)?;
        let start = self.resize_at(node, self.span.first, &reserve);
        // The other end may lie in the same leaf.
        let end = match start {
            Some(s) if s.link.is_some() && self.span.last <= s.table.span_of(s.index).last => None,
            _ => self.resize_at(node, self.span.last, &reserve),
        };
        if survey.tables != 0 {
            self.access.filled();
        }
        let in_use = survey.resizes.is_some();
        let stores = || {
            for step in [&start, &end].into_iter().flatten() {
                self.carry_out(step);
            }
        };
        if let Err(error) = self.access.resizing(policy, in_use, stores) {
            for step in [start, end].into_iter().flatten() {
                if let Some(link) = step.link {
                    self.access.discard(link, step.table.level.next());
                }
            }
            return Err(error);
        }
        let dropped = in_use && policy == Policy::Park;
        let mut before = None;
        for step in [start, end].into_iter().flatten() {
            self.count(&step, before.replace(step));
            if step.link.is_some() && in_use && !dropped {
                // One entry held the leaf, and goes by any of its addresses (D8.17, RLGSCG).
                let va = step.table.va(step.index).max(self.span.first);
                let page = self.access.geometry.page_shift();
                self.batch.add(va, va + ((1 << page) - 1), page);
            }
        }
        Ok(())
    }

    /// Counts a resize. Both ends may have dissolved the same run.
    fn count(&self, step: &Resize, before: Option<Resize>) {
        let (level, members) = (step.table.level, self.access.geometry.contiguous_entries(step.table.level));
        let run = |s: &Resize| (s.table.pa, s.index / members);
        let done = before.is_some_and(|s| s.dissolves && run(&s) == run(step));
        if step.dissolves && !done {
            self.access.counters.dissolved(level, members as i64);
        }
        if step.link.is_some() {
            self.access.counters.leaves(level, false, -1);
            self.access.counters.split(1);
        }
    }

    /// What has to be done to the leaf or run that an end of the range lies within, if anything.
    fn resize_at(&self, node: &Table, va: u64, reserve: &Reserve<'_, P>) -> Option<Resize> {
        let table = self.access.deepest(*node, Span { first: va, last: va });
        let index = table.index_of(va);
        let old = self.access.load(&table, index);
        let at = table.span_of(index);
        if self.edit.of(old) == old {
            return None;
        }
        let dissolves = self.dissolves(&table, index, old);
        if self.span.covers(at.first, at.last) {
            return dissolves.then_some(Resize { table, index, dissolves, link: None });
        }
        let (geometry, edit, span) = (self.access.geometry, self.edit, self.span);
        let counters = self.access.counters;
        let split = Split { memory: reserve, geometry, edit, span, pages: false, counters };
        let link = Some(split.leaf(old, table.level, at.first));
        Some(Resize { table, index, dissolves, link })
    }

    /// The stores of one resize.
    fn carry_out(&self, step: &Resize) {
        if step.dissolves {
            self.access.dissolve(&step.table, step.index);
        }
        if let Some(link) = step.link {
            self.access.store(&step.table, step.index, link);
        }
    }

    /// Changes the leaves that lie within the range, in place.
    #[inline]
    fn change(&mut self, table: &Table) {
        let (first, last) = table.entries_of(self.span, self.access.geometry);
        for index in first..=last {
            let old = self.access.load(table, index);
            if old.is_table(table.level) {
                self.change_below(table, index, old);
                continue;
            }
            let new = self.edit.of(old);
            if new != old {
                self.access.store(table, index, new);
                if old.is_valid() {
                    let at = table.span_of(index);
                    self.batch.add(at.first, at.last, table.shift);
                }
            }
        }
    }

    #[inline(never)]
    fn change_below(&mut self, table: &Table, index: usize, old: Descriptor) {
        self.change(&self.access.below(table, index, old));
    }
}

impl<P: Platform> Access<'_, P> {
    /// Clears the contiguous bit of the run that an entry is in. How many members it had.
    #[inline]
    pub(crate) fn dissolve(&self, table: &Table, index: usize) -> usize {
        // Copied, so that its address stays in a register; a run has at least 16 members.
        let (table, members) = (*table, self.geometry.contiguous_entries(table.level));
        if broken!(RunNotDissolved) {
            return members;
        }
        let first = index & !(members - 1);
        for start in (first..first + members).step_by(8) {
            let pair = |n| (start + n, self.load_pair(&table, start + n).map(Descriptor::without_contiguous));
            for (at, plain) in [pair(0), pair(2), pair(4), pair(6)] {
                self.store_pair(&table, at, plain);
            }
        }
        members
    }
}

/// Why an entry that translates an address is not edited.
#[cold]
pub(crate) fn refusal(va: u64, level: Level, old: Descriptor, g: Geometry) -> Error {
    let va = Va(va);
    match old.is_leaf(g, level) {
        true => Error::WriteExecute { va },
        false if old.is_valid() => Error::NotUnderstood { va },
        false => Error::Hole { va },
    }
}
