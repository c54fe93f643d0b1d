//! Live tables: what walkers can reach, and how it changes.
//!
//! # The lock
//!
//! One lock, the platform's ([`Hardware::lock`]), covers all live tables and their counts. Whoever stores
//! into a live table holds it, from the first look at what is there until the last invalidation is complete
//! and tables that went have been given back. So two callers never see or make half of a change, and a
//! reader that holds the lock never meets a table that has been given back.
//!
//! The walkers of the CPUs hold no lock. For them each change is a single store (`edit.rs`, `split.rs`),
//! and a table goes back to its memory only after they can not be in it any more (`retire.rs`).
//!
//! It is held for as long as the operation takes, which is the range's length, not the machine's; platforms
//! whose lock masks interrupts do well to change long ranges piece by piece, and to print a map only when
//! nothing is in a hurry.
//!
//! A repaint ([`AddressSpace::repaint`]) holds it for one piece after another, and others change the map in
//! between: whoever changes a translation notes where (`noted.rs`), so that it is copied once more. The
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
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use crate::build::{Changes, Counters, Error, Tree};
use crate::format::{Attributes, Change, Descriptor, Edit, Entry, Geometry, Half, Level, Pa, Span, Va};
use crate::live::collapse::Collapse;
use crate::live::dirty_ranges::Noted;
use crate::live::edit::Editor;
use crate::live::locked::Access;
use crate::live::map::Mapper;
use crate::live::one_leaf::one_leaf;
use crate::live::split_to_pages::Pages;
use crate::live::table_pages::Retired;
use crate::live::tlb_batch::Batch;
use crate::plan::{Policy, Stats};
use crate::platform::{Dsb, Memory, Platform, Slot};
use crate::read::{Checks, DumpError, Finding, Live, Marked, Table, check, count, dump, visit};

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
    /// Its address changes under the lock.
    root: AtomicU64,
    geometry: Geometry,
    half: Half,
    /// The first address of the half.
    base: u64,
    /// log2 of what an entry of the root spans, and of the page size.
    root_shift: u8,
    first_leaf: Level,
    page_shift: u8,
    policy: AtomicU8,
    write_execute: AtomicBool,
    counters: Counters,
    /// What a repaint has to know of changes.
    noted: Noted,
}

impl AddressSpace {
    /// Makes a tree live: from now on it belongs to the walkers.
    ///
    /// The caller loads [`root`](Self::root) into the TTBR of the tree's half, after a DSB ISHST, and answers for what
    /// the tree maps: until then nothing translates by it. The policy is [`Policy::Fixed`] until [`set_policy`](Self::set_policy) says otherwise.
    pub fn adopt(tree: Tree) -> Self {
        let (geometry, half) = (tree.geometry(), tree.half());
        let counters = Counters::new(&tree.stats());
        let root = tree.into_root().into_pa();
        let policy = AtomicU8::new(Policy::Fixed as u8);
        Self {
            root: AtomicU64::new(root.0),
            geometry,
            half,
            base: geometry.base(half),
            first_leaf: geometry.first_leaf_level(),
            root_shift: geometry.level_shift(geometry.root()) as u8,
            page_shift: geometry.page_shift() as u8,
            policy,
            write_execute: AtomicBool::new(false),
            counters,
            noted: Noted::new(),
        }
    }

    /// The address of the root table.
    #[inline]
    pub fn root(&self) -> Pa {
        Pa(self.root.load(Relaxed))
    }

    /// Whether an entry at a level is a leaf, valid or kept.
    #[inline(always)]
    pub(crate) const fn is_leaf(&self, entry: Descriptor, level: Level) -> bool {
        entry.is_leaf_from(self.first_leaf, level)
    }

    #[inline(always)]
    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) const fn noted(&self) -> &Noted {
        &self.noted
    }

    /// The first address of the half.
    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    /// From now on these are the tables, under another policy. Under the lock.
    pub(crate) fn switched(&self, root: Pa, policy: Policy) {
        self.root.store(root.0, Relaxed);
        self.set_policy(policy);
    }

    /// The geometry of the tables.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What is done where a leaf in use has to change its size.
    #[inline]
    pub fn policy(&self) -> Policy {
        match self.policy.load(Relaxed) {
            n if n == Policy::Live as u8 => Policy::Live,
            n if n == Policy::Pages as u8 => Policy::Pages,
            n if n == Policy::Fixed as u8 => Policy::Fixed,
            _ => Policy::Park,
        }
    }

    /// Says what is done where a leaf in use has to change its size.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u8, Relaxed);
    }

    /// Lets pages be writable and executable at once, which is refused otherwise. The owner of the machine
    /// then answers for it.
    pub fn allow_write_execute(&self, allow: bool) {
        self.write_execute.store(allow, Relaxed);
    }

    /// What all of the half is made of.
    pub fn stats<P: Platform>(&self, platform: &P) -> Stats {
        let _held = platform.lock();
        self.counters.stats()
    }

    /// What has been done to it.
    pub fn changes<P: Platform>(&self, platform: &P) -> Changes {
        let _held = platform.lock();
        self.counters.changes()
    }

    /// Calls `each` for every entry that translates an address from `first` to `last`, as [`visit`] does.
    /// The lock is held meanwhile.
    pub fn visit<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        each: impl FnMut(Va, Level, Entry) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let _held = platform.lock();
        visit(&self.tables(platform), self.geometry, self.root(), range, each).unwrap_or_else(|e| match e {})
    }

    /// The same, for those who can not wait: nothing if the lock is taken.
    pub fn try_visit<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        each: impl FnMut(Va, Level, Entry) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let _held = platform.try_lock()?;
        let visited = visit(&self.tables(platform), self.geometry, self.root(), range, each);
        Some(visited.unwrap_or_else(|e| match e {}))
    }

    /// What translates an address, or would: a leaf, a hole or what is not understood, with the address where
    /// that entry starts and its level. Nothing if the address is not of this half.
    ///
    /// The restrictions of the tables above a leaf, if there are any, are not in it.
    pub fn entry<P: Platform>(&self, platform: &P, va: Va) -> Option<(Va, Level, Entry)> {
        if va.0.wrapping_sub(self.base) >> self.geometry.va_bits() != 0 {
            return None;
        }
        let _held = platform.lock();
        let (access, span) = (self.access(platform), Span { first: va.0, last: va.0 });
        let mut table = self.root_table(&access);
        loop {
            table = access.deepest(table, span);
            let index = table.index_of(va.0);
            let entry = access.load(&table, index);
            if !entry.is_table(table.level) {
                return Some((Va(table.va(index)), table.level, entry.decode(self.geometry, table.level)));
            }
            // It lays restrictions on what is below.
            table = access.below(&table, index, entry);
        }
    }

    /// Counts what is mapped from `first` to `last`, as [`count`] does.
    pub fn count<P: Platform>(&self, platform: &P, range: (Va, Va)) -> Stats {
        let _held = platform.lock();
        count(&self.tables(platform), self.geometry, self.root(), range).unwrap_or_else(|e| match e {})
    }

    /// Prints a region, as [`dump`] does. The lock is held meanwhile.
    ///
    /// # Errors
    ///
    /// The writer failed.
    pub fn dump<P: Platform>(
        &self,
        platform: &P,
        region: Marked,
        out: &mut impl Write,
    ) -> Result<Stats, fmt::Error> {
        let _held = platform.lock();
        let dumped = dump(&self.tables(platform), self.geometry, self.root(), region, out);
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
        let checked = check(&self.tables(platform), self.geometry, (self.root(), self.half), checks, each);
        checked.unwrap_or_else(|e| match e {})
    }

    pub(crate) fn tables<'m, M: Memory>(&self, memory: &'m M) -> Live<'m, M> {
        // SAFETY: read from the root of this address space on, which is live with all below it; a
        // memory that the tables are not of refuses them.
        unsafe { Live::new(memory) }
    }

    #[inline]
    pub(crate) fn root_table<P: Platform>(&self, access: &Access<'_, P>) -> Table {
        access.table(self.root(), self.geometry.root(), self.root_shift.into(), self.base)
    }

    pub(crate) fn access<'a, P: Platform>(&'a self, platform: &'a P) -> Access<'a, P> {
        Access { platform, geometry: self.geometry, space: self }
    }

    /// The addresses of some pages. Nothing if there are none.
    pub(crate) fn span(&self, va: Va, pages: u64) -> Result<Option<Span>, Error> {
        let (va_bits, page) = (self.geometry.va_bits(), self.page_shift);
        if va.0 & ((1 << page) - 1) != 0 {
            return Err(Error::Unaligned { address: va.0 });
        }
        let (all, before) = (1u64 << (va_bits - u32::from(page)), va.0.wrapping_sub(self.base) >> page);
        if before > all || pages > all - before {
            return Err(Error::OutsideHalf { va, pages });
        }
        if pages == 0 {
            return Ok(None);
        }
        let pages = pages - u64::from(broken!(LastPageLeftOut));
        Ok(Some(Span { first: va.0, last: va.0 + ((pages << page) - 1) }))
    }

    /// A change of permissions as an edit.
    #[inline(always)]
    pub(crate) fn edit_of(&self, change: Change) -> Edit {
        let (clear, set) = change.bits();
        Edit { clear, set, validity: Edit::STAYS, refuse_write_execute: !self.write_execute.load(Relaxed) }
    }

    /// Carries out an edit that leaves every leaf mapped.
    #[inline(always)]
    fn edit<P: Platform>(&self, platform: &P, edit: Edit, span: Span) -> Result<(), Error> {
        let _held = platform.lock();
        #[cfg(feature = "faults")]
        let _held = (!broken!(NoLock)).then_some(_held);
        self.noted.changes(span);
        let access = self.access(platform);
        let table = access.deepest(self.root_table(&access), span);
        if (span.first ^ span.last) >> table.shift == 0 {
            let index = table.index_of(span.first);
            return one_leaf(self, access, (edit, span), (table, index));
        }
        Editor::new(access, edit, span).run(self, table)
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
    ) -> Result<(), Error> {
        let Some(span) = self.span(va, pages)? else { return Ok(()) };
        self.edit(platform, self.edit_of(change), span)
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
    ) -> Result<(), Error> {
        let Some(span) = self.span(va, pages)? else { return Ok(()) };
        let refuse_write_execute = valid && !self.write_execute.load(Relaxed);
        let validity = if valid { Edit::VALID } else { Edit::INVALID };
        let edit = Edit { validity, refuse_write_execute, ..Edit::NONE };
        self.edit(platform, edit, span)
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
    ) -> Result<(), Error> {
        let g = self.geometry;
        let Some(span) = self.span(va, pages)? else { return Ok(()) };
        if oa.0 & (g.page_size() - 1) != 0 {
            return Err(Error::Unaligned { address: oa.0 });
        }
        if oa.0.checked_add(span.last - span.first).is_none_or(|last| last >> g.oa_bits() != 0) {
            return Err(Error::OutputAddress { oa, pages, bits: g.oa_bits() });
        }
        if attributes.is_write_execute() && !self.write_execute.load(Relaxed) {
            return Err(Error::WriteExecute { va });
        }
        let _held = platform.lock();
        self.noted.changes(span);
        let (access, leaves) = (self.access(platform), self.leaves());
        let root = self.root_table(&access);
        Mapper { access, half: self.half, span, oa, attributes, leaves }.run(root)
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
    pub unsafe fn unmap<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), Error> {
        let Some(span) = self.span(va, pages)? else { return Ok(()) };
        let _held = platform.lock();
        self.noted.changes(span);
        let access = self.access(platform);
        Editor::new(access, Edit::REMOVE, span).run_remove(self)
    }

    /// Splits everything from `va` on into single pages, for `pages` pages, so that any one of them can be
    /// changed later without a change of size. Translations stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect). Under [`Policy::Park`] the CPUs are parked once for each leaf, and once
    /// before, to see whether they can be; if one of them stops answering half way, what was split stays so.
    pub fn split_to_pages<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), Error> {
        let Some(span) = self.span(va, pages)? else { return Ok(()) };
        let _held = platform.lock();
        Pages { access: self.access(platform), span, policy: self.policy() }.run(self)
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
    pub fn collapse<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), Error> {
        let Some(span) = self.span(va, pages)? else { return Ok(()) };
        let _held = platform.lock();
        self.collapse_span(self.access(platform), span)
    }

    /// The same under the lock.
    pub(crate) fn collapse_span<P: Platform>(&self, access: Access<'_, P>, span: Span) -> Result<(), Error> {
        let policy = self.policy();
        if access.may_resize(policy, Some(span.first)).is_err() {
            return Ok(());
        }
        let root = self.root_table(&access);
        let collapse =
            Collapse { access, span, policy, batch: Batch::new(), retired: Retired::new(), changed: false };
        collapse.run(root)
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
    pub unsafe fn graft<P: Platform>(&self, platform: &P, tree: Tree) -> Result<Stats, Error> {
        if (tree.geometry(), tree.half()) != (self.geometry, self.half) {
            tree.discard(platform);
            return Err(Error::OtherGeometry);
        }
        if let Some(va) = tree.write_execute().filter(|_| !self.write_execute.load(Relaxed)) {
            tree.discard(platform);
            return Err(Error::WriteExecute { va });
        }
        let (stats, used) = (tree.stats(), tree.used());
        let _held = platform.lock();
        if let Some(va) = self.occupied(platform, used.clone()) {
            tree.discard(platform);
            return Err(Error::Occupied { va });
        }
        let mut from = tree.into_root();
        if !used.is_empty() {
            let at = |index: usize| self.base + ((index as u64) << self.root_shift);
            self.noted.changes(Span {
                first: at(used.start),
                last: at(used.end - 1) + ((1 << self.root_shift) - 1),
            });
        }
        self.access(platform).filled();
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
        self.counters.include(&stats);
        // Its root has just been given back.
        self.counters.no_table();
        Ok(stats)
    }

    /// The address of the first of these slots of the live root that is taken.
    fn occupied<M: Memory>(&self, memory: &M, mut slots: Range<usize>) -> Option<Va> {
        let taken = |&index: &usize| {
            // SAFETY: the root is live and has these slots.
            let live = unsafe { memory.load(Slot { table: self.root(), index }) };
            live != Descriptor::HOLE
        };
        let shift = self.geometry.level_shift(self.geometry.root());
        slots.find(taken).map(|i| Va(self.geometry.base(self.half) + ((i as u64) << shift)))
    }
}
