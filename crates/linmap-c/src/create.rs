//! Calls that make a map.

use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use linmap::arch::TableAttributes;
use linmap::{Geometry, Granule, Half, OaFormat, Pa, Policy, Stats, Tree, Va};

use crate::errno::{Errno, Invalid, LINMAP_EINVAL, answer};
use crate::map::{Map, READY, Shared};
use crate::platform::{ByLevel, Kernel};
use crate::regions::{self, checked};
use crate::types::*;

/// All bits of a promise.
const PROMISES: u32 = LINMAP_NEVER_ABORTS | LINMAP_RANGE_TLBI | LINMAP_REPEAT_TLBI | LINMAP_PARKS;

/// Returns the policy that follows from a promise.
pub(crate) const fn policy(promise: u32) -> Policy {
    if promise & LINMAP_NEVER_ABORTS != 0 {
        Policy::Live
    } else if promise & LINMAP_PARKS != 0 {
        Policy::Park
    } else {
        Policy::Pages
    }
}

/// Returns a promise, if all its bits are known.
pub(crate) fn promise(bits: u32) -> Result<u32, Invalid> {
    if bits & !PROMISES == 0 { Ok(bits) } else { Err(Invalid) }
}

/// Returns the geometry of a caller, the half, and what new tables have.
///
/// # Errors
///
/// No memory, or no such geometry.
///
/// # Safety
///
/// The pointer is null or that of a geometry.
unsafe fn geometry_of(geometry: *const LinmapGeometry) -> Result<(Geometry, Half, TableAttributes), Invalid> {
    if geometry.is_null() || !geometry.is_aligned() {
        return Err(Invalid);
    }
    // SAFETY: the caller's promise.
    let of = unsafe { *geometry };
    let LinmapGeometry { page_shift, va_bits, oa_format, max_leaf_shift, lower, table_attributes } = of;
    let granule = Granule::BUILT.iter().copied().find(|granule| granule.page_shift() == page_shift);
    let format = match oa_format {
        LINMAP_OA_48 => OaFormat::Bits48,
        LINMAP_OA_LPA => OaFormat::Lpa,
        LINMAP_OA_LPA2 => OaFormat::Lpa2,
        _ => return Err(Invalid),
    };
    let half = match lower {
        0 => Half::Upper,
        1 => Half::Lower,
        _ => return Err(Invalid),
    };
    let geometry = Geometry::new(granule.ok_or(Invalid)?, va_bits, format).map_err(|_| Invalid)?;
    let geometry = match max_leaf_shift {
        0 => geometry,
        shift if shift < page_shift => return Err(Invalid),
        shift => geometry.with_largest_leaf(1u64.checked_shl(shift).unwrap_or(u64::MAX)),
    };
    let tables = TableAttributes::from_bits(table_attributes).ok_or(Invalid)?;
    Ok((geometry, half, tables))
}

/// Returns the number of table pages that linmap_create takes for these regions, or a negative error: the order and
/// the addresses of the regions are judged as by linmap_create. The root is one of them.
///
/// # Safety
///
/// The pointers are those of a geometry and of so many regions, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_tables_needed(
    geometry: *const LinmapGeometry,
    regions: *const LinmapRegion,
    count: usize,
) -> i64 {
    // SAFETY: the caller's promise.
    let arguments = unsafe { geometry_of(geometry) }.and_then(|(geometry, half, _)| {
        // SAFETY: the caller's promise.
        Ok((geometry, half, unsafe { checked(geometry, regions, count) }?))
    });
    let Ok((geometry, half, regions)) = arguments else { return -i64::from(LINMAP_EINVAL) };
    if let Err(error) = regions::in_order(geometry, half, regions) {
        return -i64::from(error.errno());
    }
    let runs = regions::of(regions).flat_map(|region| region.runs(geometry));
    Stats::of_runs(geometry, runs).tables as i64
}

/// The arguments of a call that makes a map.
struct New {
    map: *mut Map,
    half: Half,
    tables: TableAttributes,
    promise: u32,
    offset: u64,
    geometry: Geometry,
}

impl New {
    /// Checks the arguments.
    ///
    /// # Errors
    ///
    /// One that is impossible.
    ///
    /// # Safety
    ///
    /// As for [`geometry_of`].
    unsafe fn checked(
        map: *mut Linmap,
        geometry: *const LinmapGeometry,
        offset: u64,
        promise: u32,
    ) -> Result<Self, Invalid> {
        // SAFETY: the caller's promise.
        let (geometry, half, tables) = unsafe { geometry_of(geometry) }?;
        if map.is_null() || !map.is_aligned() || offset & (geometry.page_size() - 1) != 0 {
            return Err(Invalid);
        }
        Ok(Self { map: map.cast(), half, tables, promise: self::promise(promise)?, offset, geometry })
    }

    fn kernel(&self) -> Kernel<ByLevel> {
        Kernel::new(self.geometry, self.offset, self.promise, true).by_level()
    }

    /// Writes the map, in which `make` makes the address space, since that is larger than some stacks.
    ///
    /// # Safety
    ///
    /// The pointer is that of memory for a map, which nothing else uses.
    unsafe fn write<E>(
        self,
        make: impl FnOnce(&mut MaybeUninit<Shared>) -> Result<&mut Shared, E>,
    ) -> Result<(), E> {
        let Self { map, tables, promise, offset, .. } = self;
        // SAFETY: the caller's promise; `Map` is not larger. It is used by others only once it is ready.
        unsafe {
            let space = make(&mut *addr_of_mut!((*map).space).cast())?;
            space.set_policy(policy(promise));
            space.set_table_attributes(tables);
            addr_of_mut!((*map).promise).write(AtomicU32::new(promise));
            addr_of_mut!((*map).offset).write(AtomicU64::new(offset));
            (*map).ready.store(READY, Release);
        }
        Ok(())
    }
}

/// Makes an empty map: a root table, from linmap_table_alloc. From then on, tables are reached at their physical address plus
/// table_offset, wrapping, but for new ones (linmap_table_map). `promise` is what all CPUs promise that use the map now
/// (linmap_promise). Returns 0 or a negative error.
///
/// # Safety
///
/// - `map` is memory for a struct linmap, which nothing else uses yet, and `geometry` is null or that of a geometry.
/// - The functions of the kernel keep what this header says of them. The pages of linmap_table_alloc are RAM that is mapped
///   at the offset, writable, as normal memory, before they are used in a call other than linmap_init, linmap_adopt and
///   linmap_create.
/// - All CPUs keep the promise.
/// - No CPU writes to the tables: TCR_EL1.HA and HD are 0 or find nothing to do, since every leaf has the access flag and
///   none is read-only with DBM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_init(
    map: *mut Linmap,
    geometry: *const LinmapGeometry,
    table_offset: u64,
    promise: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    let Ok(new) = (unsafe { New::checked(map, geometry, table_offset, promise) }) else {
        return -LINMAP_EINVAL;
    };
    let tree = Tree::empty(&new.kernel(), new.geometry, new.half);
    // SAFETY: the caller's promise.
    answer(tree.and_then(|tree| unsafe { new.write(|space| Ok(Shared::adopt_in(space, tree))) }))
}

/// Makes a map of a part of a root that CPUs use already and that others use too, such as the kernel's first root: the
/// addresses of `range`, which consists of whole entries of the root. Tables that are there are counted. The root stays where
/// it is; its entries are stored by linmap_root_set alone. All else is as for linmap_init.
///
/// # Safety
///
/// As for linmap_init. `root` is the physical address of that root, and it and its tables are reached at the offset. Others
/// store to no entry of the root in the range, and leave its tables alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_adopt(
    map: *mut Linmap,
    geometry: *const LinmapGeometry,
    table_offset: u64,
    promise: u32,
    root: u64,
    range: *const LinmapRange,
) -> i32 {
    // SAFETY: the caller's promise.
    let checked = unsafe { New::checked(map, geometry, table_offset, promise) };
    let Ok(new) = checked else { return -LINMAP_EINVAL };
    if range.is_null() || !range.is_aligned() || root & (new.geometry.page_size() - 1) != 0 {
        return -LINMAP_EINVAL;
    }
    // SAFETY: the caller's promise.
    let LinmapRange { first, last } = unsafe { *range };
    let (kernel, of, range) = (new.kernel(), (new.geometry, new.half), (Va(first), Va(last)));
    // SAFETY: the caller's promise.
    let written =
        unsafe { new.write(|space| Shared::from_shared_root_in(space, &kernel, of, Pa(root), range)) };
    answer(written)
}

/// Adds regions to a map. They are in the order of their addresses, and no entry of the root between the first and the last
/// of them is in use. The tables are built before any CPU sees them; nothing is invalidated. Returns 0 or a negative error;
/// nothing has changed then.
///
/// # Safety
///
/// The map is one, and there are so many regions. Their memory may be accessed as their attributes permit, through these
/// addresses and through all others that map it: there are no mismatched memory types.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_create(map: *mut Linmap, regions: *const LinmapRegion, count: usize) -> i32 {
    // SAFETY: the caller's promise.
    let checked = unsafe { Map::of(map) }.and_then(|map| {
        // SAFETY: the caller's promise.
        Ok((map, map.kernel(0)?.by_level(), unsafe { checked(map.geometry(), regions, count) }?))
    });
    let Ok((map, kernel, regions)) = checked else { return -LINMAP_EINVAL };
    if regions.is_empty() {
        return 0;
    }
    // SAFETY: the caller's promise.
    answer(unsafe { map.space.on(&kernel).create_regions(regions::of(regions)) }.map(|_| ()))
}

/// Returns the physical address of the root table, for a TTBR, or 0 if the map was not initialised. linmap_repaint changes
/// it, except after linmap_adopt.
///
/// # Safety
///
/// The map is one, or all zero, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_root(map: *const Linmap) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { Map::of(map) }.map_or(0, |map| map.space.root().0)
}

/// From now on all table pages are reached at another offset, for example because the linear map exists. Returns 0 or a
/// negative error.
///
/// # Safety
///
/// As for linmap_init, for all pages of the map. No other call is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_move_tables(map: *mut Linmap, table_offset: u64) -> i32 {
    // SAFETY: the caller's promise.
    let moved = unsafe { Map::of(map) }.and_then(|map| {
        if table_offset & (map.geometry().page_size() - 1) != 0 {
            return Err(Invalid);
        }
        map.offset.store(table_offset, Relaxed);
        Ok(())
    });
    answer(moved)
}
