//! Live tables: what walkers can reach, and how it changes.
//!
//! # Locks
//!
//! The platform's locks cover the live tables by gigabyte (`lock_set.rs`). An operation takes the locks of its addresses,
//! at most [`HOLD`](crate::Hardware::HOLD) entries at a time, and holds them from the first read of the tables until the
//! last invalidation is complete (`call.rs`). A longer operation claims its range first (`claims.rs`), so that it
//! remains all or nothing, and goes through it piece by piece (`pieces.rs`). Its invalidations are complete before the
//! claim goes. So no caller sees a partial change of its own addresses, and none returns while a TLB holds an old
//! translation of them. A list of more ranges than a claim has is changed in groups of so many.
//!
//! Nothing is allocated, no CPU is waited for, and no callback is called while a lock is held. One exception: CPUs are
//! parked in a hold, after they have answered before it ([`Hardware::call`]).
//!
//! Readers hold no lock (`reader.rs`). For them and for the walkers of the CPUs each change is a single store. A table is
//! retired when walkers can no longer reach it (`retired.rs`, `retired.rs`), and given back when readers have left.
//!
//! A repaint ([`SharedSpace::repaint`]) copies the map in holds of one gigabyte's lock. Changes in between are marked
//! (`marks.rs`) and copied again. The CPUs switch to the second tree in a hold of all locks in which no mark is left.
//!
//! [`Hardware::call`]: crate::Hardware::call

use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::ops::ControlFlow;

use crate::build::{BuildError, Changes, SplitCost, Tree, page_tables_for};
use crate::edit::{Caller, ChangeError, GraftError, Reader, Tables, copy, graft, graft_alone, trim};
use crate::format::{
    Attributes, Change, ChangeFlags, Entry, Geometry, Half, Level, MemoryType, Pa, Span, TableAttributes, Va,
};
use crate::plan::{Policy, Stats};
use crate::platform::{Platform, Reason, all_locks, with_locks};
use crate::read::{Checks, Finding, MarkedRange, Visited};
use crate::share::hold::Hold;
use crate::share::hold::flush;
use crate::share::map_state::MapState;

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
///
/// `LOCKS` is the most locks that its callers' platforms have ([`Hardware::LOCKS`](crate::Hardware::LOCKS)): a power of 2 up to 64. A platform with
/// more does not compile. With one lock it takes a kilobyte beside its tables, with 64 twelve.
#[derive(Debug)]
pub struct SharedSpace<const LOCKS: usize = 64> {
    state: MapState<LOCKS>,
}

/// With one lock it is at most a kilobyte.
const _: () = assert!(size_of::<SharedSpace<1>>() <= 1 << 10);

impl SharedSpace {
    /// Makes a tree live: from now on it belongs to the walkers.
    ///
    /// The caller then executes a DSB ISHST and loads [`root`](Self::root) into the TTBR of the tree's half; until then
    /// nothing translates by the tree. The caller is responsible for what the tree maps. The policy is
    /// [`Policy::Fixed`] until [`set_policy`](Self::set_policy) changes it.
    ///
    /// It has the state of 64 locks, 12 KB. [`BlankSpace::adopt`](crate::BlankSpace::adopt) and [`adopt_in`](Self::adopt_in) make
    /// one for fewer: 1 KB for one lock.
    pub fn adopt(tree: Tree) -> Self {
        Self::of_tree(tree)
    }
}

impl<const LOCKS: usize> SharedSpace<LOCKS> {
    /// Makes a tree live as [`adopt`](SharedSpace::adopt) does, where the value will stay: with many locks it is larger than the stacks
    /// of some kernels.
    pub fn adopt_in(memory: &mut MaybeUninit<Self>, tree: Tree) -> &mut Self {
        let (geometry, half, stats) = (tree.geometry(), tree.half(), tree.stats());
        Self::over_in(memory, (tree.into_root().into_pa(), geometry, half), &stats)
    }

    /// Makes the owner of a map with these counts below a root.
    pub(crate) fn over_in<'s>(
        memory: &'s mut MaybeUninit<Self>,
        root: (Pa, Geometry, Half),
        stats: &Stats,
    ) -> &'s mut Self {
        let space = memory.write(Self { state: MapState::BLANK });
        space.state.begin(root, stats);
        space
    }

    /// Makes a tree live.
    pub(crate) fn of_tree(tree: Tree) -> Self {
        Self::of(MapState::of(tree))
    }

    /// Returns the owner of a map in that state.
    pub(crate) const fn of(state: MapState<LOCKS>) -> Self {
        Self { state }
    }

    /// Returns the state of the map, for operations in other modules.
    pub(crate) const fn state(&self) -> &MapState<LOCKS> {
        &self.state
    }

    /// Returns what is known of the tables.
    #[inline(always)]
    pub(crate) const fn tables(&self) -> &Tables {
        &self.state.tables
    }

    /// Returns one of the callers who share the map.
    #[inline(always)]
    pub(crate) const fn caller<'a, P: Platform>(&'a self, platform: &'a P) -> Caller<'a, Hold<'a, P, LOCKS>> {
        const { assert!(P::LOCKS <= LOCKS, "the platform has more locks than the space has the state of") };
        Caller { platform, owner: &self.state }
    }

    /// Returns the state of the map, for its maker.
    pub(crate) const fn state_mut(&mut self) -> &mut MapState<LOCKS> {
        &mut self.state
    }

    /// Returns the address of the root table.
    #[inline]
    pub fn root(&self) -> Pa {
        self.state.tables.root()
    }

    /// Returns the geometry of the tables.
    pub const fn geometry(&self) -> Geometry {
        self.state.tables.geometry()
    }

    /// Returns the first and the last address of what belongs to this map: the half, or
    /// [a part of it](Self::from_shared_root).
    pub const fn range(&self) -> (Va, Va) {
        let Span { first, last } = self.state.tables.owned();
        (Va(first), Va(last))
    }

    /// Lets the root stay where it is for ever: [`repaint`](Self::repaint) then stores its entries, instead of switching to
    /// a second root. One that is under way may still switch.
    pub fn fix_root(&self) {
        self.state.tables.fix_root();
    }

    /// Returns the policy for leaves in use that would have to change their size.
    #[inline]
    pub fn policy(&self) -> Policy {
        self.state.tables.policy()
    }

    /// Sets the policy for leaves in use that would have to change their size.
    pub fn set_policy(&self, policy: Policy) {
        self.state.tables.set_policy(policy);
    }

    /// Permits memory that is both writable and executable, which is refused by default. The caller is responsible for
    /// such memory.
    pub fn allow_write_execute(&self, allow: bool) {
        self.state.tables.allow_write_execute(allow);
    }

    /// Sets what the descriptors of new tables have besides the address; nothing by default. Tables that exist stay as
    /// they are.
    ///
    /// A new table gets those restrictions that remove nothing from what it is made for: from the leaf that it replaces,
    /// before and after the change, or from the new mappings below it. Later a permission that a table removes can be set in
    /// the leaves below it, and has no effect.
    pub fn set_table_attributes(&self, attributes: TableAttributes) {
        self.state.tables.set_table_attributes(attributes);
    }

    /// Returns what the descriptors of new tables have besides the address.
    pub fn table_attributes(&self) -> TableAttributes {
        self.state.tables.table_attributes()
    }

    /// Says that walkers of some CPU set the access flag or manage the dirty state (TCR_EL1.HA and HD), as user space wants
    /// it; false by default. No leaf of the map must be one that they update, since a change is a load and a plain store: each
    /// has its access flag, and none is read-only with DBM (writable-clean, D8.5.2). Changes and mappings that might make
    /// another one are refused from now on. Those that exist, or are created or grafted, are the caller's; a
    /// [`check`](Self::check) finds them ([`Checks::hardware_updates`](crate::Checks::hardware_updates)).
    ///
    /// With TCR2_EL1.HAFT tables have their flag, too: [`TableAttributes::ACCESSED`](crate::TableAttributes::ACCESSED).
    pub fn expect_hardware_updates(&self, expect: bool) {
        self.state.tables.expect_hardware_updates(expect);
    }

    /// Counts on the restrictions in table descriptors when memory that is both writable and executable is refused. By
    /// default each leaf is judged as if there were none, since the CPUs may ignore them
    /// ([`TableLimits`](crate::TableLimits)). The caller is
    /// responsible for CPUs that do not.
    pub fn count_on_table_limits(&self, count: bool) {
        self.state.tables.count_table_limits(count);
    }

    /// Returns the counts of leaves and tables of the half. Takes all locks for a moment. While another caller unmaps whole tables they may
    /// still have these.
    pub fn stats<P: Platform>(&self, platform: &P) -> Stats {
        with_locks(platform, all_locks::<P>(), || self.state.stats())
    }

    /// Returns the counts of operations on the map. Takes all locks for a moment.
    pub fn changes<P: Platform>(&self, platform: &P) -> Changes {
        with_locks(platform, all_locks::<P>(), || self.state.changes())
    }

    /// Returns what splits for a reason have cost since the map was made. It takes no lock, and counts each split once its
    /// stores are made.
    ///
    /// A platform gives the reason by [`Hardware::reason`](crate::Hardware::reason), for example by
    /// [`WithReason`](crate::WithReason). What a collapse would bring back is the difference of
    /// [`count`](Self::count) and [`count_collapsed`](Self::count_collapsed).
    pub fn split_cost(&self, reason: Reason) -> SplitCost {
        self.state.split_costs.of(reason)
    }

    /// Calls `work` with a reader of the map, while others may change it ([`Hardware::read`](crate::Hardware::read)).
    /// `work` must not change a map.
    pub fn read<P: Platform, R>(&self, platform: &P, work: impl FnOnce(&Reader<'_, P>) -> R) -> R {
        platform.read(|| work(&Reader::new(self.tables(), &self.state, platform)))
    }

    /// Calls `each` for every entry that translates an address from `first` to `last`, as [`Reader::visit`] does.
    pub fn visit<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        each: impl FnMut(&Visited) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        platform.read(|| Reader::without_version(self.tables(), platform).visit(range, each))
    }

    /// Returns the entry that translates an address, as [`Reader::entry`] does.
    pub fn entry<P: Platform>(&self, platform: &P, va: Va) -> Option<(Va, Level, Entry)> {
        platform.read(|| Reader::without_version(self.tables(), platform).entry(va))
    }

    /// Calls `each` for leaves that continue each other, as [`Reader::visit_series`] does.
    pub fn visit_series<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        each: impl FnMut(&Visited, u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        platform.read(|| Reader::without_version(self.tables(), platform).visit_series(range, each))
    }

    /// Returns the memory that an address is mapped to, as [`Reader::translate`] does.
    #[inline]
    pub fn translate<P: Platform>(&self, platform: &P, va: Va) -> Option<Pa> {
        platform.read(|| Reader::without_version(self.tables(), platform).translate(va))
    }

    /// Counts the leaves and tables from `first` to `last`, as [`Reader::count`] does.
    pub fn count<P: Platform>(&self, platform: &P, range: (Va, Va)) -> Stats {
        platform.read(|| Reader::without_version(self.tables(), platform).count(range))
    }

    /// Builds a tree off line that has the same entries from `first` to `last`: leaves of the same sizes, valid or
    /// present-invalid, and tables with the same attributes. A leaf or run that is partly in the range is copied as a whole. The
    /// copy owns its tables, which are pages of the same memory. They are taken while no lock is held, and outside
    /// [`Hardware::read`](crate::Hardware::read).
    ///
    /// So a kernel makes tables that stay as they are while its own are overwritten: to resume from hibernation, or to
    /// start another kernel. It takes a few instructions a leaf, wherever in memory each is.
    ///
    /// # Errors
    ///
    /// Out of frames. Every frame has been given back.
    pub fn copy<P: Platform>(&self, platform: &P, range: (Va, Va)) -> Result<Tree, BuildError> {
        copy(self.tables(), platform, range)
    }

    /// Counts the leaves and tables that a collapse of all that is mapped from `first` to `last` would leave, as
    /// [`Reader::count_collapsed`] does.
    pub fn count_collapsed<P: Platform>(&self, platform: &P, range: (Va, Va)) -> Stats {
        self.read(platform, |reader| reader.count_collapsed(range))
    }

    /// Prints a region, as [`dump`](crate::dump) does.
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

    /// Prints a region with memory types named by the caller, as [`Reader::dump_with`] does.
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
        self.read(platform, |reader| reader.dump_with(region, name_of, out))
    }

    /// Checks the tables for entries that must never be in a map, as [`Reader::check`] does.
    pub fn check<P: Platform>(
        &self,
        platform: &P,
        checks: &Checks<'_>,
        each: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.read(platform, |reader| reader.check(checks, each))
    }

    /// Returns the largest number of table pages that a [`protect`](Self::protect), [`set_valid`](Self::set_valid) or
    /// [`unmap`](Self::unmap) may need, whatever its range and whatever leaves are there: for each end of the range a table
    /// of each level below the root. See [`Reserved`](crate::Reserved).
    pub const fn most_tables(&self) -> u64 {
        self.state.tables.most_tables()
    }

    /// Returns the largest number of table pages that [`map`](Self::map), [`split_to_pages`](Self::split_to_pages) or
    /// [`pin`](Self::pin) may need for `pages` pages from `va` on, whatever is there. Returns 0 for a range that they refuse.
    pub fn most_tables_in_pages(&self, va: Va, pages: u64) -> u64 {
        let Ok(Some(span)) = self.state.tables.owned_span(va, pages) else { return 0 };
        page_tables_for(self.geometry(), self.geometry().root(), span, span)
    }

    /// Changes the permissions of `pages` pages from `va` on, their validity, or both.
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
    /// writable, nor uses pages that become invalid. `platform` is the platform of the tables.
    #[inline]
    pub unsafe fn protect<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        change: Change,
    ) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.change(platform, va, pages, change, ChangeFlags::empty()) }
    }

    /// Makes `pages` pages from `va` on invalid, so that every access faults, or valid again: [`protect`](Self::protect)
    /// with [`Change::INVALID`] or [`Change::VALID`].
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
    /// As for [`protect`](Self::protect). Another CPU uses pages that become valid as [`map`](Self::map) says.
    pub unsafe fn set_valid<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        valid: bool,
    ) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.protect(platform, va, pages, if valid { Change::VALID } else { Change::INVALID }) }
    }

    /// Gives `pages` pages from `va` on allocation tags, by [`MemoryType::NORMAL_TAGGED`], or takes them away, by
    /// [`MemoryType::NORMAL`]. This takes no break-before-make, and the memory may have tags by one address and none by
    /// another (Arm ARM D8.17.1 RWHZWS, B2.11). Otherwise as [`protect`](Self::protect).
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect); [`ChangeError::NotNormal`] for memory that is neither.
    ///
    /// # Safety
    ///
    /// `platform` is the platform of the tables. The indices of MAIR_EL1 have the meaning that
    /// [`MemoryType::mair`] gives them.
    pub unsafe fn set_tagged<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        tagged: bool,
    ) -> Result<(), ChangeError> {
        self.caller(platform).set_tagged((va, pages), tagged)
    }

    /// Changes `pages` pages from `va` on as [`protect`](Self::protect) does, in the manner of these flags.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect), but for a hole where `flags` say to skip it.
    ///
    /// # Safety
    ///
    /// As for [`protect`](Self::protect). With [`ChangeFlags::LATER`] CPUs may use the old translations until the range
    /// has been [flushed](Self::flush).
    #[inline]
    pub unsafe fn change<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        change: Change,
        flags: ChangeFlags,
    ) -> Result<(), ChangeError> {
        self.caller(platform).change((va, pages), change, flags)
    }

    /// Makes one page invalid, or valid again, and leaves the invalidation to a [`flush`](Self::flush):
    /// [`change`](Self::change) with [`ChangeFlags::LATER`]. Where the page is in a page table and in no run it allocates nothing
    /// and cannot fail, so it may be called from any context in which the platform's lock may be taken. A kernel that guards
    /// single pages [pins](Self::pin) their range before.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    ///
    /// # Safety
    ///
    /// As for [`set_valid`](Self::set_valid). CPUs may use the old translation until the page has been flushed.
    #[inline]
    pub unsafe fn set_page_valid<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        valid: bool,
    ) -> Result<(), ChangeError> {
        let change = if valid { Change::VALID } else { Change::INVALID };
        self.caller(platform).change((va, 1), change, ChangeFlags::LATER)
    }

    /// Changes single pages, in any order, as [`change`](Self::change) does one range: all of them, or none. Pages that
    /// follow each other change together, so a list of adjacent pages costs little more than their range. TLBs are
    /// invalidated once, at the end. The list is read several times, also while locks are held.
    ///
    /// # Errors
    ///
    /// As for [`change`](Self::change), for any of the pages. No translation has changed then, although leaves may have
    /// been split. If the list takes several holds and has more than 16 ranges, they change group by group: should another
    /// caller change some of the same pages meanwhile, the call may be refused after some groups.
    ///
    /// # Safety
    ///
    /// As for [`change`](Self::change). `pages` and each clone of it yield the same pages, and neither change a map nor wait.
    pub unsafe fn change_pages<P: Platform>(
        &self,
        platform: &P,
        pages: impl Iterator<Item = Va> + Clone,
        change: Change,
        flags: ChangeFlags,
    ) -> Result<(), ChangeError> {
        self.caller(platform).change_pages(pages, change, flags)
    }

    /// Invalidates what changes with [`ChangeFlags::LATER`] have left to invalidate in `pages` pages from `va` on. On
    /// return no CPU uses a translation that such a change has replaced, if the change had returned before the flush began.
    /// Where nothing is pending it costs next to nothing.
    ///
    /// A kernel that has invalidated the range itself need not call this, but until then the range counts as pending.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half.
    pub fn flush<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.state.tables.span(va, pages)? else { return Ok(()) };
        flush(&self.caller(platform), span);
        Ok(())
    }

    /// Returns true if changes with [`ChangeFlags::LATER`] have left anything to invalidate.
    pub fn has_pending(&self) -> bool {
        self.state.attention.is_pending()
    }

    /// Returns true if a call is under way that has claimed addresses, or a repaint. Others may be refused meanwhile, if they
    /// cannot wait. A call that holds a lock is not meant.
    pub fn is_claimed(&self) -> bool {
        self.state.attention.is_needed_for_more()
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
        self.caller(platform).map((va, pages), (oa, attributes), self.state.tables.leaves())
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
        self.caller(platform).unmap((va, pages))
    }

    /// Removes the mappings of several ranges of pages, as [`unmap`](Self::unmap) does for one. TLBs are invalidated
    /// once, at the end, so ranges that were released at different times cost a single invalidation. Ranges may overlap.
    ///
    /// A table of more than one gigabyte that becomes empty is left for the next mapping there, until another one becomes empty,
    /// if the platform has several locks: to take it out takes all of them. So areas whose pages come and go do not stop other
    /// callers. [`trim`](Self::trim) gives it back.
    ///
    /// # Errors
    ///
    /// As for [`unmap`](Self::unmap), for any of the ranges. Also [`ChangeError::NeedsResize`], under every policy, for
    /// a leaf that is only partly in a range. Nothing has changed then. If it takes several holds, and there are more than 16
    /// ranges, they go 16 at a time: should another caller change them meanwhile, the call may be refused after some of them.
    ///
    /// # Safety
    ///
    /// Nothing uses these addresses.
    pub unsafe fn unmap_all<P: Platform>(
        &self,
        platform: &P,
        ranges: &[(Va, u64)],
    ) -> Result<(), ChangeError> {
        self.caller(platform).unmap_all(ranges)
    }

    /// Gives back the empty table that [`unmap_all`](Self::unmap_all) has left, if there is one and it is still empty: for a kernel
    /// that is short of memory.
    pub fn trim<P: Platform>(&self, platform: &P) {
        trim(self.caller(platform));
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
        self.caller(platform).split_to_pages((va, pages))
    }

    /// Returns to the largest leaves where `pages` pages from `va` on, with their neighbours in the same tables, are
    /// uniform again, and gives back the tables. Translations stay as they are.
    ///
    /// Leaves that are not valid stay as they are: no TLB holds them, and the caller that took them out puts them back page
    /// by page, perhaps where no memory can be had for a split.
    ///
    /// A table with restrictions goes only if a new one would get them
    /// ([`set_table_attributes`](Self::set_table_attributes)), and if they remove nothing from the leaf in its place.
    ///
    /// Nothing collapses if the policy or the CPUs do not permit live changes of size.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half; CPUs that cannot be parked. Tables that had collapsed by then
    /// stay collapsed.
    pub fn collapse<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        self.caller(platform).collapse((va, pages))
    }

    /// Splits everything from `va` on, for `pages` pages, into single pages that stay single: no collapse merges them before
    /// they are [unpinned](Self::unpin). So a later change of some of them needs neither table pages nor a change of size.
    ///
    /// The leaves themselves say so, by [`Attributes::STAYS_SPLIT`], so pins are not counted, and an unmapped page has none.
    ///
    /// # Errors
    ///
    /// As for [`split_to_pages`](Self::split_to_pages). Nothing is pinned then.
    pub fn pin<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        self.caller(platform).pin((va, pages))
    }

    /// Lets the pages of a range be merged again, pinned or mapped in pages for other reasons. Holes are left out.
    ///
    /// # Errors
    ///
    /// A range that is unaligned, outside the half or not all of this map's; a claim in the way. If the range begins or ends
    /// within a leaf, all of [`protect`](Self::protect)'s.
    pub fn unpin<P: Platform>(&self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        self.caller(platform).unpin((va, pages))
    }

    /// Moves a tree of the same geometry and half into this address space, where the root has holes.
    ///
    /// Each entry of the tree's root moves into the live root by one store; everything below it is in its final state
    /// before a walker can see it. The cost is two DSB ISHST and an ISB, without a TLBI. The tree's own root page goes
    /// back to the memory. Returns the counts of what was added. On return this CPU uses the new entries. Another CPU
    /// uses them after its next context synchronisation event.
    ///
    /// # Errors
    ///
    /// A tree of another geometry or half; memory that is both writable and executable; a used slot of the live root
    /// between the first and the last slot that the tree uses; a claim in the way. The tree is then discarded, and nothing has changed.
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map), for everything that the tree maps.
    pub unsafe fn graft<P: Platform>(&self, platform: &P, tree: Tree) -> Result<Stats, GraftError> {
        graft(self.caller(platform), tree)
    }

    /// Moves a tree into this address space as [`graft`](Self::graft) does, for a caller who has it alone: no lock is taken.
    ///
    /// # Errors
    ///
    /// As for [`graft`](Self::graft).
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map), for everything that the tree maps.
    #[inline(always)]
    pub unsafe fn graft_alone<P: Platform>(&mut self, platform: &P, tree: Tree) -> Result<Stats, GraftError> {
        graft_alone(self.caller(platform), tree)
    }
}
