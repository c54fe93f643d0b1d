//! RAM that comes and goes.

use core::ops::Range;

use linmap::{Hotplug, Pa, Region};

use crate::change::on;
use crate::errno::Invalid;
use crate::map::Map;
use crate::platform::Kernel;
use crate::regions::{self, checked};
use crate::types::{LINMAP_LOCKS, Linmap, LinmapRegion};

/// Adds RAM: maps a region where nothing is mapped, in the largest leaves or, with LINMAP_PAGES, in pages, whatever all CPUs
/// promise. Large leaves merge at both ends with what was there, as far as the promises permit. Returns 0 or a negative
/// error; nothing has changed then.
///
/// Another CPU uses the addresses only after a context synchronisation event. Flags: LINMAP_ATOMIC.
///
/// # Safety
///
/// As for linmap_create. `region` is null or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_add(map: *mut Linmap, region: *const LinmapRegion, flags: u32) -> i32 {
    let work = |map: &Map, kernel: &Kernel| {
        // SAFETY: the caller's promise.
        let (mut hotplug, ram) = unsafe { hotplug(map, kernel, region) }?;
        // SAFETY: the caller's promise.
        Ok(unsafe { hotplug.add(ram) }?)
    };
    // SAFETY: the caller's promise.
    unsafe { on(map, flags, work) }
}

/// Removes RAM: a region that is mapped as linmap_add and linmap_create map it, all of it valid and with these attributes,
/// which is checked. The leaves may be of any size; one that reaches beyond the region is split. On return no TLB has any of
/// it; tables that become empty are retired. Returns 0 or a negative error; no translation has changed then. -EBUSY says
/// that a page of it is in use for something else: it is not valid, or has other attributes. Flags: LINMAP_ATOMIC.
///
/// # Safety
///
/// The map is one, `region` is null or a region. Nothing uses the addresses, and no memory of the region is a table page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_remove(map: *mut Linmap, region: *const LinmapRegion, flags: u32) -> i32 {
    let work = |map: &Map, kernel: &Kernel| {
        // SAFETY: the caller's promise.
        let (mut hotplug, ram) = unsafe { hotplug(map, kernel, region) }?;
        // SAFETY: the caller's promise.
        Ok(unsafe { hotplug.remove(ram) }?)
    };
    // SAFETY: the caller's promise.
    unsafe { on(map, flags, work) }
}

/// Returns the linear map that a region is a part of, and the RAM of the region.
///
/// # Errors
///
/// As for [`checked`].
///
/// # Safety
///
/// The pointer is null or that of a region, to which nothing writes meanwhile.
unsafe fn hotplug<'a>(
    map: &'a Map,
    kernel: &'a Kernel,
    region: *const LinmapRegion,
) -> Result<(Hotplug<'a, Kernel, LINMAP_LOCKS>, Range<Pa>), Invalid> {
    // SAFETY: the caller's promise.
    let checked = unsafe { checked(map.geometry(), region, 1) }?;
    let Region { va, oa, bytes, attributes, leaves } = regions::of(checked).next().ok_or(Invalid)?;
    // The last address may be the last of all.
    let end = oa.0.checked_add(bytes).ok_or(Invalid)?;
    let offset = va.0.wrapping_sub(oa.0);
    Ok((Hotplug::of(map.on(kernel), offset, oa..Pa(end), attributes).with_leaves(leaves), oa..Pa(end)))
}
