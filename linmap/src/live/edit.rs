//! Changes of what is mapped: any page range, whatever leaves are there.
//!
//! Three steps. *Survey* the range (`survey.rs`): can it be done, and must anything change its size? *Resize*: where
//! an end of the range lies within a leaf, build the tables that replace it, off line and in their final state, and
//! publish each with one store; where it lies within a contiguous run, dissolve the run. There are two such ends at the
//! most. *Change* the leaves that lie within the range, in place (`in_place.rs`). What can fail is the survey, table
//! pages that run out while tables are built, which go back then, and the parking of CPUs: all before the first
//! store.

use crate::build::{Error, Taken, discard};
use crate::format::{Descriptor, Edit, Geometry, Level, Span, Va};
use crate::live::address_space::AddressSpace;
use crate::live::locked::Access;
use crate::live::resize::Resize;
use crate::live::survey::Survey;
use crate::live::table_pages::Retired;
use crate::live::tlb_batch::Batch;
use crate::plan::Policy;
use crate::platform::Platform;
use crate::read::Table;

/// An edit under way.
pub(crate) struct Editor<'a, P> {
    pub(crate) access: Access<'a, P>,
    pub(crate) edit: Edit,
    pub(crate) span: Span,
    pub(crate) batch: Batch,
    /// Whether the same bits change in all leaves of the range, all valid or none, each visited once.
    pub(crate) alike: bool,
}

impl<'a, P: Platform> Editor<'a, P> {
    /// An edit of a span.
    #[inline]
    pub(crate) const fn new(access: Access<'a, P>, edit: Edit, span: Span) -> Self {
        Self { access, edit, span, batch: Batch::new(), alike: false }
    }

    /// Carries out the edit, or nothing at all.
    #[inline(never)]
    pub(crate) fn run(mut self, space: &AddressSpace, node: Table) -> Result<(), Error> {
        let survey = self.prepare(space, &node)?;
        self.alike = survey.is_alike();
        if survey.in_place {
            self.change(&node);
        }
        if survey.changes() {
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
        if let [Some(first), Some(last)] = &mut steps
            && last.dissolves_run_of(first)
        {
            last.dissolves = None;
        }
        match steps {
            [Some(first), Some(last)] => self.access.resize(policy, in_use, &[first, last], true)?,
            [Some(one), None] | [None, Some(one)] => self.access.resize(policy, in_use, &[one], true)?,
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
        if self.edit.of(old, table.level) == old {
            return Ok(None);
        }
        let dissolves = self.access.run(&table, old).filter(|_| self.dissolves(&table, index, old));
        if self.span.covers(at.first, at.last) {
            return Ok(dissolves.map(|_| Resize { table, index, dissolves, link: None }));
        }
        let link = Some(self.access.split(self.edit, self.span).leaf(old, &table, at.first)?);
        Ok(Some(Resize { table, index, dissolves, link }))
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
