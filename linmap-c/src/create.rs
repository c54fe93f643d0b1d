//! Calls that make a map.

use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use linmap::{AddressSpace, CreateError, Geometry, Granule, Half, OaFormat, Policy, Stats, Tree};

use crate::errno::{Errno, Invalid, LINMAP_EINVAL, answer};
use crate::map::{Map, READY};
use crate::platform::Kernel;
use crate::regions::{checked, runs};
use crate::types::*;

/// All bits of a promise.
const PROMISES: u32 = LINMAP_NEVER_ABORTS | LINMAP_RANGE_TLBI | LINMAP_REPEAT_TLBI;

/// Returns the policy that follows from a promise.
pub(crate) const fn policy(promise: u32) -> Policy {
    if promise & LINMAP_NEVER_ABORTS != 0 { Policy::Live } else { Policy::Pages }
}

/// Returns a promise, if all its bits are known.
pub(crate) fn promise(bits: u32) -> Result<u32, Invalid> {
    if bits & !PROMISES == 0 { Ok(bits) } else { Err(Invalid) }
}

/// Returns the geometry of a caller, and the half.
///
/// # Errors
///
/// No memory, or no such geometry.
///
/// # Safety
///
/// The pointer is null or that of a geometry.
unsafe fn geometry_of(geometry: *const LinmapGeometry) -> Result<(Geometry, Half), Invalid> {
    if geometry.is_null() || !geometry.is_aligned() {
        return Err(Invalid);
    }
    // SAFETY: the caller's promise.
    let LinmapGeometry { page_shift, va_bits, oa_format, lower } = unsafe { *geometry };
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
    Ok((geometry, half))
}

/// Returns the number of table pages that linmap_create takes for these regions, or a negative error. The root is one of
/// them.
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
    let tables = unsafe { geometry_of(geometry) }.and_then(|(geometry, _)| {
        // SAFETY: the caller's promise.
        let regions = unsafe { checked(geometry, regions, count) }?;
        Ok(Stats::of_runs(geometry, runs(geometry, regions)).tables)
    });
    tables.map_or(-i64::from(LINMAP_EINVAL), |tables| tables as i64)
}

/// Makes an empty map: a root table, from linmap_table_alloc. All table pages are reached at their physical address plus
/// table_offset, wrapping. `promise` is what all CPUs promise that use the map now (linmap_promise). Returns 0 or a negative
/// error.
///
/// # Safety
///
/// - `map` is memory for a struct linmap, which nothing else uses yet, and `geometry` is null or that of a geometry.
/// - The functions of the kernel keep what this header says of them. The pages of linmap_table_alloc are RAM that is mapped
///   at the offset, writable, as normal memory.
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
    let checked = unsafe { geometry_of(geometry) }.and_then(|of| Ok((of, self::promise(promise)?)));
    let Ok(((geometry, half), promise)) = checked else { return -LINMAP_EINVAL };
    if map.is_null() || !map.is_aligned() || table_offset & (geometry.page_size() - 1) != 0 {
        return -LINMAP_EINVAL;
    }
    let kernel = Kernel::new(geometry, table_offset, promise, true);
    let tree = match Tree::build(&kernel, geometry, half, core::iter::empty()) {
        Ok(tree) => tree,
        Err(error) => return -error.errno(),
    };
    let new = map.cast::<Map>();
    // SAFETY: memory for a map, by the caller's promise; `Map` is not larger. It is used by others only once it is ready.
    unsafe {
        addr_of_mut!((*new).promise).write(AtomicU32::new(promise));
        addr_of_mut!((*new).offset).write(AtomicU64::new(table_offset));
        addr_of_mut!((*new).half).write(half);
        addr_of_mut!((*new).space).write(AddressSpace::adopt(tree));
        (*new).space.set_policy(policy(promise));
        (*new).ready.store(READY, Release);
    }
    0
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
        Ok((map, map.kernel(0)?, unsafe { checked(map.geometry(), regions, count) }?))
    });
    let Ok((map, kernel, regions)) = checked else { return -LINMAP_EINVAL };
    if regions.is_empty() {
        return 0;
    }
    let geometry = map.geometry();
    let tree = Tree::build(&kernel, geometry, map.half, runs(geometry, regions));
    // SAFETY: the caller's promise.
    let grafted =
        tree.map_err(CreateError::from).and_then(|tree| Ok(unsafe { map.space.graft(&kernel, tree) }?));
    answer(grafted.map(|_| ()))
}

/// Returns the physical address of the root table, for a TTBR, or 0 if the map was not initialised.
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
