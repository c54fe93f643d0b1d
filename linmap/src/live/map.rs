//! New mappings where nothing is mapped.
//!
//! Three steps. *Survey*: check that nothing is mapped there, and count the tables that are needed. *Reserve* them.
//! *Fill*: store leaves where they fit, build subtrees off line for all other entries, and publish each of them by one
//! store after a barrier.

use crate::build::Tree;
use crate::format::{Attributes, Descriptor, Half, Leaf, Level, Pa, Span, Va};
use crate::live::error::ChangeError;
use crate::live::locked::{LeafVisitor, Locked};
use crate::live::table_pages::ReservedPages;
use crate::live::tlb_batch::TlbBatch;
use crate::plan::{Leaves, Region, Stats};
use crate::platform::Platform;
use crate::read::Table;

/// A new mapping of consecutive addresses to consecutive physical memory.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) half: Half,
    pub(crate) span: Span,
    /// The output address of the first address.
    pub(crate) oa: Pa,
    pub(crate) attributes: Attributes,
    pub(crate) leaves: Leaves,
}

/// Subtrees that are complete and wait for the barrier before they are published.
struct Links {
    waiting: [Option<(Table, usize, Descriptor)>; Self::ROOM],
    used: usize,
}

impl Links {
    const ROOM: usize = 8;

    const fn new() -> Self {
        Self { waiting: [None; Self::ROOM], used: 0 }
    }

    fn add<P: Platform>(&mut self, link: (Table, usize, Descriptor), locked: &Locked<'_, P>) {
        self.waiting[self.used] = Some(link);
        self.used += 1;
        if self.used == Self::ROOM {
            self.publish(locked);
        }
    }

    fn publish<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        if self.used != 0 {
            locked.publish_barrier();
        }
        for (table, index, link) in self.waiting[..core::mem::take(&mut self.used)].iter().flatten() {
            locked.store(table, *index, *link);
        }
    }
}

impl Mapping {
    /// Maps everything, or nothing.
    ///
    /// # Errors
    ///
    /// An existing mapping; a descriptor that the library would not write; out of frames.
    pub(crate) fn map<P: Platform>(self, locked: &Locked<'_, P>) -> Result<(), ChangeError> {
        let table = locked.deepest(locked.root(), self.span);
        let mut survey = Survey { mapping: self, tables: 0 };
        locked.visit_leaves(&table, self.span, &mut survey)?;
        let reserved = ReservedPages::take(locked.platform, survey.tables)?;
        let mut fill = Fill { mapping: self, reserved, links: Links::new(), run: None };
        locked.visit_leaves(&table, self.span, &mut fill)?;
        fill.links.publish(locked);
        TlbBatch::new().finish(locked);
        Ok(())
    }

    fn part(&self, of: Span) -> Span {
        Span { first: of.first.max(self.span.first), last: of.last.min(self.span.last) }
    }

    fn oa(&self, va: u64) -> Pa {
        Pa(self.oa.0.wrapping_add(va.wrapping_sub(self.span.first)))
    }

    fn region(&self, part: Span) -> Region {
        let bytes = part.last - part.first + 1;
        let (attributes, leaves) = (self.attributes, self.leaves);
        Region { va: Va(part.first), oa: self.oa(part.first), bytes, attributes, leaves }
    }

    /// Returns true if a hole becomes a leaf rather than a table.
    fn is_leaf<P: Platform>(&self, locked: &Locked<'_, P>, table: &Table, index: usize) -> bool {
        let at = table.span_of(index);
        let fits = self.span.covers(at.first, at.last)
            && (at.first ^ self.oa(at.first).0) & ((1 << table.shift) - 1) == 0;
        let large = table.level == Level::PAGE || self.leaves == Leaves::Largest;
        fits && large && locked.geometry.may_be_leaf(table.level)
    }

    /// Returns true if the leaf that a hole becomes is in a contiguous run.
    fn is_in_run<P: Platform>(&self, locked: &Locked<'_, P>, table: &Table, index: usize) -> bool {
        let members = locked.geometry.contiguous_entries(table.level);
        let first = index & !(members - 1);
        let span = table.run_of(index, members);
        let aligned = (span.first ^ self.oa(span.first).0) & (span.last - span.first) == 0;
        // An entry that points to an empty table cannot be a member of the run.
        let free = |i| !locked.load(table, i).is_table(table.level);
        members > 1
            && self.leaves == Leaves::Largest
            && self.span.covers(span.first, span.last)
            && aligned
            && (first..first + members).all(free)
    }
}

/// Checks that nothing is mapped in a range, and counts the tables that are needed to map it.
struct Survey {
    mapping: Mapping,
    tables: u64,
}

impl<P: Platform> LeafVisitor<P> for Survey {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, ChangeError> {
        let g = locked.geometry;
        let part = self.mapping.part(table.span_of(index));
        if old.is_valid() || old.is_leaf(g, table.level) {
            return Err(ChangeError::Occupied { va: Va(part.first) });
        }
        if !self.mapping.is_leaf(locked, table, index) {
            let above = (table.level.number() - g.root().number() + 1) as u64;
            self.tables += Stats::of_runs(g, self.mapping.region(part).runs(g)).tables - above;
        }
        Ok(index + 1)
    }
}

/// Stores the leaves of a mapping, and builds the tables.
struct Fill<'m, P: Platform> {
    mapping: Mapping,
    reserved: ReservedPages<'m, P>,
    links: Links,
    /// The entries that were examined last, by table and first index, and whether they become a contiguous run.
    run: Option<((Pa, usize), bool)>,
}

impl<P: Platform> LeafVisitor<P> for Fill<'_, P> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, _): (usize, usize),
        _: Descriptor,
    ) -> Result<usize, ChangeError> {
        let (g, mapping, at) = (locked.geometry, self.mapping, table.span_of(index));
        if mapping.is_leaf(locked, table, index) {
            let members = g.contiguous_entries(table.level);
            let run = (table.pa, index & !(members - 1));
            let contiguous = match self.run {
                Some((known, contiguous)) if known == run => contiguous,
                _ => mapping.is_in_run(locked, table, index),
            };
            self.run = Some((run, contiguous));
            let oa = mapping.oa(at.first);
            let leaf = Leaf { oa, attributes: mapping.attributes, contiguous, valid: true };
            locked.store(table, index, Descriptor::leaf(leaf, g, table.level));
            locked.counters().leaves(table.level, contiguous, 1);
        } else {
            let runs = mapping.region(mapping.part(at)).runs(g);
            let of = (mapping.half, table.level.next(), at.first);
            let (frame, stats) = Tree::subtree(&self.reserved, g, of, runs)?;
            locked.counters().include(&stats);
            self.links.add((*table, index, Descriptor::link(frame.into_pa(), g)), locked);
        }
        Ok(index + 1)
    }
}
