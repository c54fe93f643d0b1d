//! Live tables: what walkers can reach, and how it changes.
//!
//! # The lock
//!
//! One lock, the platform's ([`Hardware::lock`]), covers all live tables and their counts. An operation that stores
//! into a live table holds it from the first read of the tables until the last invalidation is complete and removed
//! tables have been given back. So no caller sees a partial change or interferes with one, and a reader that holds the
//! lock never reads a table that has been given back.
//!
//! The walkers of the CPUs hold no lock. For them each change is a single store, and a table is given back only when
//! they can no longer reach it (`table_pages.rs`).
//!
//! The lock is held for the duration of the operation, which depends on the length of the range, not on the size of the
//! machine. If a platform's lock masks interrupts, it should change long ranges piece by piece, and print a map only
//! when latency does not matter.
//!
//! A repaint ([`AddressSpace::repaint`]) holds the lock for one piece after another. Other operations change the map in
//! between: each change of a translation marks its range (`dirty_ranges.rs`), so that it is copied again. The CPUs
//! switch to the second tree in a hold of the lock in which nothing is left to copy, so the next holder of the lock
//! finds that tree, even if it was already waiting. The tables of the old tree are given back without the lock, since
//! no operation can find them, and subtracted from the counts under it. Between two pieces the lock is free for a
//! moment only; a fair lock lets all waiting callers in.
//!
//! The lock is not taken twice: a callback of [`AddressSpace::visit`] and its siblings must not change or read a live
//! map. A fault handler may have interrupted the holder on its own CPU, so it must never wait: it uses
//! [`AddressSpace::try_visit`], which may return without an answer. While CPUs are parked, the only CPUs that wait for
//! the lock are those that answer the parking ([`Hardware::park`]), and the holder neither allocates nor prints.
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
use crate::platform::{Dsb, Memory, Platform, Slot, all_locks, with_locks};
use crate::read::{Checks, DumpError, Finding, Live, MarkedRange, Visited, check, count, dump_with, visit};

/// The live tables of one half of an address space.
///
/// Every operation does all of what it says, or nothing: on an error, each translation is as before, although leaves
/// may have been split. One exception: where CPUs have to be parked, [`collapse`](Self::collapse) and
/// [`split_to_pages`](Self::split_to_pages), which change no translation, may stop half way if a CPU stops answering.
///
/// The cost of a change: two walks of the range, a store for each descriptor that changes, two DSB and an ISB, a third
/// DSB where tables are built or a part of a contiguous run changes, and one batch of TLB invalidations if a valid
/// entry changed. If everything is already right, the cost is the walk alone. The barriers are repeated after every
/// eight tables that are built or removed. Some CPUs need a TLBI and a DSB after each batch
/// ([`Features::needs_repeated_tlbi`](crate::Features::needs_repeated_tlbi)).
///
/// On return all CPUs use the new translations. One exception: another CPU can rely on entries that became valid only
/// after its next context synchronisation event. A range of zero pages is permitted if it starts in the half or at its
/// end.
#[derive(Debug)]
pub struct AddressSpace {
    state: MapState,
}

impl AddressSpace {
    /// Makes a tree live: from now on it belongs to the walkers.
    ///
    /// The caller then executes a DSB ISHST and loads [`root`](Self::root) into the TTBR of the tree's half; until then
    /// nothing translates by the tree. The caller is responsible for what the tree maps. The policy is
    /// [`Policy::Fixed`] until [`set_policy`](Self::set_policy) changes it.
    pub fn adopt(tree: Tree) -> Self {
        Self::of(MapState::of(tree))
    }

    /// Returns the owner of a map in that state.
    pub(crate) const fn of(state: MapState) -> Self {
        Self { state }
    }

    /// Returns the state of the map, for operations in other modules.
    pub(crate) const fn state(&self) -> &MapState {
        &self.state
    }

    /// Returns the view of a holder of the lock.
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

    /// Returns the policy for leaves in use that would have to change their size.
    #[inline]
    pub fn policy(&self) -> Policy {
        self.state.policy()
    }

    /// Sets the policy for leaves in use that would have to change their size.
    pub fn set_policy(&self, policy: Policy) {
        self.state.set_policy(policy);
    }

    /// Permits memory that is both writable and executable, which is refused by default. The caller is responsible for
    /// such memory.
    pub fn allow_write_execute(&self, allow: bool) {
        self.state.allow_write_execute(allow);
    }

    /// Returns the counts of leaves and tables of the half.
    pub fn stats<P: Platform>(&self, platform: &P) -> Stats {
        with_locks(platform, all_locks::<P>(), || self.state.counters.stats())
    }

    /// Returns the counts of operations on the map.
    pub fn changes<P: Platform>(&self, platform: &P) -> Changes {
        with_locks(platform, all_locks::<P>(), || self.state.counters.changes())
    }

    /// Calls `each` for every entry that translates an address from `first` to `last`, as [`visit`] does.
    /// The lock is held meanwhile.
    pub fn visit<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        each: impl FnMut(&Visited) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        with_locks(platform, all_locks::<P>(), || {
            visit(&self.tables(platform), self.geometry(), self.root(), range, each)
                .unwrap_or_else(|e| match e {})
        })
    }

    /// Returns the entry that translates an address: a leaf, a hole, or a reserved or restricted descriptor, with the
    /// first address that the entry translates and its level. Returns `None` if the address is not in this half.
    ///
    /// The result does not include restrictions by the tables above a leaf.
    pub fn entry<P: Platform>(&self, platform: &P, va: Va) -> Option<(Va, Level, Entry)> {
        let g = self.geometry();
        if va.0.wrapping_sub(self.state.base()) >> g.va_bits() != 0 {
            return None;
        }
        with_locks(platform, all_locks::<P>(), || {
            let (locked, span) = (self.locked(platform), Span { first: va.0, last: va.0 });
            let mut table = locked.root();
            loop {
                table = locked.deepest(table, span);
                let index = table.index_of(va.0);
                let entry = locked.load(&table, index);
                if !entry.is_table(table.level) {
                    return Some((Va(table.va(index)), table.level, entry.decode(g, table.level)));
                }
                // It restricts everything below it.
                table = locked.below(&table, index, entry);
            }
        })
    }

    /// Counts the leaves and tables from `first` to `last`, as [`count`] does.
    pub fn count<P: Platform>(&self, platform: &P, range: (Va, Va)) -> Stats {
        with_locks(platform, all_locks::<P>(), || {
            count(&self.tables(platform), self.geometry(), self.root(), range).unwrap_or_else(|e| match e {})
        })
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
        with_locks(platform, all_locks::<P>(), || {
            let dumped =
                dump_with(&self.tables(platform), self.geometry(), self.root(), region, name_of, out);
            dumped.map_err(|e| match e {
                DumpError::Write => fmt::Error,
                DumpError::Read(e) => match e {},
            })
        })
    }

    /// Checks the tables for entries that must never be in a map, as [`check`] does. The lock is held meanwhile.
    pub fn check<P: Platform>(
        &self,
        platform: &P,
        checks: &Checks<'_>,
        each: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        with_locks(platform, all_locks::<P>(), || {
            let checked = check(
                &self.tables(platform),
                self.geometry(),
                (self.root(), self.state.half()),
                checks,
                each,
            );
            checked.unwrap_or_else(|e| match e {})
        })
    }

    /// Returns the tables, for a reader that holds the lock.
    fn tables<'m, M: Memory>(&self, memory: &'m M) -> Live<'m, M> {
        // SAFETY: only tables below the root of this address space are read, and these are live. A memory that they do
        // not belong to refuses them.
        unsafe { Live::new(memory) }
    }

    /// Changes the leaves of a span.
    #[inline(always)]
    fn change<P: Platform>(&self, platform: &P, change: LeafChange, span: Span) -> Result<(), ChangeError> {
        with_locks(platform, all_locks::<P>(), || {
            self.state.dirty.mark(span);
            protect(self.locked(platform), change, span)
        })
    }

    /// Changes the permissions of `pages` pages from `va` on.
    ///
    /// Leaves within the range change in place. A leaf that is partly in the range is split first, which can happen at
    /// the two ends; its other parts keep the largest leaves that remain possible. A leaf that is already right is not
    /// touched. Present-invalid mappings change as well.
    ///
    /// # Errors
    ///
    /// A hole in the range; a range that is unaligned or outside the half; memory that would be both writable and
    /// executable; out of frames; a leaf in use that would have to change its size although the policy or the CPUs do
    /// not permit it. Nothing has changed then.
    ///
    /// # Safety
    ///
    /// All users of these addresses expect the change: no CPU executes or writes memory that is no longer executable or
    /// writable. `platform` is the platform of the tables.
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
    /// The mapping of an invalid page is preserved: address, permissions, whether it is global, and the size of its
    /// leaf. The page is not a hole; it can be split and protected.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    ///
    /// # Safety
    ///
    /// As for [`protect`](Self::protect). Nothing uses the pages that become invalid. Another CPU uses those that become
    /// valid as [`map`](Self::map) says.
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

    /// Maps `pages` pages from `va` on to consecutive physical memory from `oa` on. The range must be unmapped.
    ///
    /// Uses the largest leaves, or pages under [`Policy::Pages`]. Nothing is invalidated.
    ///
    /// When it returns, this CPU may use the addresses. Another CPU that learns of the mapping then needs a context
    /// synchronisation event before it uses them, such as an ISB. Without one it may still fault: neither DMB nor DSB
    /// orders its walks. With FEAT_ETS2 the load by which it learned of the mapping does, if it is not a SIMD load, for
    /// later loads and stores; instruction fetches need the event (Arm ARM D8.17 IWZCBG, D8.2.6.1 RNNFPF, B2.3.7).
    ///
    /// # Errors
    ///
    /// The range contains a mapping, valid or present-invalid; an address is unaligned or out of range; memory would be
    /// both writable and executable; out of frames. Nothing has changed then.
    ///
    /// # Safety
    ///
    /// The memory may be accessed as `attributes` permit, through these addresses and through all others that map it:
    /// there are no mismatched memory types, and no second way to write memory that must not be written.
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
        with_locks(platform, all_locks::<P>(), || {
            self.state.dirty.mark(span);
            let (half, leaves) = (self.state.half(), self.state.leaves());
            Mapping { half, span, oa, attributes, leaves }.map(&self.locked(platform))
        })
    }

    /// Removes the mapping of `pages` pages from `va` on, present-invalid mappings included, and gives back the tables
    /// that become empty.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    ///
    /// # Safety
    ///
    /// Nothing uses these addresses.
    pub unsafe fn unmap<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        with_locks(platform, all_locks::<P>(), || {
            self.state.dirty.mark(span);
            unmap(&self.locked(platform), span)
        })
    }

    /// Removes the mappings of several ranges of pages, as [`unmap`](Self::unmap) does for one. TLBs are invalidated
    /// once, at the end, so ranges that were released at different times cost a single invalidation.
    ///
    /// # Errors
    ///
    /// As for [`unmap`](Self::unmap), for any of the ranges. Also [`ChangeError::NeedsResize`], under every policy, for
    /// a leaf that is only partly in a range. Nothing has changed then.
    ///
    /// # Safety
    ///
    /// Nothing uses these addresses.
    pub unsafe fn unmap_all<P: Platform>(
        &self,
        platform: &P,
        ranges: &[(Va, u64)],
    ) -> Result<(), ChangeError> {
        with_locks(platform, all_locks::<P>(), || unmap_all(&self.locked(platform), ranges))
    }

    /// Splits everything from `va` on, for `pages` pages, into single pages, so that any of them can change later
    /// without a change of size. Translations stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect). Under [`Policy::Park`] the CPUs are parked once for each leaf, and once
    /// before that, to test whether they park. If one of them stops answering half way, the leaves that were split stay
    /// split.
    pub fn split_to_pages<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        with_locks(platform, all_locks::<P>(), || split_to_pages(&self.locked(platform), span))
    }

    /// Returns to the largest leaves where `pages` pages from `va` on, with their neighbours in the same tables, are
    /// uniform again, and gives back the tables. Translations stay as they are.
    ///
    /// Nothing collapses if the policy or the CPUs do not permit live changes of size.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half; CPUs that cannot be parked. Tables that had collapsed by then
    /// stay collapsed.
    pub fn collapse<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.state.span(va, pages)? else { return Ok(()) };
        with_locks(platform, all_locks::<P>(), || collapse(self.locked(platform), span))
    }

    /// Moves a tree of the same geometry and half into this address space, where the root has holes.
    ///
    /// Each entry of the tree's root moves into the live root by one store; everything below it is in its final state
    /// before a walker can see it. The cost is two DSB ISHST and an ISB, without a TLBI. The tree's own root page goes
    /// back to the memory. Returns the counts of what was added. On return this CPU uses the new entries; another CPU
    /// does so after its next context synchronisation event.
    ///
    /// # Errors
    ///
    /// A tree of another geometry or half; memory that is both writable and executable; a used slot of the live root
    /// between the first and the last slot that the tree uses. The tree is then discarded, and nothing has changed.
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map), for everything that the tree maps.
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
        with_locks(platform, all_locks::<P>(), || {
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
                    // SAFETY: the root is live and has these slots. They are holes, so nothing uses the addresses that they
                    // translate.
                    unsafe { platform.store(Slot { table: self.root(), index }, Descriptor(bits)) };
                }
            }
            platform.dsb(Dsb::Ishst);
            platform.isb();
            platform.give(from);
            self.state.counters.include(&stats);
            // The tree's root has just been given back.
            self.state.counters.no_table();
            Ok(stats)
        })
    }

    /// Returns the address of the first of these slots of the live root that is not a hole.
    fn occupied<M: Memory>(&self, memory: &M, mut slots: Range<usize>) -> Option<Va> {
        let taken = |&index: &usize| {
            // SAFETY: the root is live and has these slots.
            let live = unsafe { memory.load(Slot { table: self.root(), index }) };
            live != Descriptor::HOLE
        };
        slots.find(taken).map(|i| Va(self.state.base() + ((i as u64) << self.state.root_shift())))
    }
}
