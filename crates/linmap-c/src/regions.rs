//! The regions of a caller as the library's, once they are checked.

use linmap::error::BuildError;
use linmap::{Attributes, Geometry, Half, Leaves, Pa, Region, Va};

use crate::errno::Invalid;
use crate::types::{LINMAP_PAGES, LinmapRegion};

/// The valid bit and the type of a descriptor, which the library knows from elsewhere.
const TYPE: u64 = 0b11;

/// Returns attributes as the library has them.
///
/// # Errors
///
/// A bit that is not an attribute: of the address, the contiguous bit, or one that is reserved.
pub(crate) fn attributes(bits: u64) -> Result<Attributes, Invalid> {
    Attributes::from_bits(bits & !TYPE).ok_or(Invalid)
}

/// Returns the regions of a caller.
///
/// # Errors
///
/// No memory; a region that the library would cut off, or with unknown bits.
///
/// # Safety
///
/// There are so many regions, and nothing writes to them meanwhile.
pub(crate) unsafe fn checked<'r>(
    geometry: Geometry,
    regions: *const LinmapRegion,
    count: usize,
) -> Result<&'r [LinmapRegion], Invalid> {
    if count == 0 {
        return Ok(&[]);
    }
    if regions.is_null() || !regions.is_aligned() {
        return Err(Invalid);
    }
    // SAFETY: the caller's promise.
    let regions = unsafe { core::slice::from_raw_parts(regions, count) };
    regions.iter().try_for_each(|region| check(geometry, region))?;
    Ok(regions)
}

fn check(geometry: Geometry, region: &LinmapRegion) -> Result<(), Invalid> {
    let LinmapRegion { va, pa, bytes, flags, .. } = *region;
    let unaligned = (va | pa | bytes) & (geometry.page_size() - 1) != 0;
    // The last address of the upper half is the last of all.
    let ends = bytes != 0 && va.checked_add(bytes - 1).is_some() && pa.checked_add(bytes - 1).is_some();
    attributes(region.attributes)?;
    if unaligned || !ends || flags & !LINMAP_PAGES != 0 { Err(Invalid) } else { Ok(()) }
}

/// Checks that regions are in a half and in ascending order, and their memory within what descriptors can express.
///
/// # Errors
///
/// Those of a creation, which judges the same.
pub(crate) fn in_order(geometry: Geometry, half: Half, regions: &[LinmapRegion]) -> Result<(), BuildError> {
    let (bytes_of_half, mut next) = (1u64 << geometry.va_bits(), 0);
    for &LinmapRegion { va, pa, bytes, .. } in regions {
        let offset = va.wrapping_sub(geometry.base(half));
        if offset >= bytes_of_half
            || bytes > bytes_of_half - offset
            || (pa + (bytes - 1)) >> geometry.oa_bits() != 0
        {
            return Err(BuildError::OutOfRange { va: Va(va) });
        }
        if offset < next {
            return Err(BuildError::Unordered { va: Va(va) });
        }
        next = offset + bytes;
    }
    Ok(())
}

/// Returns regions that have been checked as the library has them.
pub(crate) fn of(regions: &[LinmapRegion]) -> impl Iterator<Item = Region> {
    regions.iter().map(|region| {
        let leaves = if region.flags & LINMAP_PAGES == 0 { Leaves::Largest } else { Leaves::Pages };
        let attributes = Attributes::from_bits_truncate(region.attributes & !TYPE);
        Region { va: Va(region.va), oa: Pa(region.pa), bytes: region.bytes, attributes, leaves }
    })
}
