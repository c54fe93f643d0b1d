//! The operations on live tables, the same for both forms of an address space: the arguments are checked, and each operation begins.

use core::fmt;

use crate::build::{BuildError, Tree};
use crate::edit::call::Caller;
use crate::edit::change::{Ranges, change_ranges, protect};
use crate::edit::collapse::collapse;
use crate::edit::copy::copy;
use crate::edit::error::ChangeError;
use crate::edit::guard::{Form, Guard};
use crate::edit::mapping::Mapping;
use crate::edit::one_leaf::in_one_hold;
use crate::edit::reader::Reader;
use crate::edit::reserve::Reserve;
use crate::edit::split_to_pages::split_to_pages;
use crate::edit::tables::Tables;
use crate::edit::unmap::{trim, unmap, unmap_all};
use crate::format::{Attributes, Change, ChangeFlags, LeafChange, MemoryType, Pa, Span, Unaligned, Va};
use crate::plan::Leaves;

/// Live tables and the platform by which they change: all operations on them.
///
/// [`Space::on`](crate::Space::on) gives it to the only caller of an address space, [`SharedSpace::on`](crate::SharedSpace::on) to
/// one of many. It is two or three words, so callers make one for each call: `space.on(&platform).unmap(va, 1)`. `G` is [`Alone`](crate::Alone)
/// or [`Hold`](crate::Hold).
///
/// Every operation does all of what it says, or nothing: on an error, each translation is as before, although leaves
/// may have been split. One exception: where CPUs have to be parked, [`collapse`](Self::collapse) and
/// [`split_to_pages`](Self::split_to_pages), which change no translation, may stop half way if a CPU stops answering.
///
/// The cost of a change: two walks of the range, a store for each descriptor that changes, two DSB and an ISB, a third
/// DSB where tables are built or a part of a contiguous run changes, and one batch of TLB invalidations if a valid
/// entry changed. If everything is already right, the cost is the walk alone. The barriers are repeated after every
/// eight tables that are built or removed. Some CPUs need a TLBI and a DSB after each batch
/// ([`Features::needs_repeated_tlbi`](crate::cpu::Features::needs_repeated_tlbi)).
///
/// On return all CPUs use the new translations. One exception: another CPU can rely on entries that became valid only
/// after its next context synchronisation event. A range of zero pages is permitted if it starts in the half or at its
/// end.
pub struct Live<'a, G: Form> {
    pub(crate) caller: Caller<'a, G>,
}

impl<G: Form> fmt::Debug for Live<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables().fmt(f)
    }
}

impl<G: Form> Live<'_, G> {
    /// Returns what is known of the tables.
    pub(crate) fn tables(&self) -> &Tables {
        self.caller.tables()
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
    /// writable, nor uses pages that become invalid. The platform is that of the tables.
    #[inline]
    pub unsafe fn protect(&mut self, va: Va, pages: u64, change: Change) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.change(va, pages, change, ChangeFlags::empty()) }
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
    pub unsafe fn set_valid(&mut self, va: Va, pages: u64, valid: bool) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.protect(va, pages, Change::of_validity(valid)) }
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
    /// The platform is that of the tables. The indices of MAIR_EL1 have the meaning that [`MemoryType::mair`] gives them.
    pub unsafe fn set_tagged(&mut self, va: Va, pages: u64, tagged: bool) -> Result<(), ChangeError> {
        let tables = self.tables();
        let Some(span) = tables.span(va, pages)? else { return Ok(()) };
        let wanted = if tagged { MemoryType::NORMAL_TAGGED } else { MemoryType::NORMAL };
        let set = Attributes::empty().of_type(wanted).bits();
        let refuse_write_execute = !tables.allows_write_execute();
        let clear = Attributes::MEMORY_TYPE.bits();
        let change = LeafChange { clear, set, refuse_write_execute, ..LeafChange::NONE };
        protect(self.caller, (change, false, span))
    }

    /// Changes `pages` pages from `va` on as [`protect`](Self::protect) does, in the manner of these flags.
    ///
    /// With [`ChangeFlags::LATER`] nothing is invalidated: the caller [flushes](Self::flush) the range, or invalidates it himself. A
    /// page that is in a page table and in no run then changes without a table page, and the call cannot fail, so it may be made from any context in
    /// which the platform's lock may be taken. A kernel that guards single pages [pins](Self::pin) their range before.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect), but for a hole where `flags` say to skip it.
    ///
    /// # Safety
    ///
    /// As for [`protect`](Self::protect). With `LATER` CPUs may use the old translations until the range has been flushed. A
    /// [`Space`](crate::Space) does not remember that: flush the range before you do anything else with these addresses.
    #[inline]
    pub unsafe fn change(
        &mut self,
        va: Va,
        pages: u64,
        change: Change,
        flags: ChangeFlags,
    ) -> Result<(), ChangeError> {
        begin::<G>(self.caller.platform, self.caller.owner, (va, pages), change, flags)
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
    pub unsafe fn change_pages(
        &mut self,
        pages: impl Iterator<Item = Va> + Clone,
        change: Change,
        flags: ChangeFlags,
    ) -> Result<(), ChangeError> {
        let tables = self.tables();
        tables.may_change(change, pages.clone().next().unwrap_or(Va(tables.base())))?;
        let wanted = (tables.leaf_change_with(change, flags), flags.contains(ChangeFlags::LATER));
        change_ranges(self.caller, Ranges::of(tables.geometry().page_size(), pages), wanted)
    }

    /// Invalidates what changes with [`ChangeFlags::LATER`] have left to invalidate in `pages` pages from `va` on. On
    /// return no CPU uses a translation that such a change has replaced, if the change had returned before the flush began.
    /// Where nothing is pending it costs next to nothing, if the map is shared; the only caller of a [`Space`](crate::Space)
    /// invalidates the range in any case.
    ///
    /// A kernel that has invalidated the range itself need not call this, but until then the range counts as pending.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half.
    pub fn flush(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.tables().span(va, pages)? else { return Ok(()) };
        let (caller, reserve) = (self.caller, Reserve::new(self.caller.platform));
        G::flush(caller.owner, caller.platform, span, |cover| caller.editor(cover, &reserve));
        Ok(())
    }

    /// Maps `pages` pages from `va` on to consecutive physical memory from `oa` on. The range must be unmapped.
    ///
    /// Uses the largest leaves, or pages under [`Policy::Pages`](crate::Policy::Pages). Nothing is invalidated.
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
    pub unsafe fn map(
        &mut self,
        va: Va,
        pages: u64,
        oa: Pa,
        attributes: Attributes,
    ) -> Result<(), ChangeError> {
        let leaves = self.tables().leaves();
        self.map_in((va, pages), (oa, attributes), leaves)
    }

    /// Maps pages in these leaves.
    ///
    /// # Errors
    ///
    /// As for [`map`](Self::map); memory that walkers would update.
    pub(crate) fn map_in(
        &mut self,
        (va, pages): Pages,
        (oa, attributes): (Pa, Attributes),
        leaves: Leaves,
    ) -> Result<(), ChangeError> {
        let (tables, g) = (self.tables(), self.tables().geometry());
        let Some(span) = tables.owned_span(va, pages)? else { return Ok(()) };
        if oa.0 & (g.page_size() - 1) != 0 {
            return Err(ChangeError::Unaligned(Unaligned::Pa(oa)));
        }
        if oa.0.checked_add(span.last - span.first).is_none_or(|last| last >> g.oa_bits() != 0) {
            return Err(ChangeError::OutputAddress { oa, pages, bits: g.oa_bits() });
        }
        if attributes.is_write_execute() && !tables.allows_write_execute() {
            return Err(ChangeError::WriteExecute { va });
        }
        if attributes.is_hardware_updated() && tables.expects_hardware_updates() {
            return Err(ChangeError::HardwareUpdated { va });
        }
        let mapping = Mapping { half: tables.half(), span, oa, attributes, leaves };
        if in_one_hold::<G>(self.caller.platform, self.caller.owner, &mapping)? {
            Ok(())
        } else {
            mapping.map(self.caller)
        }
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
    pub unsafe fn unmap(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.owned((va, pages))? else { return Ok(()) };
        unmap(self.caller, span)
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
    pub unsafe fn unmap_all(&mut self, ranges: &[(Va, u64)]) -> Result<(), ChangeError> {
        unmap_all(self.caller, ranges)
    }

    /// Gives back the empty table that [`unmap_all`](Self::unmap_all) has left, if there is one and it is still empty: for a kernel
    /// that is short of memory.
    pub fn trim(&mut self) {
        trim(self.caller);
    }

    /// Splits everything from `va` on, for `pages` pages, into single pages, so that any of them can change later
    /// without a change of size. Translations stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect). Under [`Policy::Park`](crate::Policy::Park) the CPUs are parked once for each leaf, and once
    /// before that, to test whether they park. If one of them stops answering half way, the leaves that were split stay
    /// split.
    #[inline(never)]
    pub fn split_to_pages(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.owned((va, pages))? else { return Ok(()) };
        split_to_pages(self.caller, span)
    }

    /// Returns to the largest leaves where `pages` pages from `va` on, with their neighbours in the same tables, are
    /// uniform again, and gives back the tables. Translations stay as they are.
    ///
    /// Leaves that are not valid stay as they are: no TLB holds them, and the caller that took them out puts them back page
    /// by page, perhaps where no memory can be had for a split.
    ///
    /// A table with restrictions goes only if a new one would get them
    /// ([`set_table_attributes`](crate::Tables::set_table_attributes)), and if they remove nothing from the leaf in its place.
    ///
    /// Nothing collapses if the policy or the CPUs do not permit live changes of size.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half; CPUs that cannot be parked. Tables that had collapsed by then
    /// stay collapsed.
    #[inline(never)]
    pub fn collapse(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.owned((va, pages))? else { return Ok(()) };
        collapse(self.caller, span)
    }

    /// Splits everything from `va` on, for `pages` pages, into single pages that stay single: no collapse merges them before
    /// they are [unpinned](Self::unpin). So a later change of some of them needs neither table pages nor a change of size.
    ///
    /// The leaves themselves say so, by [`Attributes::STAYS_SPLIT`], so pins are not counted, and an unmapped page has none.
    ///
    /// # Errors
    ///
    /// As for [`split_to_pages`](Self::split_to_pages). Nothing is pinned then.
    pub fn pin(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.owned((va, pages))? else { return Ok(()) };
        // What cannot be split is refused before anything is marked. After that only a collapse may have come between.
        split_to_pages(self.caller, span)?;
        self.stay_split(span, (0, Attributes::STAYS_SPLIT.bits()))?;
        split_to_pages(self.caller, span)
    }

    /// Lets the pages of a range be merged again, pinned or mapped in pages for other reasons. Holes are left out.
    ///
    /// # Errors
    ///
    /// A range that is unaligned, outside the half or not all of this map's; a claim in the way. If the range begins or ends
    /// within a leaf, all of [`protect`](Self::protect)'s.
    pub fn unpin(&mut self, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.owned((va, pages))? else { return Ok(()) };
        self.stay_split(span, (Attributes::STAYS_SPLIT.bits(), 0))
    }

    /// Clears and sets a bit that hardware ignores.
    fn stay_split(&self, span: Span, bits: (u64, u64)) -> Result<(), ChangeError> {
        let change = LeafChange { skip_holes: true, ..LeafChange::of_bits(bits) };
        protect(self.caller, (change, false, span))
    }

    /// Returns a range of this map, or `None` if it has no pages.
    fn owned(&self, (va, pages): Pages) -> Result<Option<Span>, ChangeError> {
        self.tables().owned_span(va, pages)
    }

    /// Calls `work` with a reader of the map, while others may change it ([`Sharing::read`](crate::Sharing::read)).
    /// `work` must not change a map.
    #[inline]
    #[expect(private_bounds, reason = "it is the platform that the caller gave")]
    pub fn read<R>(&self, work: impl FnOnce(&Reader<'_, G::Platform>) -> R) -> R {
        let Caller { platform, owner } = &self.caller;
        G::read(platform, || work(&Reader::new(G::tables_of(owner), G::versions(owner), *platform)))
    }

    /// Builds a tree off line that has the same entries from `first` to `last`: leaves of the same sizes, valid or
    /// present-invalid, and tables with the same attributes. A leaf or run that is partly in the range is copied as a whole. The
    /// copy owns its tables, which are pages of the same memory. They are taken while no lock is held, and outside
    /// [`Sharing::read`](crate::Sharing::read).
    ///
    /// So a kernel makes tables that stay as they are while its own are overwritten: to resume from hibernation, or to
    /// start another kernel. It takes a few instructions a leaf, wherever in memory each is.
    ///
    /// # Errors
    ///
    /// Out of frames. Every frame has been given back.
    pub fn copy(&self, range: (Va, Va)) -> Result<Tree, BuildError> {
        copy(self.caller, range)
    }
}

/// An address, and a number of pages from there on.
pub(crate) type Pages = (Va, u64);

/// Begins a change of permissions, validity, or both.
///
/// # Errors
///
/// A range that is unaligned or outside the half; a change that walkers may undo; as for [`protect`].
#[inline(never)]
fn begin<G: Guard>(
    platform: &G::Platform,
    owner: G::Owner,
    (va, pages): Pages,
    change: Change,
    flags: ChangeFlags,
) -> Result<(), ChangeError> {
    // In parts, so that they are passed in registers.
    let caller = Caller::<G> { platform, owner };
    let tables = caller.tables();
    let Some(span) = tables.span(va, pages)? else { return Ok(()) };
    tables.may_change(change, va)?;
    let later = flags.contains(ChangeFlags::LATER);
    protect(caller, (tables.leaf_change_with(change, flags), later, span))
}
