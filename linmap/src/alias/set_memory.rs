//! rodata=full: what becomes read-only anywhere becomes read-only in the linear map, and writable again with it.
//!
//! An area that is mapped at will has pages of RAM, each of which the linear map has as well: its *alias*. How both
//! change is in `sides.rs`: the aliases before the area where something is taken away, after it where something is
//! given. So there is no moment at which a page that is read-only in the area can be written through its alias, by
//! what the tables say or by what a TLB holds.

use crate::alias::both_sides::{BothSides, Findings};
use crate::format::{Change, Va};
use crate::live::{AddressSpace, ChangeError};
use crate::plan::{Rodata, linear_range};
use crate::platform::Platform;

/// An area whose pages the linear map has as well, and how their permissions change.
///
/// All methods are all or nothing, as those of [`AddressSpace`] are, but where CPUs stop to park half way
/// ([`set_memory_ro`](Self::set_memory_ro)). They cost what
/// [`protect`](AddressSpace::protect) does, on both sides: two batches of invalidations where aliases change, one
/// where none do.
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{AddressSpace, Aliased, Attributes, Geometry, Granule, Half, OaFormat, Pa, Policy, Rodata, Tree, Va};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 100);
/// let platform = memory.platform();
/// let space = AddressSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty())?);
/// space.set_policy(Policy::Live);
/// let (linear, area) = (linmap::linear_range(g).0, Va(0xffff_8000_0000_0000));
/// // SAFETY (of this and what follows): no CPU uses these tables.
/// unsafe {
///     space.map(&platform, linear, 1 << 18, Pa(0), Attributes::RAM)?;
///     space.map(&platform, area, 3, Pa(0x5000), Attributes::RAM)?;
///     let aliased = Aliased::new(&space, linear.0, Rodata::Full);
///     aliased.set_memory_ro(&platform, area, 3)?;
/// }
/// // The 1G block is split: 3 pages of it are read-only now, too.
/// assert_eq!(space.changes(&platform).splits, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Aliased<'a> {
    space: &'a AddressSpace,
    offset: u64,
    rodata: Rodata,
}

/// What becomes of aliases, and when.
#[derive(Clone, Copy)]
enum Alias {
    /// Something is taken away: before it is taken from the area.
    First(Change),
    /// Something is given: after the area has it.
    Last(Change),
}

impl<'a> Aliased<'a> {
    /// An area of this address space, which has the linear map as well. `offset` is what to add to a physical
    /// address to get its linear one, wrapping ([`Layout::offset`](crate::Layout::offset)). Aliases follow with
    /// [`Rodata::Full`] alone.
    pub const fn new(space: &'a AddressSpace, offset: u64, rodata: Rodata) -> Self {
        Self { space, offset, rodata }
    }

    /// Makes `pages` pages from `va` on read-only, and their aliases.
    ///
    /// # Errors
    ///
    /// As for [`AddressSpace::protect`], of the area as of the aliases. Memory that the linear map does not have has
    /// no alias; but pages in a row of which it has some and not others are refused, as a hole. Then nothing has
    /// changed, and what was split beforehand is split.
    ///
    /// Where more than eight leaves have to be split, table pages are taken until the call returns: one, and one for each
    /// 127 leaves at 4K pages, 511 at 16K, 2,047 at 64K. Under
    /// [`Policy::Park`](crate::Policy::Park) CPUs are parked once for each 16 leaves that are split. If they refuse after
    /// the first time, the leaves of the parkings before stay split, and translate as they did.
    ///
    /// # Safety
    ///
    /// As for [`AddressSpace::protect`], for the pages by either address.
    pub unsafe fn set_memory_ro<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
    ) -> Result<(), ChangeError> {
        let alias = Alias::First(Change::READ_ONLY);
        // SAFETY: the caller's promise.
        unsafe { self.change(platform, (va, pages), Change::READ_ONLY, alias) }
    }

    /// Makes pages writable, and then their aliases. Not while they are executable.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    pub unsafe fn set_memory_rw<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
    ) -> Result<(), ChangeError> {
        let alias = Alias::Last(Change::WRITABLE);
        // SAFETY: the caller's promise.
        unsafe { self.change(platform, (va, pages), Change::WRITABLE, alias) }
    }

    /// Makes pages executable, which are read-only. Their aliases stay as they are. For pages that hold new code,
    /// [`set_memory_rox`](Self::set_memory_rox) is right.
    ///
    /// # Errors
    ///
    /// As for [`AddressSpace::protect`].
    ///
    /// # Safety
    ///
    /// As for [`AddressSpace::protect`].
    pub unsafe fn set_memory_x<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
    ) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.space.protect(platform, va, pages, Change::EXECUTABLE) }
    }

    /// Makes pages not executable. Their aliases stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`AddressSpace::protect`].
    ///
    /// # Safety
    ///
    /// As for [`AddressSpace::protect`].
    pub unsafe fn set_memory_nx<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
    ) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.space.protect(platform, va, pages, Change::NOT_EXECUTABLE) }
    }

    /// Makes pages that were written read-only and executable at once, their aliases read-only before, and
    /// instruction caches coherent with what is in them ([`Hardware::sync_code`](crate::Hardware::sync_code)). On
    /// return this CPU may execute them; another one after its next context synchronisation event.
    ///
    /// # Errors
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    ///
    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro); and all of the pages are valid, since caches are maintained by
    /// their addresses.
    pub unsafe fn set_memory_rox<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
    ) -> Result<(), ChangeError> {
        let (code, alias) = (Change::READ_ONLY.and(Change::EXECUTABLE), Alias::First(Change::READ_ONLY));
        // SAFETY: the caller's promise.
        unsafe { self.change(platform, (va, pages), code, alias)? };
        platform.sync_code(va, pages << self.space.geometry().page_shift());
        Ok(())
    }

    /// Makes pages invalid, or valid again. Their aliases stay as they are.
    ///
    /// # Errors
    ///
    /// As for [`AddressSpace::set_valid`].
    ///
    /// # Safety
    ///
    /// As for [`AddressSpace::set_valid`].
    pub unsafe fn set_memory_valid<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        pages: u64,
        valid: bool,
    ) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        unsafe { self.space.set_valid(platform, va, pages, valid) }
    }

    /// # Safety
    ///
    /// As for [`set_memory_ro`](Self::set_memory_ro).
    unsafe fn change<P: Platform>(
        &self,
        platform: &P,
        (va, pages): (Va, u64),
        change: Change,
        alias: Alias,
    ) -> Result<(), ChangeError> {
        // The lower half has no linear map.
        if self.rodata != Rodata::Full || self.space.state().base() != linear_range(self.space.geometry()).0.0
        {
            // SAFETY: the caller's promise.
            return unsafe { self.space.protect(platform, va, pages, change) };
        }
        let Some(span) = self.space.state().span(va, pages)? else { return Ok(()) };
        let (Alias::First(follows) | Alias::Last(follows)) = alias;
        let _held = platform.lock();
        self.space.state().dirty.mark(span);
        let state = self.space.state();
        let (area, aliases) = (state.leaf_change(change), state.leaf_change(follows));
        let (locked, offset) = (self.space.locked(platform), self.offset);
        let sides = BothSides { locked, offset, span, area, aliases };
        let mut found = Findings::default();
        sides.survey(&mut found)?;
        sides.cut(&found)?;
        match alias {
            Alias::First(_) => {
                sides.change_aliases(&found);
                sides.change_area(&found);
            }
            Alias::Last(_) => {
                sides.change_area(&found);
                sides.change_aliases(&found);
            }
        }
        Ok(())
    }
}
