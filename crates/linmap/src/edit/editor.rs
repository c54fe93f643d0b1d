//! The view of live tables for an operation in a hold.

use core::convert::Infallible;

use crate::batch::{Invalidated, Issuer};
use crate::build::{Counters, Replacement};
use crate::edit::cover::Cover;
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::reserve::Reserve;
use crate::edit::stop::Needs;
use crate::edit::tables::Tables;
use crate::format::{Attributes, Descriptor, Geometry, LeafChange, Level, Pa, Span, Va};
use crate::plan::Policy;
use crate::platform::{Dsb, Hardware, Slots, SlotsMut};
use crate::read::{Entries, Source, Table, Visitor};

/// Live tables, and the guard that keeps others away.
pub(crate) struct Editor<'a, G: Guard> {
    pub(crate) platform: &'a G::Platform,
    pub(crate) geometry: Geometry,
    pub(crate) guard: G,
    /// The table pages that were taken before.
    pub(crate) reserve: &'a Reserve<'a, G::Platform>,
    /// The policy when the hold began: another CPU may set it at any time, and a hold follows one.
    pub(crate) policy: Policy,
    /// True if the CPUs have just answered, so that they can be parked.
    pub(crate) answered: bool,
}

impl<G: Guard> Clone for Editor<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G: Guard> Copy for Editor<'_, G> {}

impl<'a, G: Guard> Editor<'a, G> {
    /// Returns what is known of the tables.
    #[inline(always)]
    pub(crate) fn tables(&self) -> &Tables {
        self.guard.tables()
    }

    /// Counts, if anybody does.
    #[inline(always)]
    pub(crate) fn count(&self, count: impl FnOnce(&Counters)) {
        if let Some(counters) = self.guard.counters() {
            count(counters);
        }
    }

    /// Returns the builder of tables that replace a leaf, for a change of a span that contains only a part of the leaf.
    #[inline(always)]
    pub(crate) fn replacement(
        &self,
        change: LeafChange,
        span: Span,
    ) -> Replacement<'_, Reserve<'a, G::Platform>> {
        let (memory, geometry, tables) = (self.reserve, self.geometry, self.tables().table_attributes());
        let counters = self.guard.counters();
        Replacement { memory, geometry, tables, change, span, pages: false, counters }
    }

    /// Checks that the holder may store to descriptors that translate a span.
    ///
    /// # Errors
    ///
    /// It takes more.
    #[inline]
    pub(crate) fn covers(&self, span: Span) -> Result<(), Needs> {
        self.has(G::for_stores(span))
    }

    /// Checks that the holder may link a table into a hole that translates `entry`. Besides, it covers all addresses that are mapped
    /// below the table, or has claimed them.
    ///
    /// # Errors
    ///
    /// It takes more. Then the entry is to be read again.
    #[inline]
    pub(crate) fn may_link(&self, entry: Span) -> Result<(), Needs> {
        self.has(G::for_link(entry))
    }

    /// Checks that the holder has this.
    ///
    /// # Errors
    ///
    /// It takes more.
    #[inline]
    pub(crate) fn has(&self, needed: Cover) -> Result<(), Needs> {
        if self.guard.cover().has(needed) { Ok(()) } else { Err(Needs::Cover(needed)) }
    }

    /// Checks that the reserve has so many table pages.
    ///
    /// # Errors
    ///
    /// It has fewer.
    #[inline]
    pub(crate) fn has_frames(&self, frames: u64) -> Result<(), Needs> {
        if frames <= self.reserve.count() { Ok(()) } else { Err(Needs::Frames(frames)) }
    }

    /// Returns the root table.
    #[inline]
    pub(crate) fn root(&self) -> Table {
        let tables = self.tables();
        self.table(tables.root(), self.geometry.root(), tables.root_shift(), tables.base())
    }

    /// Returns the table and the index of the entry that translates an address.
    #[inline]
    pub(crate) fn entry_of(&self, va: u64) -> (Table, usize) {
        let table = self.deepest(self.root(), Span { first: va, last: va });
        (table, table.index_of(va))
    }

    /// Calls `work` for these entries until the last of them, or until a table descriptor. The first must not be one. `work` returns the
    /// index after those that it has handled. Returns the index after all that were handled.
    ///
    /// A visitor that does this in a function of its own keeps what it needs for leaves out of the walk down to them.
    ///
    /// # Errors
    ///
    /// The first error of `work`.
    #[inline(always)]
    pub(crate) fn each_leaf<'t, E>(
        &self,
        mut at: Entries<'t>,
        mut work: impl FnMut(Entries<'t>) -> Result<usize, E>,
    ) -> Result<usize, E> {
        loop {
            at.index = work(at)?;
            if at.index > at.last {
                return Ok(at.index);
            }
            at.entry = self.load(at.table, at.index);
            if at.entry.is_table(at.table.level) {
                return Ok(at.index);
            }
        }
    }

    /// Returns true if a leaf is in a run that is only partly in a span.
    #[inline]
    pub(crate) fn dissolves(&self, table: &Table, index: usize, old: Descriptor, span: Span) -> bool {
        let run = table.run_of(index, self.geometry.contiguous_entries(table.level));
        old.is_contiguous() && !span.covers(run.first, run.last)
    }

    /// Returns the number of entries in the run of an entry, or `None` if it is not in one.
    #[inline(always)]
    pub(crate) fn run(&self, table: &Table, entry: Descriptor) -> Option<usize> {
        entry.is_contiguous().then(|| self.geometry.contiguous_entries(table.level))
    }

    /// Returns a live table.
    #[inline]
    pub(crate) fn table(&self, pa: Pa, level: Level, shift: u32, base: u64) -> Table {
        Table { pa, words: self.words(pa), level, shift, base }
    }

    /// Returns the address of a live table's entries, or null if the memory is not plain.
    #[inline]
    fn words(&self, pa: Pa) -> *mut u64 {
        // SAFETY: a table that was reached from the root of a live tree, in a hold of its addresses.
        unsafe { Slots::words(self.platform, pa) }
    }

    /// Returns the entries of a live table.
    #[inline(always)]
    pub(crate) fn slots(&self, table: &Table) -> SlotsMut<'a, G::Platform> {
        let slots = self.slots_at((table.pa, table.words));
        // SAFETY: the effect of stores on users of the addresses is the responsibility of the operation's caller, for whom it is unsafe.
        unsafe { SlotsMut::new(slots, table.level == self.geometry.root()) }
    }

    #[inline(always)]
    fn slots_at(&self, at: (Pa, *mut u64)) -> Slots<'a, G::Platform> {
        // SAFETY: the table was reached from the root of a live tree in a hold of its addresses, or is of a tree that only the caller
        // still knows.
        unsafe { Slots::new(self.platform, at) }
    }

    /// Returns the table that an entry, which must be a table descriptor, points to.
    #[inline]
    pub(crate) fn below(&self, table: &Table, index: usize, entry: Descriptor) -> Table {
        let g = self.geometry;
        self.table(entry.next_table(g), table.level.down(1), table.shift - g.index_bits(), table.va(index))
    }

    #[inline(always)]
    pub(crate) fn load(&self, table: &Table, index: usize) -> Descriptor {
        self.slots(table).load(index)
    }

    #[inline(always)]
    pub(crate) fn store(&self, table: &Table, index: usize, new: Descriptor) {
        self.slots(table).store(index, new);
    }

    /// Returns what an [`EntryUpdate`](crate::EntryUpdate) says of a table: its address, and whether it is the root.
    pub(crate) fn place(&self, table: &Table) -> (Pa, bool) {
        (table.pa, table.level == self.geometry.root())
    }

    /// Returns the deepest table that translates all of a span.
    #[inline(always)]
    pub(crate) fn deepest(&self, from: Table, span: Span) -> Table {
        let (g, apart) = (self.geometry, span.first ^ span.last);
        let bits = g.index_bits();
        // An entry that spans at least this many bits translates all of the span, and is above the last level.
        let least = (g.page_shift() + 1).max(u64::BITS - apart.leading_zeros());
        // Only the values that change from level to level, so that they stay in registers.
        let (mut at, mut shift, mut steps) = ((from.pa, from.words), from.shift, 0);
        let mut index = (span.first - from.base) >> shift;
        while shift >= least {
            let entry = self.slots_at(at).load(index as usize);
            if !entry.is_link() {
                break;
            }
            let below = entry.next_table(g);
            at = (below, self.words(below));
            shift -= bits;
            steps += 1;
            index = span.first >> shift & ((1 << bits) - 1);
        }
        // A table below the root translates an aligned range.
        let base = if steps == 0 { from.base } else { span.first & (u64::MAX << (shift + bits)) };
        Table { pa: at.0, words: at.1, level: from.level.down(steps), shift, base }
    }

    /// Does the same from the root on, for operations that look at many entries: out of line, as there are many of them.
    #[inline(never)]
    pub(crate) fn table_of(&self, span: Span) -> Table {
        self.deepest(self.root(), span)
    }

    /// Checks that a leaf may change in place to another memory type, if it does: between Normal with tags and without
    /// (D8.17.1 RWHZWS leaves that out; B2.11: tags make no mismatch).
    ///
    /// # Errors
    ///
    /// It is of another type.
    #[inline(always)]
    pub(crate) fn may_retype(&self, old: Descriptor, new: Descriptor, va: u64) -> Result<(), ChangeError> {
        let retyped = (old.0 ^ new.0) & Attributes::MEMORY_TYPE.bits() != 0 && new != Descriptor::HOLE;
        if retyped && !Attributes::from_bits_retain(old.0).is_normal() {
            return Err(ChangeError::NotNormal { va: Va(va) });
        }
        Ok(())
    }

    /// Checks that the policy permits the leaf in use at that address, if there is one, to change its size.
    ///
    /// # Errors
    ///
    /// The policy does not permit it.
    pub(crate) fn may_resize(&self, policy: Policy, in_use: Option<u64>) -> Result<(), ChangeError> {
        match (in_use, policy) {
            (None, _) | (_, Policy::Park) => Ok(()),
            (_, Policy::Live) if self.platform.promise().never_aborts => Ok(()),
            (Some(va), policy) => Err(ChangeError::NeedsResize { va: Va(va), policy }),
        }
    }

    /// Makes stores visible before stores that depend on them: entries of new tables before these are published,
    /// dissolved runs before their members change.
    #[inline(always)]
    pub(crate) fn publish_barrier(&self) {
        self.platform.dsb(Dsb::Ishst);
    }
}

impl<G: Guard> Issuer for Editor<'_, G> {
    type Hardware = G::Platform;

    #[inline(always)]
    fn hardware(&self) -> &G::Platform {
        self.platform
    }

    #[inline(always)]
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline(always)]
    fn count(&self, count: impl FnOnce(&Counters)) {
        Self::count(self, count);
    }

    #[inline(always)]
    fn leave(&self, range: Invalidated) {
        self.guard.leave(range);
    }
}

impl<G: Guard> Source for Editor<'_, G> {
    type Error = Infallible;

    #[inline(always)]
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline(always)]
    fn load(&self, table: &Table, index: usize) -> Result<Descriptor, Infallible> {
        Ok(Self::load(self, table, index))
    }

    #[inline(always)]
    fn below(&self, table: &Table, index: usize, entry: Descriptor) -> Table {
        Self::below(self, table, index, entry)
    }
}

/// A visitor of live tables, which needs no values for each table.
pub(crate) trait LiveVisitor<G: Guard> {
    /// The reason why a walk ends early.
    type Stop: From<Infallible>;

    /// As [`Visitor::leaves`].
    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Self::Stop>;

    /// As [`Visitor::enter`]. Descends into every table by default.
    #[inline(always)]
    fn enter(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<bool, Self::Stop> {
        _ = (editor, at);
        Ok(true)
    }

    /// As [`Visitor::leave`].
    #[inline(always)]
    fn leave(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        index: usize,
        below: &Table,
    ) -> Result<(), Self::Stop> {
        _ = (editor, table, index, below);
        Ok(())
    }
}

impl<G: Guard, V: LiveVisitor<G>> Visitor<Editor<'_, G>> for V {
    type Stop = V::Stop;
    type Scratch = ();

    #[inline(always)]
    fn begin(&mut self, _: &Table) {}

    #[inline(always)]
    fn leaves(&mut self, editor: &Editor<'_, G>, (): &mut (), at: Entries<'_>) -> Result<usize, V::Stop> {
        LiveVisitor::leaves(self, editor, at)
    }

    #[inline(always)]
    fn enter(&mut self, editor: &Editor<'_, G>, (): &mut (), at: Entries<'_>) -> Result<bool, V::Stop> {
        LiveVisitor::enter(self, editor, at)
    }

    #[inline(always)]
    fn leave(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        index: usize,
        below: &Table,
    ) -> Result<(), V::Stop> {
        LiveVisitor::leave(self, editor, table, index, below)
    }
}
