//! Creation of the linear map in a live address space.

use crate::build::Tree;
use crate::edit::CreateError;
use crate::format::Half;
use crate::plan::{Layout, Leaves, Region, Stats};
use crate::platform::Platform;
use crate::share::shared_space::SharedSpace;

/// Creates the linear map in a live address space that has nothing mapped there yet. Returns the counts of what was
/// added.
///
/// The tree is built off line in one pass and published by one store for each entry of the root: no TLBI, two DSB and
/// one ISB, whatever the size of RAM. Another CPU that uses the tables already needs a context synchronisation event
/// before it uses the linear map, as [`SharedSpace::map`] says.
///
/// # Errors
///
/// Out of frames; an existing mapping in the range; a layout of another geometry or page size. The address space is
/// then as before, and every frame has been given back.
///
/// # Safety
///
/// The ranges that the layout calls RAM are RAM, and may be read and written through the linear map as well as through
/// all other addresses that map them: none of these has another memory type, and nothing depends on the memory not
/// being written.
pub unsafe fn create<P: Platform, const LOCKS: usize>(
    space: &SharedSpace<LOCKS>,
    platform: &P,
    layout: &Layout<'_>,
    leaves: Leaves,
) -> Result<Stats, CreateError> {
    let tree = tree_of(space, platform, layout, leaves)?;
    // SAFETY: the caller's promise; the layout's leaves have the memory types that the caller chose, and none is executable.
    Ok(unsafe { space.graft(platform, tree) }?)
}

/// Does the same for a caller who has the address space alone, as the first CPU of a kernel does: no lock is taken.
///
/// # Errors
///
/// As for [`create`].
///
/// # Safety
///
/// As for [`create`].
pub unsafe fn create_alone<P: Platform, const LOCKS: usize>(
    space: &mut SharedSpace<LOCKS>,
    platform: &P,
    layout: &Layout<'_>,
    leaves: Leaves,
) -> Result<Stats, CreateError> {
    let tree = tree_of(space, platform, layout, leaves)?;
    // SAFETY: as above.
    Ok(unsafe { space.graft_alone(platform, tree) }?)
}

/// Builds the tree of a layout.
// Inlined, as all that is done with it: otherwise the tree is copied at each step.
#[inline(always)]
fn tree_of<P: Platform, const LOCKS: usize>(
    space: &SharedSpace<LOCKS>,
    platform: &P,
    layout: &Layout<'_>,
    leaves: Leaves,
) -> Result<Tree, CreateError> {
    let (geometry, tables) = (layout.geometry(), space.table_attributes());
    Ok(Tree::of_regions(platform, geometry, Half::Upper, tables, layout.regions(leaves))?)
}

/// Creates mappings of the caller's own choice in a live address space: each region has its addresses, attributes and
/// leaf sizes. Returns the counts of what was added. Everything else is as in [`create`].
///
/// So a kernel makes a linear map whose layout it knows already, with several parts that have attributes of their own. A
/// region shares no leaf with its neighbours, even if they continue it: the alias of the kernel's text, as a region of its
/// own, becomes read-only later without a change of size. A region in pages ([`Leaves::Pages`]) stays in pages
/// ([`Attributes::STAYS_SPLIT`](crate::Attributes::STAYS_SPLIT)). [`Stats::of_runs`] of the regions' runs counts what it takes.
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{SharedSpace, Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Region, Tree, Va, create_regions};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?.with_largest_leaf(30);
/// let memory = HostMemory::new(g, 16);
/// let platform = memory.platform();
/// let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, core::iter::empty())?);
/// let at = |pa: u64| Va(g.base(Half::Upper) | pa);
/// let region = |pa: core::ops::Range<u64>, attributes| Region::new(at(pa.start), Pa(pa.start), pa.end - pa.start, attributes);
/// let text = 0x4021_0000..0x4024_0000;
/// let regions = [
///     region(0x4000_0000..text.start, Attributes::RAM),
///     region(text.clone(), Attributes::KERNEL_DATA),
///     region(text.end..0x8000_0000, Attributes::RAM),
/// ];
/// // SAFETY: no CPU uses these tables.
/// unsafe { create_regions(&space, &platform, regions)? };
///
/// // No leaf changes its size: it is possible under the policy `Fixed`.
/// // SAFETY: as above.
/// unsafe { space.protect(&platform, at(text.start), (text.end - text.start) >> 12, Change::READ_ONLY)? };
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Errors
///
/// Regions that are not in ascending address order, or overlap; memory that is both writable and executable, unless
/// [permitted](SharedSpace::allow_write_execute). All others as for [`create`]. The address space is then as before, and
/// every frame has been given back.
///
/// # Safety
///
/// As for [`SharedSpace::map`], for each region.
pub unsafe fn create_regions<P: Platform, const LOCKS: usize>(
    space: &SharedSpace<LOCKS>,
    platform: &P,
    regions: impl IntoIterator<Item = Region>,
) -> Result<Stats, CreateError> {
    let (g, half) = (space.geometry(), space.tables().half());
    let regions = regions.into_iter().map(Region::that_stays);
    let tree = Tree::of_regions(platform, g, half, space.table_attributes(), regions)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { space.graft(platform, tree) }?)
}
