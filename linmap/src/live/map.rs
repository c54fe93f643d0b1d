//! New mappings where there are none, and none where there were some.

use crate::build::{Error, Tree};
use crate::format::{Attributes, Descriptor, Half, Leaf, Level, Pa, Span, TableLimits, Va};
use crate::live::address_space::AddressSpace;
use crate::live::edit::Editor;
use crate::live::locked::Access;
use crate::live::reserve::Reserve;
use crate::live::table_pages::Retired;
use crate::live::tlb_batch::Batch;
use crate::plan::{Leaves, Policy, Region, Stats};
use crate::platform::Platform;
use crate::read::Table;

/// A mapping under way: consecutive addresses to consecutive physical memory.
pub(crate) struct Mapper<'a, P> {
    pub(crate) access: Access<'a, P>,
    pub(crate) half: Half,
    pub(crate) span: Span,
    /// Where the first address maps to.
    pub(crate) oa: Pa,
    pub(crate) attributes: Attributes,
    pub(crate) leaves: Leaves,
}

/// Subtrees that are built and wait for the barrier before they are published.
struct Links {
    waiting: [Option<(Table, usize, Descriptor)>; Self::ROOM],
    used: usize,
}

impl Links {
    const ROOM: usize = 8;

    fn add<P: Platform>(&mut self, link: (Table, usize, Descriptor), access: &Access<'_, P>) {
        self.waiting[self.used] = Some(link);
        self.used += 1;
        if self.used == Self::ROOM {
            self.publish(access);
        }
    }

    fn publish<P: Platform>(&mut self, access: &Access<'_, P>) {
        if self.used != 0 {
            access.filled();
        }
        for (table, index, link) in self.waiting[..core::mem::take(&mut self.used)].iter().flatten() {
            access.store(table, *index, *link);
        }
    }
}

impl<P: Platform> Mapper<'_, P> {
    /// Maps, or does nothing at all.
    pub(crate) fn run(&self, root: Table) -> Result<(), Error> {
        let node = self.access.deepest(root, self.span);
        let tables = self.survey(&node)?;
        let reserve = Reserve::take(self.access.platform, tables)?;
        let mut links = Links { waiting: [None; Links::ROOM], used: 0 };
        self.fill(&node, &reserve, &mut links)?;
        links.publish(&self.access);
        Batch::new().finish(&self.access);
        Ok(())
    }

    /// Whether nothing is mapped there, and how many tables it takes. Stores nothing.
    fn survey(&self, table: &Table) -> Result<u64, Error> {
        let g = self.access.geometry;
        let (first, last) = table.entries_of(self.span, g);
        let mut tables = 0;
        for index in first..=last {
            let old = self.access.load(table, index);
            let part = self.part(table.span_of(index));
            if old.is_table(table.level) {
                if !TableLimits::of(old).is_empty() {
                    return Err(Error::NotUnderstood { va: Va(part.first) });
                }
                tables += self.survey(&self.access.below(table, index, old))?;
            } else if old.is_valid() || old.is_leaf(g, table.level) {
                return Err(Error::Occupied { va: Va(part.first) });
            } else if !self.is_leaf(table, index) {
                let above = (table.level.number() - g.root().number() + 1) as u64;
                tables += Stats::of_runs(g, self.region(part).runs(g)).tables - above;
            }
        }
        Ok(tables)
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

    /// Whether a slot that holds nothing becomes a leaf.
    fn is_leaf(&self, table: &Table, index: usize) -> bool {
        let g = self.access.geometry;
        let at = table.span_of(index);
        let fits = self.span.covers(at.first, at.last)
            && (at.first ^ self.oa(at.first).0) & ((1 << table.shift) - 1) == 0;
        let large = table.level == Level::PAGE || self.leaves == Leaves::Largest;
        fits && large && g.may_be_leaf(table.level)
    }

    /// Whether the leaf in a slot is one of a contiguous run.
    fn is_in_run(&self, table: &Table, index: usize) -> bool {
        let g = self.access.geometry;
        let members = g.contiguous_entries(table.level);
        let first = index & !(members - 1);
        let span = table.run_of(index, members);
        let aligned = (span.first ^ self.oa(span.first).0) & (span.last - span.first) == 0;
        // A slot with a table, which has nothing in it, can not be in one.
        let free = |i| !self.access.load(table, i).is_table(table.level);
        members > 1
            && self.leaves == Leaves::Largest
            && self.span.covers(span.first, span.last)
            && aligned
            && (first..first + members).all(free)
    }

    fn fill(&self, table: &Table, reserve: &Reserve<'_, P>, links: &mut Links) -> Result<(), Error> {
        let g = self.access.geometry;
        let (first, last) = table.entries_of(self.span, g);
        let (mut contiguous, members) = (false, g.contiguous_entries(table.level));
        for index in first..=last {
            let old = self.access.load(table, index);
            let at = table.span_of(index);
            if old.is_table(table.level) {
                self.fill(&self.access.below(table, index, old), reserve, links)?;
            } else if self.is_leaf(table, index) {
                if index == first || index & (members - 1) == 0 {
                    contiguous = self.is_in_run(table, index);
                }
                let leaf =
                    Leaf { oa: self.oa(at.first), attributes: self.attributes, contiguous, valid: true };
                self.access.store(table, index, Descriptor::leaf(leaf, g, table.level));
                self.access.counters().leaves(table.level, contiguous, 1);
            } else {
                let runs = self.region(self.part(at)).runs(g);
                let of = (self.half, table.level.next(), at.first);
                let (frame, stats) = Tree::subtree(reserve, g, of, runs)?;
                self.access.counters().include(&stats);
                links.add((*table, index, Descriptor::link(frame.into_pa(), g)), &self.access);
            }
        }
        Ok(())
    }
}

impl<P: Platform> Editor<'_, P> {
    /// Takes away the leaves that lie within the range, and tables of which nothing is left.
    pub(crate) fn remove(&mut self, table: &Table, retired: &mut Retired) {
        let g = self.access.geometry;
        let (first, last) = table.entries_of(self.span, g);
        for index in first..=last {
            let old = self.access.load(table, index);
            let at = table.span_of(index);
            if old.is_table(table.level) {
                let (child, mut level) = (self.access.below(table, index, old), table.level.down(1));
                if self.span.covers(at.first, at.last) {
                    self.uncount(&child);
                    self.batch.add(at.first, at.last, g.page_shift());
                } else {
                    self.remove(&child, retired);
                    if !self.is_empty(&child) {
                        continue;
                    }
                    self.access.counters().no_table();
                    self.access.counters().collapsed(1);
                    // Nobody has to look for tables below it.
                    level = Level::PAGE;
                    // The leaves are in the batch; walk caches forget the table by any of its addresses.
                    self.batch.add(at.first, at.first + (g.page_size() - 1), g.page_shift());
                }
                self.access.store(table, index, Descriptor::HOLE);
                retired.add((child.pa, level), &mut self.batch, &self.access);
            } else if old != Descriptor::HOLE {
                self.access.store(table, index, Descriptor::HOLE);
                self.access.counters().leaves(table.level, old.is_contiguous(), -1);
                if old.is_valid() {
                    self.batch.add(at.first, at.last, table.shift);
                }
            }
        }
    }

    fn is_empty(&self, table: &Table) -> bool {
        let entries = self.access.geometry.entries(table.level);
        // A root may have fewer than eight.
        let eights = entries & !7;
        let is_hole = |entry: &Descriptor| *entry == Descriptor::HOLE;
        (0..eights).step_by(8).all(|index| self.access.load_eight(table, index).iter().all(is_hole))
            && (eights..entries).all(|index| is_hole(&self.access.load(table, index)))
    }

    /// Takes a table, and all below it, out of the counts.
    fn uncount(&self, table: &Table) {
        let (g, counters) = (self.access.geometry, self.access.counters());
        counters.no_table();
        counters.collapsed(1);
        for index in 0..g.entries(table.level) {
            let old = self.access.load(table, index);
            if old.is_table(table.level) {
                self.uncount(&self.access.below(table, index, old));
            } else if old.is_leaf(g, table.level) {
                counters.leaves(table.level, old.is_contiguous(), -1);
            }
        }
    }
}

impl AddressSpace {
    /// The leaves that new mappings take.
    pub(crate) fn leaves(&self) -> Leaves {
        match self.policy() {
            Policy::Pages => Leaves::Pages,
            Policy::Live | Policy::Park | Policy::Fixed => Leaves::Largest,
        }
    }
}
