//! Returns to the largest leaves where the permissions of a range are uniform again.
//!
//! It works from the bottom up. If one block can replace all leaves of a table, it does, with one store, in place.
//! Otherwise the leaves become contiguous runs where possible. Before the table's page is given back, TLBs drop every
//! leaf in it and walk caches drop the table (Arm ARM D8.17, RRVJDB). So no TLB ever holds an entry that is smaller
//! than the leaf now in the tables, and a later change can invalidate that leaf by one of its addresses.

use crate::batch::TlbBatch;
use crate::edit::call::{Call, Caller};
use crate::edit::cover::GIGABYTE;
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::pieces::piece;
use crate::edit::resize;
use crate::edit::retired::DeferredTables;
use crate::edit::stop::Stop;
use crate::format::{Attributes, Descriptor, Geometry, Level, Pa, Span, TableLimits};
use crate::plan::Policy;
use crate::platform::EntryUpdate;
use crate::read::{Entries, Table, visit_span};

/// Collapses the tables that overlap a span, where possible, piece by piece. Leaves out what others have claimed, and
/// leaves that stay split.
/// Does nothing where the policy or the CPUs do not permit live changes of size.
///
/// # Errors
///
/// CPUs cannot be parked. Tables that had collapsed by then stay collapsed.
pub(crate) fn collapse<G: Guard>(caller: Caller<'_, G>, span: Span) -> Result<(), ChangeError> {
    let mut call = Call::new(caller);
    // At least one table, since a table is merged as a whole.
    let entries = caller.tables().geometry().entries(Level::PAGE).max(G::HOLD);
    let above_pages = caller.tables().geometry().level_shift(Level::PAGE.down(-1));
    let mut first = span.first;
    loop {
        let window = Span { first, last: span.last.min(first | ((1 << GIGABYTE) - 1)) };
        let mut last = window.last;
        // Others may have claimed addresses of the window: it is not the range of an operation, but a place to look.
        call.looks(G::for_stores(window), window, |editor| {
            // The pages of one table are a piece.
            if (window.first ^ window.last) >> above_pages != 0 {
                last = piece(editor, window, (span.last, None), entries).0.last;
            }
            collapse_piece(editor, Span { first, last: last.min(window.last) })
        })?;
        if last >= span.last {
            return Ok(());
        }
        first = last + 1;
    }
}

fn collapse_piece<G: Guard>(editor: &Editor<'_, G>, span: Span) -> Result<(), Stop> {
    let policy = editor.policy;
    if editor.may_resize(policy, Some(span.first)).is_err() {
        return Ok(());
    }
    let (batch, deferred) = (TlbBatch::new(), DeferredTables::new());
    let mut collapse = Collapse { editor, policy, span, batch, deferred, changed: false };
    let result = collapse.deepest_first();
    if collapse.changed {
        collapse.batch.finish(editor);
    }
    collapse.deferred.retire(editor);
    result
}

/// A collapse under way.
struct Collapse<'l, 'a, G: Guard> {
    editor: &'l Editor<'a, G>,
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

impl<G: Guard> Collapse<'_, '_, G> {
    /// Starts at the deepest table that translates the whole span, and goes up as long as tables collapse: a table
    /// above one that stays is not uniform.
    fn deepest_first(&mut self) -> Result<(), Stop> {
        let root = self.editor.root();
        let mut path = [root; Level::COUNT];
        let mut depth = 0;
        while let Some(child) = self.only_child(&path[depth]) {
            depth += 1;
            path[depth] = child;
        }
        if path[depth].level != Level::PAGE {
            let (editor, span) = (self.editor, self.span);
            visit_span(editor, &path[depth], span, self)?;
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
        let entry = self.editor.load(table, index);
        entry.is_link().then(|| self.editor.below(table, index, entry))
    }

    /// Returns the block or hole that can replace a table, if its entries are uniform.
    #[inline]
    fn uniform(&self, table: &Table) -> Option<Uniform> {
        let (g, raw) = (self.editor.geometry, self.editor.load(table, 0));
        let (leaf, step) = if raw.without_contiguous() == Descriptor::HOLE {
            (Descriptor::HOLE, 0)
        } else {
            (block_for(g, table, raw)?, 1 << table.shift)
        };
        // Where only a part of it is covered, entries may change meanwhile. What is found is then looked at again with all of it covered.
        let last = g.entries(table.level) - 1;
        let (end, runs) = self.editor.slots(table).series(Descriptor::CONTIGUOUS, (0, last), (raw, step));
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
        self.editor.guard.mark(at);
        if resize::parks(self.policy, leaf.is_valid()) {
            let store = EntryUpdate::replace(self.editor.place(table), index, leaf);
            resize::update(self.editor, (self.policy, true), &[store])?;
        } else {
            self.editor.store(table, index, leaf);
        }
        self.changed = true;
        self.editor.count(|counters| counters.no_table());
        if leaf != Descriptor::HOLE {
            self.count(child, runs);
            self.editor.count(|counters| counters.leaves(table.level, false, 1));
        }
        self.editor.count(|counters| counters.collapsed(1));
        self.batch.add(at.first, at.last, child.shift);
        self.deferred.add(child.pa, &mut self.batch, self.editor);
        Ok(true)
    }

    /// Returns true if nothing is lost with the restrictions in a table descriptor when a leaf or a hole takes its place: a
    /// new table would get them, and they remove nothing from the leaf.
    fn may_go(&self, table: &Table, index: usize, leaf: Descriptor) -> bool {
        let limits = TableLimits::of(self.editor.load(table, index));
        let own = self.editor.tables().table_attributes().limits();
        let attributes = Attributes::from_bits_retain(leaf.0);
        let without_effect = leaf == Descriptor::HOLE || limits.within(attributes) == limits;
        own.contains(limits) && without_effect
    }

    /// Returns true if nobody has claimed any of these addresses, or relies on leaves that were cut, and no invalidations of
    /// them are pending.
    ///
    /// # Errors
    ///
    /// It takes more than the guard covers.
    fn may_merge(&self, span: Span) -> Result<bool, Stop> {
        self.editor.covers(span)?;
        let cuts = self.editor.guard.are_cuts_kept();
        Ok(!cuts && !self.editor.guard.is_claimed(span) && !self.editor.guard.is_pending(span))
    }

    /// Subtracts the leaves of a table from the counts.
    fn count(&mut self, table: &Table, runs: bool) {
        let entries = self.editor.geometry.entries(table.level);
        let members = if runs { self.editor.geometry.contiguous_entries(table.level) } else { entries };
        // Either all members of a run are in the table, or none.
        let is_run = |&first: &usize| self.editor.load(table, first).is_contiguous();
        let in_runs = (0..entries).step_by(members).filter(is_run).count() * members;
        self.editor.count(|counters| counters.leaves(table.level, true, -(in_runs as i64)));
        self.editor.count(|counters| counters.leaves(table.level, false, in_runs as i64 - entries as i64));
    }

    /// Turns leaves of a table into contiguous runs where possible.
    fn runs(&mut self, table: &Table) -> Result<(), Stop> {
        let g = self.editor.geometry;
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
                self.editor.guard.mark(at);
                let join = EntryUpdate::join(self.editor.place(table), start, members);
                resize::update(self.editor, (self.policy, leaf.is_valid()), &[join])?;
                self.changed = true;
                self.editor.count(|counters| counters.dissolved(table.level, -(members as i64)));
            }
        }
        Ok(())
    }

    /// Returns the first of `members` leaves, if they can be a contiguous run and are none yet.
    fn run_at(&self, table: &Table, start: usize, members: usize) -> Option<Descriptor> {
        let (editor, step) = (self.editor, 1u64 << table.shift);
        let first = editor.load(table, start);
        let follows =
            |n: usize| editor.load(table, start + n).0 == first.0.wrapping_add(step.wrapping_mul(n as u64));
        // Most fail here.
        if !first.is_valid()
            || first.is_contiguous()
            || first.stays_split()
            || !follows(1)
            || !editor.tables().is_leaf(first, table.level)
        {
            return None;
        }
        let Pa(oa) = first.oa(editor.geometry, table.level);
        let same = oa & (step * members as u64 - 1) == 0 && (2..members).all(follows);
        same.then_some(first)
    }
}

impl<G: Guard> LiveVisitor<G> for Collapse<'_, '_, G> {
    type Stop = Stop;

    /// Leaves are handled when the walk returns from their table.
    fn leaves(&mut self, _: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        Ok(if at.table.level == Level::PAGE { at.last + 1 } else { at.index + 1 })
    }

    fn leave(&mut self, _: &Editor<'_, G>, table: &Table, index: usize, below: &Table) -> Result<(), Stop> {
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
