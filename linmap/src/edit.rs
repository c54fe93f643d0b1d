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
use crate::resize::Resize;
use crate::retire::Retired;
use crate::split::{Taken, discard};
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
#[derive(Clone, Copy, Default)]
pub(crate) struct Survey {
    /// The first leaf in use that has to change its size.
    pub(crate) resizes: Option<u64>,
    /// Whether a leaf has to be split or a run dissolved, in use or not.
    pub(crate) splits: bool,
    /// Whether leaves change in place.
    in_place: bool,
}

/// An edit under way.
pub(crate) struct Editor<'a, P> {
    pub(crate) access: Access<'a, P>,
    pub(crate) edit: Edit,
    pub(crate) span: Span,
    pub(crate) batch: Batch,
    /// Whether leaves change their size alone, and the edit comes later.
    cuts: bool,
}

impl<'a, P: Platform> Editor<'a, P> {
    /// An edit of a span.
    #[inline]
    pub(crate) const fn new(access: Access<'a, P>, edit: Edit, span: Span) -> Self {
        Self { access, edit, span, batch: Batch::new(), cuts: false }
    }

    /// An edit that is prepared by [`cut`](Self::cut), and carried out by another editor.
    pub(crate) const fn cutting(access: Access<'a, P>, edit: Edit, span: Span) -> Self {
        Self { cuts: true, ..Self::new(access, edit, span) }
    }

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
        let policy = space.policy();
        let in_use = survey.resizes.is_some();
        self.access.may_resize(policy, survey.resizes)?;
        let mut steps = [None; 2];
        steps[0] = self.resize_at(node, self.span.first)?;
        // The other end may lie in the same leaf.
        let both = |s: &Resize| s.link.is_some() && self.span.last <= s.table.span_of(s.index).last;
        if !steps[0].as_ref().is_some_and(both) {
            steps[1] = self.resize_at(node, self.span.last).map_err(|taken| self.without(steps[0], taken))?;
        }
        if steps.iter().flatten().any(|s| s.link.is_some()) {
            self.access.filled();
        }
        match steps {
            [Some(first), Some(last)] => self.access.resize(policy, in_use, &[first, last])?,
            [Some(one), None] | [None, Some(one)] => self.access.resize(policy, in_use, &[one])?,
            [None, None] => {}
        }
        let dropped = in_use && policy == Policy::Park;
        for step in steps.into_iter().flatten() {
            if step.link.is_some() && in_use && !dropped {
                // One entry held the leaf, and goes by any of its addresses (D8.17, RLGSCG).
                let va = step.table.va(step.index).max(self.span.first);
                let page = self.access.geometry.page_shift();
                self.batch.add(va, va + ((1 << page) - 1), page);
            }
        }
        Ok(())
    }

    /// Gives back what was built for one end when the other one fails.
    #[cold]
    fn without(&self, step: Option<Resize>, taken: Taken) -> Taken {
        let Some(Resize { table, link: Some(link), .. }) = step else { return taken };
        let (platform, geometry) = (self.access.platform, self.access.geometry);
        let tables = discard(platform, geometry, self.access.counters(), (link, table.level.down(1)));
        taken.and(tables)
    }

    /// What has to be done to the leaf or run that an end of the range lies within, if anything.
    fn resize_at(&self, node: &Table, va: u64) -> Result<Option<Resize>, Taken> {
        let table = self.access.deepest(*node, Span { first: va, last: va });
        let index = table.index_of(va);
        let old = self.access.load(&table, index);
        let at = table.span_of(index);
        if self.edit.of(old) == old {
            return Ok(None);
        }
        let dissolves = self.access.run(&table, old).filter(|_| self.dissolves(&table, index, old));
        if self.span.covers(at.first, at.last) {
            return Ok(dissolves.map(|_| Resize { table, index, dissolves, link: None }));
        }
        let edit = if self.cuts { Edit::NONE } else { self.edit };
        let link = Some(self.access.split(edit, self.span).leaf(old, &table, at.first)?);
        Ok(Some(Resize { table, index, dissolves, link }))
    }

    /// Changes the leaves that lie within the range, in place.
    #[inline]
    pub(crate) fn change(&mut self, table: &Table) {
        let (first, last) = table.entries_of(self.span, self.access.geometry);
        let mut index = first;
        while index <= last {
            if index + 7 <= last && self.change_eight(table, index) {
                index += 8;
                continue;
            }
            let old = self.access.load(table, index);
            if old.is_table(table.level) {
                self.change_below(table, index, old);
            } else {
                self.change_one(table, index, old);
            }
            index += 1;
        }
    }

    #[inline(always)]
    fn change_one(&mut self, table: &Table, index: usize, old: Descriptor) {
        let new = self.edit.of(old);
        if new != old {
            self.access.store(table, index, new);
            if old.is_valid() {
                let at = table.span_of(index);
                self.batch.add(at.first, at.last, table.shift);
            }
        }
    }

    /// Changes eight entries, if all are valid leaves in which the same bits change: 5 instructions each.
    #[inline(always)]
    fn change_eight(&mut self, table: &Table, index: usize) -> bool {
        if table.level != Level::PAGE || !index.is_multiple_of(2) {
            return false;
        }
        let table = *table;
        let (clear, set) = (self.edit.clear, self.edit.set);
        let old = [0, 2, 4, 6].map(|n| self.access.load_pair(&table, index + n));
        let new = old.map(|pair| pair.map(|entry| Descriptor(entry.0 & !clear | set)));
        let changes = old[0][0].0 ^ new[0][0].0;
        let (mut same, mut all, mut any) = (changes != 0, u64::MAX, 0);
        for (old, new) in old.iter().flatten().zip(new.iter().flatten()) {
            same &= old.0 ^ new.0 == changes;
            all &= old.0;
            any |= old.0;
        }
        if !same || any & self.edit.unless != 0 || !Descriptor(all).is_valid() {
            return false;
        }
        for (pair, at) in new.into_iter().zip([0, 2, 4, 6]) {
            self.access.store_pair(&table, index + at, pair);
        }
        self.batch.add(table.va(index), table.span_of(index + 7).last, table.shift);
        true
    }

    /// Changes the leaves that lie within a span, in place: none has to change its size.
    pub(crate) fn in_span(&mut self, space: &AddressSpace, span: Span) {
        self.span = span;
        let node = self.access.deepest(space.root_table(&self.access), span);
        self.change(&node);
    }

    /// Ends the batch.
    pub(crate) fn finish(&self) {
        self.batch.finish(&self.access);
    }

    /// Adds what has to change its size before what lies within the range can change in place: all of it is mapped.
    pub(crate) fn survey_ends(&self, space: &AddressSpace, survey: &mut Survey) {
        let root = space.root_table(&self.access);
        for va in [self.span.first, self.span.last] {
            let table = self.access.deepest(root, Span { first: va, last: va });
            let index = table.index_of(va);
            let old = self.access.load(&table, index);
            if self.edit.of(old) != old {
                self.survey_size(&table, index, old, survey);
            }
        }
    }

    /// Has leaves that change begin and end where the range does, or does nothing at all. What they translate
    /// stays as it is, so nothing is invalidated. Whether any had to be cut.
    pub(crate) fn cut(&mut self, space: &AddressSpace) -> Result<bool, Error> {
        let mut survey = Survey::default();
        self.survey_ends(space, &mut survey);
        if survey.splits {
            let node = self.access.deepest(space.root_table(&self.access), self.span);
            self.resize(space, &node, &survey)?;
        }
        Ok(survey.splits)
    }

    #[inline(never)]
    fn change_below(&mut self, table: &Table, index: usize, old: Descriptor) {
        self.change(&self.access.below(table, index, old));
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
