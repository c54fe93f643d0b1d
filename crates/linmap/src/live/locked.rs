//! The view of live tables for an operation that holds the locks of its addresses.

use core::convert::Infallible;

use crate::build::{Counters, Replacement};
use crate::format::{Attributes, Descriptor, Geometry, LeafChange, Level, Pa, Span, TableLimits, Va};
use crate::live::error::ChangeError;
use crate::live::lock_set::LockSet;
use crate::live::map_state::MapState;
use crate::live::marks::mark;
use crate::live::reserve::Reserve;
use crate::live::stop::{Needs, Stop};
use crate::plan::Policy;
use crate::platform::{Dsb, Platform, Slots, SlotsMut, with_more_locks};
use crate::read::{Source, Table, Visitor, visit_span};

/// Live tables under locks: their platform, the state of the map, and what the holder has.
#[derive(Debug)]
pub(crate) struct Locked<'a, P: Platform> {
    pub(crate) platform: &'a P,
    pub(crate) geometry: Geometry,
    pub(crate) state: &'a MapState,
    /// The locks that are held.
    pub(crate) locks: LockSet,
    /// The table pages that were taken before.
    pub(crate) reserve: &'a Reserve<'a, P>,
    /// The policy when the locks were taken: another CPU may set it without a lock, and a hold follows one.
    pub(crate) policy: Policy,
    /// The holder's own claims, as bits.
    pub(crate) own: u64,
    /// True if the CPUs have just answered, so that they can be parked.
    pub(crate) answered: bool,
}

impl<P: Platform> Clone for Locked<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Locked<'_, P> {}

impl<'a, P: Platform> Locked<'a, P> {
    /// Returns the view of a holder of one lock who does not change the size of any leaf.
    #[inline(always)]
    pub(crate) const fn of_one(
        platform: &'a P,
        state: &'a MapState,
        number: usize,
        reserve: &'a Reserve<'a, P>,
    ) -> Self {
        let (geometry, locks) = (state.geometry(), LockSet::one(number));
        Self { platform, geometry, state, locks, reserve, policy: Policy::Fixed, own: 0, answered: false }
    }

    /// Runs `work` while the locks are held. Readers without a lock can tell that tables may change meanwhile, by the version
    /// that belongs to the first lock: theirs is the sum of all.
    #[inline]
    pub(crate) fn hold<R>(&self, work: impl FnOnce() -> R) -> R {
        let locks = self.locks.bits();
        match locks & (locks - 1) {
            others if P::LOCKS > 1 && others != 0 => {
                self.hold_one(|| with_more_locks(self.platform, others, work))
            }
            _ => self.hold_one(work),
        }
    }

    /// Runs `work` while the first of the locks is held.
    #[inline(always)]
    pub(crate) fn hold_one<R>(&self, work: impl FnOnce() -> R) -> R {
        let number = self.locks.lowest();
        let _held = self.platform.lock(number);
        let share = self.state.share(number);
        let version = share.changes_begin();
        let result = work();
        share.changes_end(version);
        result
    }

    /// Returns the counts that the holder may change.
    #[inline(always)]
    pub(crate) fn counters(&self) -> &'a Counters {
        &self.state.share(self.locks.lowest()).counters
    }

    /// Returns the builder of tables that replace a leaf, for a change of a span that contains only a part of the leaf.
    #[inline(always)]
    pub(crate) fn replacement(&self, change: LeafChange, span: Span) -> Replacement<'a, Reserve<'a, P>> {
        let (memory, geometry, tables) = (self.reserve, self.geometry, self.state.table_attributes());
        Replacement { memory, geometry, tables, change, span, pages: false, counters: self.counters() }
    }

    /// Returns true if another caller has claimed some addresses of a span.
    #[inline]
    pub(crate) fn is_claimed(&self, span: Span) -> bool {
        self.state.attention.is_needed() && self.state.claims.overlap(span, self.own)
    }

    /// Notes that translations of a span change now or later in this hold, for a repaint under way.
    #[inline]
    pub(crate) fn mark(&self, span: Span) {
        if self.state.attention.is_repaint() {
            mark(self.state, span);
        }
    }

    /// Checks that the holder may store to descriptors that translate a span.
    ///
    /// # Errors
    ///
    /// It takes more locks.
    #[inline]
    pub(crate) fn covers(&self, span: Span) -> Result<(), Needs> {
        let needed = LockSet::of::<P>(span);
        if self.locks.has(needed) { Ok(()) } else { Err(Needs::Locks(needed)) }
    }

    /// Checks that the holder may publish a table in the place of a hole that translates `entry`. Besides, it holds the locks of
    /// all addresses that are mapped below the table, or has claimed them.
    ///
    /// # Errors
    ///
    /// It takes one more lock, under which the entry is to be read again.
    #[inline]
    pub(crate) fn may_publish(&self, entry: Span) -> Result<(), Needs> {
        let agreed = LockSet::of::<P>(entry).agreed();
        if self.locks.has(agreed) { Ok(()) } else { Err(Needs::Locks(agreed)) }
    }

    /// Checks that walkers see the tables that the holder has reached. One above a gigabyte may have been published under other
    /// locks than its own, and a moment ago. Its publisher has the first lock of all, since an entry that translates more than a
    /// gigabyte translates at least 64.
    ///
    /// # Errors
    ///
    /// It takes that lock, which waits until walkers see it.
    #[inline]
    pub(crate) fn sees_published(&self) -> Result<(), Needs> {
        let first = LockSet::one(0);
        if self.locks.has(first) || !self.state.publishing.is_under_way() {
            return Ok(());
        }
        Err(Needs::Locks(first))
    }

    /// Publishes tables above a gigabyte in the place of holes, by `stores`: callers in other gigabytes reach them at once.
    pub(crate) fn publish_upper(&self, stores: impl FnOnce()) {
        self.state.publishing.begins();
        stores();
        self.publish_barrier();
        self.state.publishing.ends();
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
        let state = self.state;
        self.table(state.root(), self.geometry.root(), state.root_shift(), state.base())
    }

    /// Returns the table and the index of the entry that translates an address.
    #[inline]
    pub(crate) fn entry_of(&self, va: u64) -> (Table, usize) {
        let table = self.deepest(self.root(), Span { first: va, last: va });
        (table, table.index_of(va))
    }

    /// Visits the leaves and holes of a span.
    ///
    /// # Errors
    ///
    /// The visitor's error.
    #[inline]
    pub(crate) fn visit_leaves<V: LeafVisitor<P>>(
        &self,
        table: &Table,
        span: Span,
        visitor: &mut V,
    ) -> Result<(), Stop> {
        visit_span(self, table, span, &mut LeavesOnly { visitor })
    }

    /// Calls `work` for entries up to `last`, from one on that is not a table descriptor and up to the next one that is; `work`
    /// returns the index after those that it has handled. Returns the index after all of them.
    ///
    /// A visitor that does this in a function of its own keeps what it needs for leaves out of the walk down to them.
    ///
    /// # Errors
    ///
    /// The first error of `work`.
    #[inline(always)]
    pub(crate) fn each_leaf<E>(
        &self,
        table: &Table,
        (mut index, last): (usize, usize),
        mut entry: Descriptor,
        mut work: impl FnMut((usize, usize), Descriptor) -> Result<usize, E>,
    ) -> Result<usize, E> {
        loop {
            index = work((index, last), entry)?;
            if index > last {
                return Ok(index);
            }
            entry = self.load(table, index);
            if entry.is_table(table.level) {
                return Ok(index);
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
        // SAFETY: a table that was reached from the root of a live tree, under a lock of its addresses.
        unsafe { Slots::words(self.platform, pa) }
    }

    /// Returns the entries of a live table.
    #[inline(always)]
    pub(crate) fn slots(&self, table: &Table) -> SlotsMut<'a, P> {
        let slots = self.slots_at((table.pa, table.words));
        // SAFETY: the effect of stores on users of the addresses is the responsibility of the operation's caller, for whom it is unsafe.
        unsafe { SlotsMut::new(slots, table.level == self.geometry.root()) }
    }

    #[inline(always)]
    fn slots_at(&self, at: (Pa, *mut u64)) -> Slots<'a, P> {
        // SAFETY: the table was reached from the root of a live tree under a lock of its addresses, or is of a tree that only the caller
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

    /// Returns the restrictions of all tables above the entry that translates an address.
    #[cold]
    pub(crate) fn limits_at(&self, va: u64) -> TableLimits {
        let (mut table, mut limits) = (self.root(), TableLimits::empty());
        loop {
            let index = table.index_of(va);
            let entry = self.load(&table, index);
            if !entry.is_table(table.level) {
                return limits;
            }
            limits |= TableLimits::of(entry);
            table = self.below(&table, index, entry);
        }
    }

    /// Returns true if a changed leaf must not be, because its memory would be both writable and executable.
    #[inline(always)]
    pub(crate) fn refuses(&self, change: LeafChange, new: Descriptor, va: u64) -> bool {
        change.refuse_write_execute && new.is_write_execute() && self.is_effective(new, va)
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

    /// Returns true if no table above a leaf that is both writable and executable prevents that, as far as is known.
    #[cold]
    fn is_effective(&self, leaf: Descriptor, va: u64) -> bool {
        let limits = if self.state.counts_table_limits() { self.limits_at(va) } else { TableLimits::empty() };
        limits.restrict(Attributes::from_bits_retain(leaf.0)).is_write_execute()
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

impl<P: Platform> Source for Locked<'_, P> {
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
pub(crate) trait LiveVisitor<P: Platform> {
    /// The reason why a walk ends early.
    type Stop: From<Infallible>;

    /// As [`Visitor::leaves`].
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        at: (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, Self::Stop>;

    /// As [`Visitor::enter`]. Descends into every table by default.
    #[inline(always)]
    fn enter(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
        entry: Descriptor,
    ) -> Result<bool, Self::Stop> {
        _ = (locked, table, index, entry);
        Ok(true)
    }

    /// As [`Visitor::leave`].
    #[inline(always)]
    fn leave(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
        below: &Table,
    ) -> Result<(), Self::Stop> {
        _ = (locked, table, index, below);
        Ok(())
    }
}

impl<P: Platform, V: LiveVisitor<P>> Visitor<Locked<'_, P>> for V {
    type Stop = V::Stop;
    type Scratch = ();

    #[inline(always)]
    fn begin(&mut self, _: &Table) {}

    #[inline(always)]
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (): &mut (),
        at: (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, V::Stop> {
        LiveVisitor::leaves(self, locked, table, at, entry)
    }

    #[inline(always)]
    fn enter(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (): &mut (),
        index: usize,
        entry: Descriptor,
    ) -> Result<bool, V::Stop> {
        LiveVisitor::enter(self, locked, table, index, entry)
    }

    #[inline(always)]
    fn leave(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
        below: &Table,
    ) -> Result<(), V::Stop> {
        LiveVisitor::leave(self, locked, table, index, below)
    }
}

/// A visitor of leaves and holes only, below any table.
pub(crate) trait LeafVisitor<P: Platform> {
    /// Visits `entry` at `index` and any number of the entries after it, up to `last`. Returns the index of the next
    /// entry to visit.
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        at: (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, Stop>;
}

/// A visitor of leaves and holes as one that enters every table.
struct LeavesOnly<'v, V> {
    visitor: &'v mut V,
}

impl<P: Platform, V: LeafVisitor<P>> LiveVisitor<P> for LeavesOnly<'_, V> {
    type Stop = Stop;

    #[inline(always)]
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        at: (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, Stop> {
        self.visitor.leaves(locked, table, at, entry)
    }
}
