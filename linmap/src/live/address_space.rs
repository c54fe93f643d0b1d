//! Live tables: what walkers can reach, and how it changes.
//!
//! # The lock
//!
//! One lock, the platform's ([`Hardware::lock`]), covers all live tables and their counts. An operation that stores
//! into a live table holds it, from the first look at what is there until the last invalidation is complete
//! and tables that went have been given back. So two callers never see or make half of a change, and a
//! reader that holds the lock never meets a table that has been given back.
//!
//! The walkers of the CPUs hold no lock. For them each change is a single store, and a table goes back to its
//! memory only when they cannot be in it any more (`table_pages.rs`).
//!
//! It is held for as long as the operation takes, which is the range's length, not the machine's; platforms
//! whose lock masks interrupts do well to change long ranges piece by piece, and to print a map only when
//! nothing is in a hurry.
//!
//! A repaint ([`AddressSpace::repaint`]) holds it for one piece after another, and others change the map in
//! between: a change of a translation marks its range (`dirty_ranges.rs`), so that it is copied once more. The
//! CPUs go over to the second tree in a hold of the lock in which nothing is left to copy: whoever has the lock
//! next, those who waited for it included, finds that tree. The old one's tables are given back without the
//! lock, since nobody finds them any more, and their counts taken out under it. Between two pieces the lock is
//! free for a moment only: one that is fair lets all in who wait.
//!
//! The lock is not taken twice: a callback of [`AddressSpace::visit`] and its siblings must not change or
//! read a live map. A fault handler may have interrupted the holder on its own CPU, so it never waits:
//! [`AddressSpace::try_visit`] does without an answer then. While CPUs are parked nobody waits for the lock
//! but those who answer the parking ([`Hardware::park`]), and the holder neither allocates nor prints.
//!
//! [`Hardware::lock`]: crate::Hardware::lock
//! [`Hardware::park`]: crate::Hardware::park

use core::fmt::{self, Write};
use core::ops::{ControlFlow, Range};

use crate::build::{Changes, Tree};
use crate::format::{
    Attributes, Change, Descriptor, Entry, Geometry, LeafChange, Level, MemoryType, Pa, Span, Unaligned, Va,
};
use crate::live::collapse::collapse;
use crate::live::error::{ChangeError, GraftError};
use crate::live::locked::Locked;
use crate::live::map::Mapping;
use crate::live::map_state::MapState;
use crate::live::protect::protect;
use crate::live::split_to_pages::split_to_pages;
use crate::live::unmap::{unmap, unmap_all};
use crate::plan::{Policy, Stats};
use crate::platform::{Dsb, Memory, Platform, Slot};
use crate::read::{Checks, DumpError, Finding, Live, MarkedRange, Visited, check, count, dump_with, visit};

/// The tables that one half of a live address space is translated by.
///
/// Whatever an operation returns, it did all that it says or nothing: then every table is as before, and what was split
/// is split. But where CPUs have to be parked, [`collapse`](Self::collapse) and
/// [`split_to_pages`](Self::split_to_pages), which change no translation, may stop half way if one of them stops
/// answering. What it costs: a walk of the range twice, a store for each descriptor that changes, two DSB and an ISB, a
/// third DSB where tables are built or a part of a contiguous run changes, and one batch of TLB invalidations if
/// something that was valid changed; nothing at all where everything is right already. After eight tables that are built
/// or go, the barriers come once more, and some CPUs need a TLBI and a DSB after each batch
/// ([`Features::needs_repeated_tlbi`](crate::Features::needs_repeated_tlbi)). On return each CPU
/// translates as the operation says; what became valid, another CPU uses after its next context
/// synchronisation event. A range of no pages is one that starts in the half, or at its end.
#[derive(Debug)]
pub struct AddressSpace {
    state: MapState,
}

impl AddressSpace {
    /// Makes a tree live: from now on it belongs to the walkers.
    ///
    /// The caller loads [`root`](Self::root) into the TTBR of the tree's half, after a DSB ISHST, and answers for what
    /// the tree maps: until then nothing translates by it. The policy is [`Policy::Fixed`] until
    /// [`set_policy`](Self::set_policy) changes it.
    pub fn adopt(tree: Tree) -> Self {
        Self::of(MapState::of(tree))
    }

    /// The owner of a map in that state.
    pub(crate) const fn of(state: MapState) -> Self {
        Self { state }
    }

    /// The state of the map, for operations of other rooms.
    pub(crate) const fn state(&self) -> &MapState {
        &self.state
    }

    /// The view of a holder of the lock.
    pub(crate) fn locked<'a, P: Platform>(&'a self, platform: &'a P) -> Locked<'a, P> {
        Locked::new(platform, &self.state)
    }

    /// Returns the address of the root table.
    #[inline]
    pub fn root(&self) -> Pa {
        self.state.root()
    }

    /// Returns the geometry of the tables.
    pub const fn geometry(&self) -> Geometry {
        self.state.geometry()
    }

    /// Returns what is done where a leaf in use has to change its size.
    #[inline]
    pub fn policy(&self) -> Policy {
        self.state.policy()
    }

    /// Sets what is done where a leaf in use has to change its size.
    pub fn set_policy(&self, policy: Policy) {
        self.state.set_policy(policy);
    }

    /// Permits pages that are writable and executable at once, which are refused otherwise. The owner of the machine
    /// then answers for them.
    pub fn allow_write_execute(&self, allow: bool) {
        self.state.allow_write_execute(allow);
    }

    /// Returns the counts of leaves and tables of the half.
    pub fn stats<P: Platform>(&self, platform: &P) -> Stats {
        let _held = platform.lock();
        self.state.counters.stats()
    }

    /// Returns the counts of what has been done to the map.
    pub fn changes<P: Platform>(&self, platform: &P) -> Changes {
        let _held = platform.lock();
        self.state.counters.changes()
    }

    /// Calls `each` for every entry that translates an address from `first` to `last`, as [`visit`] does.
    /// The lock is held meanwhile.
    pub fn visit<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        each: impl FnMut(&Visited) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let _held = platform.lock();
        visit(&self.tables(platform), self.geometry(), self.root(), range, each)
            .unwrap_or_else(|e| match e {})
    }

    /// The same, for those who can not wait: nothing if the lock is taken.
    pub fn try_visit<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        each: impl FnMut(&Visited) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let _held = platform.try_lock()?;
        let visited = visit(&self.tables(platform), self.geometry(), self.root(), range, each);
        Some(visited.unwrap_or_else(|e| match e {}))
    }

    /// What translates an address, or would: a leaf, a hole or what is not understood, with the address where
    /// that entry starts and its level. Nothing if the address is not of this half.
    ///
    /// The restrictions of the tables above a leaf, if there are any, are not in it.
    pub fn entry<P: Platform>(&self, platform: &P, va: Va) -> Option<(Va, Level, Entry)> {
        let g = self.geometry();
        if va.0.wrapping_sub(self.state.base()) >> g.va_bits() != 0 {
            return None;
        }
        let _held = platform.lock();
        let (locked, span) = (self.locked(platform), Span { first: va.0, last: va.0 });
        let mut table = locked.root();
        loop {
            table = locked.deepest(table, span);
            let index = table.index_of(va.0);
            let entry = locked.load(&table, index);
            if !entry.is_table(table.level) {
                return Some((Va(table.va(index)), table.level, entry.decode(g, table.level)));
            }
            // It lays restrictions on what is below.
            table = locked.below(&table, index, entry);
        }
    }

    /// Counts what is mapped from `first` to `last`, as [`count`] does.
    pub fn count<P: Platform>(&self, platform: &P, range: (Va, Va)) -> Stats {
        let _held = platform.lock();
        count(&self.tables(platform), self.geometry(), self.root(), range).unwrap_or_else(|e| match e {})
    }

    /// Prints a region, as [`dump`](crate::dump) does. The lock is held meanwhile.
    ///
    /// # Errors
    ///
    /// The writer failed.
    pub fn dump<P: Platform>(
        &self,
        platform: &P,
        region: MarkedRange,
        out: &mut impl Write,
    ) -> Result<Stats, fmt::Error> {
        self.dump_with(platform, region, &|memory_type| memory_type.name(), out)
    }

    /// Prints a region with memory types named by the caller, as [`dump_with`] does. The lock is held meanwhile.
    ///
    /// # Errors
    ///
    /// The writer failed.
    pub fn dump_with<P: Platform>(
        &self,
        platform: &P,
        region: MarkedRange,
        name_of: &dyn Fn(MemoryType) -> Option<&'static str>,
        out: &mut impl Write,
    ) -> Result<Stats, fmt::Error> {
        let _held = platform.lock();
        let dumped = dump_with(&self.tables(platform), self.geometry(), self.root(), region, name_of, out);
        dumped.map_err(|e| match e {
            DumpError::Write => fmt::Error,
            DumpError::Read(e) => match e {},
        })
    }

    /// Looks for what must never be in a map, as [`check`] does. The lock is held meanwhile.
    pub fn check<P: Platform>(
        &self,
        platform: &P,
        checks: &Checks<'_>,
        each: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let _held = platform.lock();
        let checked =
            check(&self.tables(platform), self.geometry(), (self.root(), self.state.half()), checks, each);
        checked.unwrap_or_else(|e| match e {})
    }

    /// The tables, for a reader that holds the lock.
    fn tables<'m, M: Memory>(&self, memory: &'m M) -> Live<'m, M> {
        // SAFETY: read from the root of this address space on, which is live with all below it; a
        // memory that the tables are not of refuses them.
        unsafe { Live::new(memory) }
    }

    /// Changes the leaves of a span.
    #[inline(always)]
    fn change<P: Platform>(&self, platform: &P, change: LeafChange, span: Span) -> Result<(), ChangeError> {
        let _held = platform.lock();
        self.state.dirty.mark(span);
        protect(self.locked(platform), change, span)
    }

    /// Changes the permissions of `pages` pages from `va` on.
    ///
    /// Leaves that lie within the range change in place; those that it has a part of are split first, at
    /// its two ends, and the rest of them keeps the largest leaves that remain possible. A leaf that is
    /// already right is not touched. Mappings that are kept and not valid change as well.
    ///
    /// # Errors
    ///
    /// A hole in the range, a range that is unaligned or outside the half, pages that would be writable and
    /// executable at once, out of frames, a leaf in use that would have to change its size where policy or
    /// CPUs do not permit it. Then nothing has changed.
    ///
    /// # Safety
    ///
    /// Whoever uses these addresses can live with the change: no CPU executes from, or writes to, what may
    /// not be executed or written any more. `platform` is that of the tables.
    pub unsafe fn protect<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        change: Change,
    ) -> Result<(), ChangeError> {
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        self.change(platform, self.state.leaf_change(change), span)
    }

    /// Makes `pages` pages from `va` on invalid, so that every access faults, or valid again.
    ///
    /// An invalid page keeps its mapping: address, permissions, whether it is global, and the size of its leaf. It is
    /// no hole, and can be split and protected.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    ///
    /// # Safety
    ///
    /// As for [`protect`](Self::protect): nobody uses what becomes invalid.
    pub unsafe fn set_valid<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        valid: bool,
    ) -> Result<(), ChangeError> {
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        self.change(platform, self.state.validity_change(valid), span)
    }

    /// Maps `pages` pages from `va` on to consecutive physical memory from `oa` on, where nothing is mapped.
    ///
    /// In the largest leaves, or in pages under [`Policy::Pages`]. Nothing is invalidated.
    ///
    /// # Errors
    ///
    /// Something is mapped there, kept mappings included; an address is unaligned or out of range; pages
    /// would be writable and executable at once; out of frames. Then nothing has changed.
    ///
    /// # Safety
    ///
    /// The memory may be accessed as `attributes` say, through these addresses as well as any others that it
    /// has: no mismatched memory types, no second way to write what must not be written.
    pub unsafe fn map<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        oa: Pa,
        attributes: Attributes,
    ) -> Result<(), ChangeError> {
        let g = self.geometry();
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        if oa.0 & (g.page_size() - 1) != 0 {
            return Err(ChangeError::Unaligned(Unaligned::Pa(oa)));
        }
        if oa.0.checked_add(span.last - span.first).is_none_or(|last| last >> g.oa_bits() != 0) {
            return Err(ChangeError::OutputAddress { oa, pages, bits: g.oa_bits() });
        }
        if attributes.is_write_execute() && !self.state.allows_write_execute() {
            return Err(ChangeError::WriteExecute { va });
        }
        let _held = platform.lock();
        self.state.dirty.mark(span);
        let (half, leaves) = (self.state.half(), self.state.leaves());
        Mapping { half, span, oa, attributes, leaves }.map(&self.locked(platform))
    }

    /// Takes away the mapping of `pages` pages from `va` on, kept mappings included, and the tables of which
    /// nothing is left.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    ///
    /// # Safety
    ///
    /// Nobody uses these addresses.
    pub unsafe fn unmap<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        let _held = platform.lock();
        self.state.dirty.mark(span);
        unmap(&self.locked(platform), span)
    }

    /// Takes away the mappings of several ranges of pages, as [`unmap`](Self::unmap) does of one. TLBs are invalidated
    /// once, at the end: ranges that were given up at different times go for the price of one.
    ///
    /// # Errors
    ///
    /// As for [`unmap`](Self::unmap), of any of them; [`ChangeError::NeedsResize`] as well wherever a range has a part of
    /// a leaf, whatever the policy. Then nothing has changed.
    ///
    /// # Safety
    ///
    /// No CPU uses these addresses.
    pub unsafe fn unmap_all<P: Platform>(
        &self,
        platform: &P,
        ranges: &[(Va, u64)],
    ) -> Result<(), ChangeError> {
        let _held = platform.lock();
        unmap_all(&self.locked(platform), ranges)
    }

    /// Splits everything from `va` on into single pages, for `pages` pages, so that any one of them can be
    /// changed later without a change of size. Translations stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect). Under [`Policy::Park`] the CPUs are parked once for each leaf, and once
    /// before, to see whether they can be; if one of them stops answering half way, what was split stays so.
    pub fn split_to_pages<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        let _held = platform.lock();
        split_to_pages(&self.locked(platform), span)
    }

    /// Returns to the largest leaves wherever `pages` pages from `va` on, and their neighbours in the same
    /// tables, are uniform again, and gives back the tables. Translations stay as they are.
    ///
    /// Where the policy or the CPUs rule out live changes of size, nothing collapses.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half; CPUs that can not be parked: what collapsed by then
    /// stays so.
    pub fn collapse<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        let _held = platform.lock();
        collapse(self.locked(platform), span)
    }

    /// Takes a tree of the same geometry and half into this one, where the root has holes.
    ///
    /// Each entry of the tree's root moves into the live root by one store: what lies below is in its
    /// final state before a walker can see it. Costs two DSB ISHST and an ISB, no TLBI. The tree's own
    /// root page goes back to `memory`. On return this CPU uses the new entries; another one does after
    /// its next context synchronisation event.
    ///
    /// # Errors
    ///
    /// The tree is of another geometry or half; it has pages that are writable and executable at once; a slot of the
    /// live root between the first and the last that the tree uses is taken. Then the tree is discarded and nothing
    /// has changed.
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map), for all that the tree maps.
    pub unsafe fn graft<P: Platform>(&self, platform: &P, tree: Tree) -> Result<Stats, GraftError> {
        if (tree.geometry(), tree.half()) != (self.geometry(), self.state.half()) {
            tree.discard(platform);
            return Err(GraftError::OtherGeometry);
        }
        if let Some(va) = tree.write_execute().filter(|_| !self.state.allows_write_execute()) {
            tree.discard(platform);
            return Err(GraftError::WriteExecute { va });
        }
        let (stats, used) = (tree.stats(), tree.used());
        let _held = platform.lock();
        if let Some(va) = self.occupied(platform, used.clone()) {
            tree.discard(platform);
            return Err(GraftError::Occupied { va });
        }
        let mut from = tree.into_root();
        if !used.is_empty() {
            let at = |index: usize| self.state.base() + ((index as u64) << self.state.root_shift());
            self.state.dirty.mark(Span {
                first: at(used.start),
                last: at(used.end - 1) + ((1 << self.state.root_shift()) - 1),
            });
        }
        self.locked(platform).publish_barrier();
        for (index, &bits) in used.clone().zip(&platform.slots(&mut from)[used]) {
            if bits != 0 {
                // SAFETY: the root is live and has these slots, which are holes, so nobody uses what
                // they translate.
                unsafe { platform.store(Slot { table: self.root(), index }, Descriptor(bits)) };
            }
        }
        platform.dsb(Dsb::Ishst);
        platform.isb();
        platform.give(from);
        self.state.counters.include(&stats);
        // Its root has just been given back.
        self.state.counters.no_table();
        Ok(stats)
    }

    /// The address of the first of these slots of the live root that is taken.
    fn occupied<M: Memory>(&self, memory: &M, mut slots: Range<usize>) -> Option<Va> {
        let taken = |&index: &usize| {
            // SAFETY: the root is live and has these slots.
            let live = unsafe { memory.load(Slot { table: self.root(), index }) };
            live != Descriptor::HOLE
        };
        slots.find(taken).map(|i| Va(self.state.base() + ((i as u64) << self.state.root_shift())))
    }
}
