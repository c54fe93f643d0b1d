//! The view of live tables that an operation has while it holds the lock.

use core::convert::Infallible;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::build::{Counters, Replacement};
use crate::format::{Descriptor, Geometry, LeafChange, Level, Pa, Span, TableLimits, Va};
use crate::live::error::ChangeError;
use crate::live::map_state::MapState;
use crate::plan::Policy;
use crate::platform::{Dsb, Platform, Slot};
use crate::read::{Source, Table, Visitor, visit_span};

/// Live tables, under the lock: the platform that has them, and the state of the map.
#[derive(Debug)]
pub(crate) struct Locked<'a, P> {
    pub(crate) platform: &'a P,
    pub(crate) geometry: Geometry,
    pub(crate) state: &'a MapState,
}

impl<P> Clone for Locked<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Locked<'_, P> {}

impl<'a, P: Platform> Locked<'a, P> {
    /// The view of a holder of the lock.
    pub(crate) fn new(platform: &'a P, state: &'a MapState) -> Self {
        Self { platform, geometry: state.geometry(), state }
    }

    /// The counts of the map.
    #[inline(always)]
    pub(crate) fn counters(&self) -> &'a Counters {
        &self.state.counters
    }

    /// The tables that take the place of a leaf, for a change of a span that has a part of it.
    #[inline(always)]
    pub(crate) fn replacement(&self, change: LeafChange, span: Span) -> Replacement<'a, P> {
        let (memory, geometry) = (self.platform, self.geometry);
        Replacement { memory, geometry, change, span, pages: false, counters: self.counters() }
    }

    /// The root table.
    #[inline]
    pub(crate) fn root(&self) -> Table {
        let state = self.state;
        self.table(state.root(), self.geometry.root(), state.root_shift(), state.base())
    }

    /// The table and the index of the entry that translates an address, as far as plain tables lead to it.
    #[inline]
    pub(crate) fn entry_of(&self, va: u64) -> (Table, usize) {
        let table = self.deepest(self.root(), Span { first: va, last: va });
        (table, table.index_of(va))
    }

    /// Visits the leaves and holes of a span for an operation that cannot change what restricted tables translate.
    ///
    /// # Errors
    ///
    /// A table's descriptor that restricts what is below it, or what the visitor says.
    #[inline]
    pub(crate) fn visit_leaves<V: LeafVisitor<P>>(
        &self,
        table: &Table,
        span: Span,
        visitor: &mut V,
    ) -> Result<(), ChangeError> {
        visit_span(self, table, span, &mut Plain { visitor, first: span.first })
    }

    /// Returns the index after the last entry, from a leaf on and up to `last`, that differs from it in its address only:
    /// they are leaves as well.
    #[inline(never)]
    pub(crate) fn alike(&self, table: &Table, index: usize, first: Descriptor, last: usize) -> usize {
        /// The bits that every format uses for an address.
        const ADDRESS: u64 = (1 << 50) - (1 << 12);
        let mut end = index;
        if index.is_multiple_of(2) {
            for _ in 0..(last + 1 - index) / 8 {
                let eight = self.load_eight(table, end);
                if eight.iter().fold(0, |differs, entry| differs | (entry.0 ^ first.0)) & !ADDRESS != 0 {
                    break;
                }
                end += 8;
            }
        }
        end.max(index + 1)
    }

    /// Returns whether a leaf is in a run that a span has only a part of.
    #[inline]
    pub(crate) fn dissolves(&self, table: &Table, index: usize, old: Descriptor, span: Span) -> bool {
        let run = table.run_of(index, self.geometry.contiguous_entries(table.level));
        old.is_contiguous() && !span.covers(run.first, run.last)
    }

    /// The number of entries in the run that an entry is in, if it is in one.
    #[inline(always)]
    pub(crate) fn run(&self, table: &Table, entry: Descriptor) -> Option<usize> {
        entry.is_contiguous().then(|| self.geometry.contiguous_entries(table.level))
    }

    /// A live table.
    #[inline]
    pub(crate) fn table(&self, pa: Pa, level: Level, shift: u32, base: u64) -> Table {
        Table { pa, words: self.words(pa), level, shift, base }
    }

    /// Where a live table's entries are, if the memory is plain.
    #[inline]
    fn words(&self, pa: Pa) -> *mut u64 {
        // SAFETY: a table that was reached from the root of a live tree, under the lock.
        if P::PLAIN { unsafe { self.platform.words(pa) } } else { core::ptr::null_mut() }
    }

    /// The table that an entry, which is a table's descriptor, points to.
    #[inline]
    pub(crate) fn below(&self, table: &Table, index: usize, entry: Descriptor) -> Table {
        let g = self.geometry;
        self.table(entry.next_table(g), table.level.down(1), table.shift - g.index_bits(), table.va(index))
    }

    #[inline(always)]
    pub(crate) fn load(&self, table: &Table, index: usize) -> Descriptor {
        self.load_at((table.pa, table.words), index)
    }

    #[inline(always)]
    fn load_at(&self, (table, words): (Pa, *mut u64), index: usize) -> Descriptor {
        if P::PLAIN {
            // SAFETY: the table is live, and its memory plain; it has an entry of that index.
            return Descriptor(unsafe { AtomicU64::from_ptr(words.add(index)) }.load(Relaxed));
        }
        // SAFETY: the slot is one of a table that was reached from the root of a live tree, under the lock.
        unsafe { self.platform.load(Slot { table, index }) }
    }

    /// Two descriptors in a row, the first in a slot of even number.
    ///
    /// Plain memory is read by one access of 128 bits, which is a pair of 64-bit accesses, each single-copy
    /// atomic (Arm ARM B2.2.1), for those who hold the lock, so that nobody writes.
    #[inline(always)]
    pub(crate) fn load_pair(&self, table: &Table, index: usize) -> [Descriptor; 2] {
        if P::PLAIN {
            // SAFETY: the table is live, its memory plain and aligned to 16 bytes; nobody writes to it.
            let both = unsafe { table.words.add(index).cast::<u128>().read_volatile() };
            // The first is at the lower address, whatever the byte order.
            let [low, high] = [both as u64, (both >> 64) as u64].map(Descriptor);
            return if cfg!(target_endian = "little") { [low, high] } else { [high, low] };
        }
        [self.load(table, index), self.load(table, index + 1)]
    }

    /// Eight descriptors in a row, the first in a slot of even number.
    #[inline(always)]
    pub(crate) fn load_eight(&self, table: &Table, index: usize) -> [Descriptor; 8] {
        let pair = |n: usize| self.load_pair(table, index + n);
        let ([a, b], [c, d], [e, f], [g, h]) = (pair(0), pair(2), pair(4), pair(6));
        [a, b, c, d, e, f, g, h]
    }

    /// Replaces eight descriptors in a row, the first in a slot of even number.
    #[inline(always)]
    pub(crate) fn store_eight(&self, table: &Table, index: usize, new: [Descriptor; 8]) {
        let [a, b, c, d, e, f, g, h] = new;
        self.store_pair(table, index, [a, b]);
        self.store_pair(table, index + 2, [c, d]);
        self.store_pair(table, index + 4, [e, f]);
        self.store_pair(table, index + 6, [g, h]);
    }

    /// Returns whether eight entries are `next` and its successors, and leaves the one after them in `next`. All are compared,
    /// without a branch in between.
    #[inline(always)]
    pub(crate) fn eight(&self, table: &Table, index: usize, (next, step): (&mut u64, u64)) -> bool {
        let [a, b, c, d, e, f, g, h] = self.load_eight(table, index);
        let mut is_next = |entry: Descriptor| {
            let same = entry.0 == *next;
            *next = next.wrapping_add(step);
            same
        };
        let first_half = is_next(a) & is_next(b) & is_next(c) & is_next(d);
        first_half & is_next(e) & is_next(f) & is_next(g) & is_next(h)
    }

    /// Replaces two descriptors in a row, the first in a slot of even number: two stores, as in
    /// [`load_pair`](Self::load_pair).
    #[inline(always)]
    pub(crate) fn store_pair(&self, table: &Table, index: usize, [first, second]: [Descriptor; 2]) {
        if P::PLAIN {
            let [low, high] = if cfg!(target_endian = "little") { [first, second] } else { [second, first] };
            let both = u128::from(low.0) | u128::from(high.0) << 64;
            // SAFETY: as for `load_pair` and `store`.
            return unsafe { table.words.add(index).cast::<u128>().write_volatile(both) };
        }
        self.store(table, index, first);
        self.store(table, index + 1, second);
    }

    #[inline(always)]
    pub(crate) fn store(&self, table: &Table, index: usize, new: Descriptor) {
        if P::PLAIN {
            // SAFETY: as for `load`; what becomes of the addresses is what the caller of the operation,
            // whose methods are unsafe for that reason, answers for.
            return unsafe { AtomicU64::from_ptr(table.words.add(index)) }.store(new.0, Relaxed);
        }
        // SAFETY: as above.
        unsafe { self.platform.store(Slot { table: table.pa, index }, new) }
    }

    /// The table furthest down that translates all of a span.
    #[inline(always)]
    pub(crate) fn deepest(&self, from: Table, span: Span) -> Table {
        let (g, apart) = (self.geometry, span.first ^ span.last);
        let bits = g.index_bits();
        // An entry of at least so many bits translates all of the span, and is above the last level.
        let least = (g.page_shift() + 1).max(u64::BITS - apart.leading_zeros());
        // What changes from level to level, and nothing else, so that it stays in registers.
        let (mut at, mut shift, mut steps) = ((from.pa, from.words), from.shift, 0);
        let mut index = (span.first - from.base) >> shift;
        while shift >= least {
            let entry = self.load_at(at, index as usize);
            if !entry.is_plain_table() {
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

    /// Returns whether the policy permits a leaf in use, which is at that address, to change its size.
    ///
    /// # Errors
    ///
    /// It does not.
    pub(crate) fn may_resize(&self, in_use: Option<u64>) -> Result<(), ChangeError> {
        match (in_use, self.state.policy()) {
            (None, _) | (_, Policy::Park) => Ok(()),
            (_, Policy::Live) if self.platform.promise().never_aborts => Ok(()),
            (Some(va), policy) => Err(ChangeError::NeedsResize { va: Va(va), policy }),
        }
    }

    /// Makes stores visible before those that depend on them: the entries of new tables before these are published, dissolved
    /// runs before their members change.
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

/// A visitor of leaves and holes alone: no tables with restrictions come up.
pub(crate) trait LeafVisitor<P: Platform> {
    /// Visits `entry` at `index`, and as many entries after it, up to `last`, as the visitor takes at once. Returns the
    /// index of the next entry to visit.
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        at: (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, ChangeError>;
}

/// The one refusal of tables that the library would not write.
struct Plain<'v, V> {
    visitor: &'v mut V,
    /// The first address of the span.
    first: u64,
}

impl<P: Platform, V: LeafVisitor<P>> Visitor<Locked<'_, P>> for Plain<'_, V> {
    type Stop = ChangeError;
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
    ) -> Result<usize, ChangeError> {
        self.visitor.leaves(locked, table, at, entry)
    }

    #[inline(always)]
    fn enter(
        &mut self,
        _: &Locked<'_, P>,
        table: &Table,
        (): &mut (),
        index: usize,
        entry: Descriptor,
    ) -> Result<bool, ChangeError> {
        match TableLimits::of(entry).is_empty() {
            true => Ok(true),
            false => Err(ChangeError::NotUnderstood { va: Va(table.va(index).max(self.first)) }),
        }
    }
}
