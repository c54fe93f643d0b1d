//! Returns to the largest leaves where the permissions of a range are uniform again.
//!
//! It works from the bottom up. If one block can replace all leaves of a table, it does, with one store, in place.
//! Otherwise the leaves become contiguous runs where possible. Before the table's page is given back, TLBs drop every
//! leaf in it and walk caches drop the table (Arm ARM D8.17, RRVJDB). So no TLB ever holds an entry that is smaller
//! than the leaf now in the tables, and a later change can invalidate that leaf by one of its addresses.

use crate::format::{Attributes, Descriptor, Geometry, Level, Pa, Span, TableLimits};
use crate::live::attempt::Call;
use crate::live::deferred_tables::DeferredTables;
use crate::live::error::ChangeError;
use crate::live::lock_set::{GIGABYTE, LockSet};
use crate::live::locked::{LiveVisitor, Locked};
use crate::live::map_state::MapState;
use crate::live::pieces::piece;
use crate::live::resize;
use crate::live::stop::Stop;
use crate::live::tlb_batch::TlbBatch;
use crate::plan::Policy;
use crate::platform::{EntryUpdate, Platform};
use crate::read::{Table, visit_span};

/// Collapses the tables that overlap a span, where possible, piece by piece. Leaves out what others have claimed, and
/// leaves that stay split.
/// Does nothing where the policy or the CPUs do not permit live changes of size.
///
/// # Errors
///
/// CPUs cannot be parked. Tables that had collapsed by then stay collapsed.
pub(crate) fn collapse<P: Platform>(state: &MapState, platform: &P, span: Span) -> Result<(), ChangeError> {
    let mut call = Call::new(state, platform);
    // At least one table, since a table is merged as a whole.
    let entries = state.geometry().entries(Level::PAGE).max(P::HOLD);
    let above_pages = state.geometry().level_shift(Level::PAGE.down(-1));
    let mut first = span.first;
    loop {
        let window = Span { first, last: span.last.min(first | ((1 << GIGABYTE) - 1)) };
        let mut last = window.last;
        // Others may have claimed addresses of the window: it is not the range of an operation, but a place to look.
        call.looks(LockSet::of::<P>(window), window, |locked| {
            // The pages of one table are a piece.
            if (window.first ^ window.last) >> above_pages != 0 {
                last = piece(locked, window, (span.last, None), entries).0.last;
            }
            collapse_piece(locked, Span { first, last: last.min(window.last) })
        })?;
        if last >= span.last {
            return Ok(());
        }
        first = last + 1;
    }
}

fn collapse_piece<P: Platform>(locked: &Locked<'_, P>, span: Span) -> Result<(), Stop> {
    let policy = locked.policy;
    if locked.may_resize(policy, Some(span.first)).is_err() {
        return Ok(());
    }
    let (batch, deferred) = (TlbBatch::new(), DeferredTables::new());
    let mut collapse = Collapse { locked, policy, span, batch, deferred, changed: false };
    let result = collapse.deepest_first();
    if collapse.changed {
        collapse.batch.finish(locked);
    }
    collapse.deferred.retire(locked);
    result
}

/// A collapse under way.
struct Collapse<'l, 'a, P: Platform> {
    locked: &'l Locked<'a, P>,
    policy: Policy,
    span: Span,
    batch: TlbBatch,
    deferred: DeferredTables,
    /// True if something was stored.
    changed: bool,
}

/// A table that one entry can replace.
struct Uniform {
    /// That entry.
    leaf: Descriptor,
    /// True if some of the table's leaves are in runs.
    runs: bool,
}

impl<P: Platform> Collapse<'_, '_, P> {
    /// Starts at the deepest table that translates the whole span, and goes up as long as tables collapse: a table
    /// above one that stays is not uniform.
    fn deepest_first(&mut self) -> Result<(), Stop> {
        let root = self.locked.root();
        let mut path = [root; Level::COUNT];
        let mut depth = 0;
        while let Some(child) = self.only_child(&path[depth]) {
            depth += 1;
            path[depth] = child;
        }
        if path[depth].level != Level::PAGE {
            let (locked, span) = (self.locked, self.span);
            visit_span(locked, &path[depth], span, self)?;
        }
        while depth > 0 {
            let Some(uniform) = self.uniform(&path[depth]) else { break };
            let (parent, child) = (path[depth - 1], path[depth]);
            if !self.replace(&parent, parent.index_of(self.span.first), &child, uniform)? {
                break;
            }
            depth -= 1;
        }
        self.runs(&path[depth])
    }

    /// Returns the table below that translates the whole span, if there is one.
    #[inline]
    fn only_child(&self, table: &Table) -> Option<Table> {
        let index = table.index_of(self.span.first);
        if table.index_of(self.span.last) != index || table.level == Level::PAGE {
            return None;
        }
        let entry = self.locked.load(table, index);
        entry.is_link().then(|| self.locked.below(table, index, entry))
    }

    /// Returns the block or hole that can replace a table, if its entries are uniform.
    #[inline]
    fn uniform(&self, table: &Table) -> Option<Uniform> {
        let (g, raw) = (self.locked.geometry, self.locked.load(table, 0));
        let (leaf, step) = if raw.without_contiguous() == Descriptor::HOLE {
            (Descriptor::HOLE, 0)
        } else {
            (block_for(g, table, raw)?, 1 << table.shift)
        };
        // Under some of its locks only, entries may change meanwhile. What is found is then looked at again under all of them.
        let last = g.entries(table.level) - 1;
        let (end, runs) = self.locked.slots(table).series(Descriptor::CONTIGUOUS, (0, last), (raw, step));
        (end > last).then(|| Uniform { leaf, runs: raw.is_contiguous() || runs != 0 })
    }

    /// Replaces a table by a leaf or a hole. Returns false if it has to stay.
    fn replace(
        &mut self,
        table: &Table,
        index: usize,
        child: &Table,
        Uniform { leaf, runs }: Uniform,
    ) -> Result<bool, Stop> {
        let at = table.span_of(index);
        if !self.may_go(table, index, leaf) || !self.may_merge(at)? {
            return Ok(false);
        }
        self.locked.mark(at);
        if resize::parks(self.policy, leaf.is_valid()) {
            let store = EntryUpdate::replace(self.locked.place(table), index, leaf);
            resize::update(self.locked, (self.policy, true), &[store])?;
        } else {
            self.locked.store(table, index, leaf);
        }
        self.changed = true;
        self.locked.counters().no_table();
        if leaf != Descriptor::HOLE {
            self.count(child, runs);
            self.locked.counters().leaves(table.level, false, 1);
        }
        self.locked.counters().collapsed(1);
        self.batch.add(at.first, at.last, child.shift);
        self.deferred.add(child.pa, &mut self.batch, self.locked);
        Ok(true)
    }

    /// Returns true if nothing is lost with the restrictions in a table descriptor when a leaf or a hole takes its place: a
    /// new table would get them, and they remove nothing from the leaf.
    fn may_go(&self, table: &Table, index: usize, leaf: Descriptor) -> bool {
        let limits = TableLimits::of(self.locked.load(table, index));
        let own = self.locked.state.table_attributes().limits();
        let attributes = Attributes::from_bits_retain(leaf.0);
        let without_effect = leaf == Descriptor::HOLE || limits.within(attributes) == limits;
        own.contains(limits) && without_effect
    }

    /// Returns true if nobody has claimed any of these addresses, or relies on leaves that were cut, and no invalidations of
    /// them are pending.
    ///
    /// # Errors
    ///
    /// It takes more locks.
    fn may_merge(&self, span: Span) -> Result<bool, Stop> {
        self.locked.covers(span)?;
        let cuts = self.locked.state.attention.are_cuts_kept();
        Ok(!cuts && !self.locked.is_claimed(span) && !self.locked.is_pending(span))
    }

    /// Subtracts the leaves of a table from the counts.
    fn count(&mut self, table: &Table, runs: bool) {
        let entries = self.locked.geometry.entries(table.level);
        let members = if runs { self.locked.geometry.contiguous_entries(table.level) } else { entries };
        // Either all members of a run are in the table, or none.
        let is_run = |&first: &usize| self.locked.load(table, first).is_contiguous();
        let in_runs = (0..entries).step_by(members).filter(is_run).count() * members;
        self.locked.counters().leaves(table.level, true, -(in_runs as i64));
        self.locked.counters().leaves(table.level, false, in_runs as i64 - entries as i64);
    }

    /// Turns leaves of a table into contiguous runs where possible.
    fn runs(&mut self, table: &Table) -> Result<(), Stop> {
        let g = self.locked.geometry;
        let members = g.run_to_make(table.level);
        if members == 1 || !g.may_be_leaf(table.level) {
            return Ok(());
        }
        let (first, last) = table.entries_of(self.span, g);
        for start in (first & !(members - 1)..=last).step_by(members) {
            if let Some(leaf) = self.run_at(table, start, members) {
                let at = table.run_of(start, members);
                if !self.may_merge(at)? {
                    continue;
                }
                self.locked.mark(at);
                let join = EntryUpdate::join(self.locked.place(table), start, members);
                resize::update(self.locked, (self.policy, leaf.is_valid()), &[join])?;
                self.changed = true;
                self.locked.counters().dissolved(table.level, -(members as i64));
            }
        }
        Ok(())
    }

    /// Returns the first of `members` leaves, if they can be a contiguous run and are none yet.
    fn run_at(&self, table: &Table, start: usize, members: usize) -> Option<Descriptor> {
        let (locked, step) = (self.locked, 1u64 << table.shift);
        let first = locked.load(table, start);
        let follows =
            |n: usize| locked.load(table, start + n).0 == first.0.wrapping_add(step.wrapping_mul(n as u64));
        // Most fail here.
        if !first.is_valid()
            || first.is_contiguous()
            || first.stays_split()
            || !follows(1)
            || !locked.state.is_leaf(first, table.level)
        {
            return None;
        }
        let Pa(oa) = first.oa(locked.geometry, table.level);
        let same = oa & (step * members as u64 - 1) == 0 && (2..members).all(follows);
        same.then_some(first)
    }
}

impl<P: Platform> LiveVisitor<P> for Collapse<'_, '_, P> {
    type Stop = Stop;

    /// Leaves are handled when the walk returns from their table.
    fn leaves(
        &mut self,
        _: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        _: Descriptor,
    ) -> Result<usize, Stop> {
        Ok(if table.level == Level::PAGE { last + 1 } else { index + 1 })
    }

    fn leave(&mut self, _: &Locked<'_, P>, table: &Table, index: usize, below: &Table) -> Result<(), Stop> {
        match self.uniform(below) {
            Some(uniform) => self.replace(table, index, below, uniform).map(|_| ()),
            None => self.runs(below),
        }
    }
}

/// Returns the block that maps the same as a table whose first entry is this one, if its leaves are adjacent and may merge.
#[inline(always)]
fn block_for(g: Geometry, table: &Table, first: Descriptor) -> Option<Descriptor> {
    let above = table.level.down(-1);
    // The bits from those of a page up are in place in all formats, those that are not below 2^48.
    let within = ((1 << (table.shift + g.index_bits())) - 1) & !(g.page_size() - 1);
    let is_first =
        first.is_valid() && first.is_leaf(g, table.level) && first.0 & within & Descriptor::ADDRESS == 0;
    (is_first && !first.stays_split() && g.makes_leaf(above)).then(|| first.parent(table.level))
}
