//! An address space of one caller at a time: exclusive by its borrow.

use crate::batch::TlbBatch;
use crate::build::{BuildError, Tree};
use crate::edit::call::Caller;
use crate::edit::cover::Cover;
use crate::edit::error::{ChangeError, GraftError};
use crate::edit::graft::graft;
use crate::edit::guard::Alone;
use crate::edit::reader::Reader;
use crate::edit::reserve::Reserve;
use crate::edit::tables::Tables;
use crate::format::{Attributes, Change, ChangeFlags, Geometry, Half, Pa, Span, TableAttributes, Va};
use crate::plan::{Policy, Stats};
use crate::platform::{Memory, Platform};

/// The live tables of one half of an address space that has one caller at a time.
///
/// The operations are those of [`SharedSpace`](crate::SharedSpace), and do the same to the tables. Nothing is locked, claimed or
/// counted: the borrow keeps others away, as a lock of the kernel's own does. All that it is besides its tables is
/// 64 bytes. Readers without a lock are not waited for either, so a table that is removed goes back to the memory at once
/// ([`Hardware::retire`](crate::Hardware::retire)).
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Policy, Space, Tree, Va};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 16);
/// let platform = memory.platform();
/// let mut space = Space::adopt(Tree::empty(&memory, g, Half::Lower)?);
/// space.set_policy(Policy::Live);
/// // SAFETY: no CPU uses these tables.
/// unsafe {
///     space.map(&platform, Va(0x20_0000), 512, Pa(0x4000_0000), Attributes::RAM)?;
///     space.protect(&platform, Va(0x20_3000), 1, Change::READ_ONLY)?;
/// }
/// assert_eq!(space.reader(&memory).translate(Va(0x20_3008)), Some(Pa(0x4000_3008)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Space {
    tables: Tables,
}

const _: () = assert!(size_of::<Space>() <= 64);

impl Space {
    /// Makes a tree live: from now on it belongs to the walkers. The caller then executes a DSB ISHST and loads
    /// [`root`](Self::root) into the TTBR of the tree's half. The policy is [`Policy::Fixed`].
    pub fn adopt(tree: Tree) -> Self {
        let (geometry, half) = (tree.geometry(), tree.half());
        Self::over((tree.into_root().into_pa(), geometry, half))
    }

    /// Takes over tables that walkers already use. Reads and changes nothing. The policy is [`Policy::Fixed`].
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size.
    ///
    /// # Safety
    ///
    /// As for [`SharedSpace::from_live`](crate::SharedSpace::from_live).
    pub unsafe fn from_live<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        root: Pa,
    ) -> Result<Self, BuildError> {
        Tree::fits(memory, geometry)?;
        Ok(Self::over((root, geometry, half)))
    }

    fn over(root: (Pa, Geometry, Half)) -> Self {
        let mut tables = Tables::BLANK;
        tables.begin(root);
        Self { tables }
    }

    /// Hands the tables back as a tree, which can be [discarded](Tree::discard) or published elsewhere. Reads all of
    /// them once.
    ///
    /// # Safety
    ///
    /// As for [`SharedSpace::into_tree`](crate::SharedSpace::into_tree).
    pub unsafe fn into_tree<M: Memory>(self, memory: &M) -> Tree {
        // SAFETY: the caller's promise. This value owned the tables, and is gone.
        unsafe { Tree::of_live(memory, (self.root(), self.geometry(), self.tables.half())) }
    }

    pub(crate) fn caller<'a, P: Platform>(&'a mut self, platform: &'a P) -> Caller<'a, Alone<'a, P>> {
        Caller { platform, owner: &self.tables }
    }

    /// Returns the address of the root table.
    pub fn root(&self) -> Pa {
        self.tables.root()
    }

    /// Returns the geometry of the tables.
    pub const fn geometry(&self) -> Geometry {
        self.tables.geometry()
    }

    /// Returns the first and the last address of the half.
    pub const fn range(&self) -> (Va, Va) {
        let Span { first, last } = self.tables.owned();
        (Va(first), Va(last))
    }

    /// Returns the policy for leaves in use that would have to change their size.
    pub fn policy(&self) -> Policy {
        self.tables.policy()
    }

    /// Sets the policy for leaves in use that would have to change their size.
    pub fn set_policy(&mut self, policy: Policy) {
        self.tables.set_policy(policy);
    }

    /// Permits memory that is both writable and executable, which is refused by default.
    pub fn allow_write_execute(&mut self, allow: bool) {
        self.tables.allow_write_execute(allow);
    }

    /// Sets what the descriptors of new tables have besides the address
    /// ([`SharedSpace::set_table_attributes`](crate::SharedSpace::set_table_attributes)).
    pub fn set_table_attributes(&mut self, attributes: TableAttributes) {
        self.tables.set_table_attributes(attributes);
    }

    /// Says that walkers update leaves
    /// ([`SharedSpace::expect_hardware_updates`](crate::SharedSpace::expect_hardware_updates)).
    pub fn expect_hardware_updates(&mut self, expect: bool) {
        self.tables.expect_hardware_updates(expect);
    }

    /// Counts on the restrictions in table descriptors
    /// ([`SharedSpace::count_on_table_limits`](crate::SharedSpace::count_on_table_limits)).
    pub fn count_on_table_limits(&mut self, count: bool) {
        self.tables.count_table_limits(count);
    }

    /// Returns a reader of the map: it walks, translates, counts, prints and checks. `memory` is the memory of the tables.
    pub const fn reader<'a, M: Memory>(&'a self, memory: &'a M) -> Reader<'a, M> {
        Reader::alone(&self.tables, memory)
    }

    /// Returns the largest number of table pages that a [`protect`](Self::protect), [`set_valid`](Self::set_valid) or
    /// [`unmap`](Self::unmap) may need, whatever its range and whatever leaves are there. See [`Reserved`](crate::Reserved).
    pub const fn most_tables(&self) -> u64 {
        self.tables.most_tables()
    }

    /// Changes the permissions of `pages` pages from `va` on, their validity, or both. A leaf that is partly in the range is split
    /// first. Present-invalid mappings change as well.
    ///
    /// # Errors
    ///
    /// As for [`SharedSpace::protect`](crate::SharedSpace::protect). Nothing has changed then.
    ///
    /// # Safety
    ///
    /// All users of these addresses expect the change: no CPU executes or writes memory that is no longer executable or
    /// writable, nor uses pages that become invalid. `platform` is the platform of the tables.
    pub unsafe fn protect<P: Platform>(
        &mut self,
        platform: &P,
        va: Va,
        pages: u64,
        change: Change,
    ) -> Result<(), ChangeError> {
        self.caller(platform).change((va, pages), change, ChangeFlags::empty())
    }

    /// Makes `pages` pages from `va` on invalid, so that every access faults, or valid again. What they map stays in the tables.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    ///
    /// # Safety
    ///
    /// As for [`protect`](Self::protect).
    pub unsafe fn set_valid<P: Platform>(
        &mut self,
        platform: &P,
        va: Va,
        pages: u64,
        valid: bool,
    ) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.protect(platform, va, pages, if valid { Change::VALID } else { Change::INVALID }) }
    }

    /// Gives `pages` pages from `va` on allocation tags, or takes them away.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect); [`ChangeError::NotNormal`] for memory of another type.
    ///
    /// # Safety
    ///
    /// As for [`SharedSpace::set_tagged`](crate::SharedSpace::set_tagged).
    pub unsafe fn set_tagged<P: Platform>(
        &mut self,
        platform: &P,
        va: Va,
        pages: u64,
        tagged: bool,
    ) -> Result<(), ChangeError> {
        self.caller(platform).set_tagged((va, pages), tagged)
    }

    /// Changes `pages` pages from `va` on as [`protect`](Self::protect) does, in the manner of these flags. With
    /// [`ChangeFlags::LATER`] nothing is invalidated: the caller [flushes](Self::flush) the range, or invalidates it himself.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect), but for a hole where `flags` say to skip it.
    ///
    /// # Safety
    ///
    /// As for [`protect`](Self::protect). With `LATER`, CPUs may use the old translations until the caller has invalidated them. This
    /// comes before any other operation on these addresses.
    pub unsafe fn change<P: Platform>(
        &mut self,
        platform: &P,
        va: Va,
        pages: u64,
        change: Change,
        flags: ChangeFlags,
    ) -> Result<(), ChangeError> {
        self.caller(platform).change((va, pages), change, flags)
    }

    /// Changes single pages, in any order, as [`change`](Self::change) does one range: all of them, or none. TLBs are invalidated
    /// once, at the end. The list is read several times.
    ///
    /// # Errors
    ///
    /// As for [`change`](Self::change), for any of the pages.
    ///
    /// # Safety
    ///
    /// As for [`change`](Self::change). `pages` and each clone of it yield the same pages.
    pub unsafe fn change_pages<P: Platform>(
        &mut self,
        platform: &P,
        pages: impl Iterator<Item = Va> + Clone,
        change: Change,
        flags: ChangeFlags,
    ) -> Result<(), ChangeError> {
        self.caller(platform).change_pages(pages, change, flags)
    }

    /// Invalidates all translations of `pages` pages from `va` on.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half.
    pub fn flush<P: Platform>(&mut self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        let Some(span) = self.tables.span(va, pages)? else { return Ok(()) };
        let (reserve, mut batch) = (Reserve::new(platform), TlbBatch::new());
        batch.add(span.first, span.last, self.geometry().page_shift());
        batch.finish(&self.caller(platform).editor(Cover::NOTHING, &reserve));
        Ok(())
    }

    /// Maps `pages` pages from `va` on to consecutive physical memory from `oa` on. The range must be unmapped. Uses the largest
    /// leaves, or pages under [`Policy::Pages`]. Nothing is invalidated.
    ///
    /// # Errors
    ///
    /// As for [`SharedSpace::map`](crate::SharedSpace::map). Nothing has changed then.
    ///
    /// # Safety
    ///
    /// As for [`SharedSpace::map`](crate::SharedSpace::map).
    pub unsafe fn map<P: Platform>(
        &mut self,
        platform: &P,
        va: Va,
        pages: u64,
        oa: Pa,
        attributes: Attributes,
    ) -> Result<(), ChangeError> {
        let leaves = self.tables.leaves();
        self.caller(platform).map((va, pages), (oa, attributes), leaves)
    }

    /// Moves a tree of the same geometry and half into this address space, where the root has holes. Returns the counts of what was
    /// added.
    ///
    /// # Errors
    ///
    /// As for [`SharedSpace::graft`](crate::SharedSpace::graft). The tree is then discarded, and nothing has changed.
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map), for everything that the tree maps.
    pub unsafe fn graft<P: Platform>(&mut self, platform: &P, tree: Tree) -> Result<Stats, GraftError> {
        graft(self.caller(platform), tree)
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
    pub unsafe fn unmap<P: Platform>(&mut self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        self.caller(platform).unmap((va, pages))
    }

    /// Removes the mappings of several ranges of pages, as [`unmap`](Self::unmap) does for one, with one invalidation at the end.
    /// No leaf is split.
    ///
    /// # Errors
    ///
    /// As for [`unmap`](Self::unmap), for any of the ranges; [`ChangeError::NeedsResize`] for a leaf that is only partly in one.
    ///
    /// # Safety
    ///
    /// Nothing uses these addresses.
    pub unsafe fn unmap_all<P: Platform>(
        &mut self,
        platform: &P,
        ranges: &[(Va, u64)],
    ) -> Result<(), ChangeError> {
        self.caller(platform).unmap_all(ranges)
    }

    /// Splits everything from `va` on, for `pages` pages, into single pages. Translations stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    pub fn split_to_pages<P: Platform>(
        &mut self,
        platform: &P,
        va: Va,
        pages: u64,
    ) -> Result<(), ChangeError> {
        self.caller(platform).split_to_pages((va, pages))
    }

    /// Returns to the largest leaves where `pages` pages from `va` on, with their neighbours in the same tables, are
    /// uniform again, and gives back the tables. Translations stay as they are.
    ///
    /// # Errors
    ///
    /// A range that is unaligned or outside the half; CPUs that cannot be parked.
    pub fn collapse<P: Platform>(&mut self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        self.caller(platform).collapse((va, pages))
    }

    /// Splits everything from `va` on, for `pages` pages, into single pages that no collapse merges before they are
    /// [unpinned](Self::unpin).
    ///
    /// # Errors
    ///
    /// As for [`split_to_pages`](Self::split_to_pages).
    pub fn pin<P: Platform>(&mut self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        self.caller(platform).pin((va, pages))
    }

    /// Lets the pages of a range be merged again.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    pub fn unpin<P: Platform>(&mut self, platform: &P, va: Va, pages: u64) -> Result<(), ChangeError> {
        self.caller(platform).unpin((va, pages))
    }
}
