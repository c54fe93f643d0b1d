//! The memory of the firmware's runtime services, as they want it mapped: 1:1, each region as its descriptor says (UEFI
//! specification, section 7.2, `EFI_MEMORY_DESCRIPTOR`).

use core::fmt;

use arrayvec::ArrayVec;
use linmap::{Attributes, Leaves, MemoryType, Pa, Region, Va};

use super::memory_map::{Entry, MemoryMap};

/// The most regions: firmware has some twenty.
pub const MOST: usize = 128;

/// Memory or registers of runtime services, in whole pages, in order of address.
pub type Regions = ArrayVec<Region, MOST>;

/// `EFI_MEMORY_RUNTIME`, and the attributes that say how a region is mapped.
const RUNTIME: u64 = 1 << 63;
const WRITE_COMBINE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 2;
const WRITE_BACK: u64 = 1 << 3;
const NEVER_EXECUTED: u64 = 1 << 14;
const READ_ONLY: u64 = 1 << 17;

/// `EfiRuntimeServicesCode` and `EfiMemoryMappedIO`.
const CODE: u32 = 5;
const REGISTERS: u32 = 11;

/// The reason why runtime services cannot be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRuntime {
    /// The firmware's map has none.
    None,
    /// They have more than [`MOST`] separate regions.
    TooMany,
    /// At this address, memory of two types is in one page.
    Mixed(Pa),
}

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("the firmware's memory map has no runtime services"),
            Self::TooMany => {
                write!(f, "the firmware's runtime services have more than {MOST} regions of memory")
            }
            Self::Mixed(at) => write!(f, "the firmware has memory and registers in one page, at {at}"),
        }
    }
}

/// Returns the attributes of a descriptor's memory. Code may be written where firmware does not say otherwise, as it has its data
/// beside it.
fn attributes(entry: &Entry) -> Attributes {
    let has = |bit: u64| entry.attributes & bit != 0;
    let memory_type = match entry.kind {
        REGISTERS => MemoryType::DEVICE_NGNRE,
        _ if has(WRITE_BACK) => MemoryType::NORMAL,
        _ if has(WRITE_THROUGH) || has(WRITE_COMBINE) => MemoryType::NORMAL_NC,
        _ => MemoryType::DEVICE_NGNRE,
    };
    let is_memory = memory_type != MemoryType::DEVICE_NGNRE;
    let mut attributes = Attributes::KERNEL_DATA.of_type(memory_type);
    if entry.kind == CODE && is_memory && !has(NEVER_EXECUTED) {
        attributes = attributes.difference(Attributes::PXN);
    }
    if is_memory && has(READ_ONLY) {
        attributes = attributes.union(Attributes::READ_ONLY);
    }
    attributes
}

/// Returns the regions of runtime services in whole pages of so many bytes. A page that two share has what both may.
///
/// # Errors
///
/// There are none, too many, or two that cannot share their page.
pub fn regions(map: MemoryMap<'_>, page: u64) -> Result<Regions, NoRuntime> {
    let mut all = Regions::new();
    for entry in map.each().flatten().filter(|entry| entry.attributes & RUNTIME != 0) {
        let start = entry.range.start.0 & !(page - 1);
        // A page at the end of all addresses has no end, and is not mapped.
        let Some(end) = entry.range.end.0.checked_next_multiple_of(page) else { continue };
        let at = all.partition_point(|region| region.oa.0 < start);
        let region = Region {
            va: Va(start),
            oa: Pa(start),
            bytes: end - start,
            attributes: attributes(&entry),
            leaves: Leaves::Largest,
        };
        all.try_insert(at, region).map_err(|_| NoRuntime::TooMany)?;
    }
    let mut merged = Regions::new();
    for region in all {
        match merged.last_mut() {
            Some(last) if region.oa.0 < last.oa.0 + last.bytes => join(last, &region)?,
            // There is room: no more than before.
            _ => merged.push(region),
        }
    }
    if merged.is_empty() { Err(NoRuntime::None) } else { Ok(merged) }
}

/// Adds a region to one that it shares a page with.
fn join(last: &mut Region, region: &Region) -> Result<(), NoRuntime> {
    if last.attributes.memory_type() != region.attributes.memory_type() {
        return Err(NoRuntime::Mixed(region.oa));
    }
    // Either restriction is lifted where one of the two has not got it.
    let restrictions = Attributes::READ_ONLY.union(Attributes::PXN);
    let lifted = |of: Attributes| restrictions.difference(of);
    last.attributes = last.attributes.difference(lifted(last.attributes).union(lifted(region.attributes)));
    last.bytes = last.bytes.max(region.oa.0 + region.bytes - last.oa.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;
    use test_support::prelude::*;

    const WB: u64 = RUNTIME | WRITE_BACK;
    const DATA: u32 = 6;
    const RWX: Attributes = Attributes::KERNEL_DATA.difference(Attributes::PXN);

    /// Writes descriptors of 48 bytes: type, first page, pages, attributes.
    fn map(all: &[(u32, u64, u64, u64)]) -> Vec<u8> {
        let words = all.iter().flat_map(|(kind, start, pages, attributes)| {
            [u64::from(*kind), start * 4096, 0, *pages, *attributes, 0]
        });
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Returns first page, pages (of 4 KiB) and attributes of each region.
    fn read(all: &[(u32, u64, u64, u64)], page: u64) -> Result<Vec<(u64, u64, Attributes)>, NoRuntime> {
        let bytes = map(all);
        let regions = regions(MemoryMap::new(&bytes, 48).expect("a map"), page)?;
        assert!(regions.iter().all(|region| region.va.0 == region.oa.0));
        Ok(regions.iter().map(|r| (r.oa.0 / 4096, r.bytes / 4096, r.attributes)).collect())
    }

    #[test]
    fn each_is_mapped_as_its_descriptor_says() {
        let firmware = [
            (DATA, 90, 10, WB),
            (7, 0, 50, WRITE_BACK),
            (CODE, 50, 16, WB),
            (REGISTERS, 10, 1, RUNTIME | 1),
            (CODE, 66, 2, WB | READ_ONLY),
            (CODE, 68, 2, WB | NEVER_EXECUTED),
            (CODE, 70, 2, WB | NEVER_EXECUTED | READ_ONLY),
            (DATA, 100, 1, RUNTIME | WRITE_COMBINE),
            (DATA, 101, 1, RUNTIME),
        ];
        let data = Attributes::KERNEL_DATA;
        assert_eq!(
            read(&firmware, 4096),
            Ok(vec![
                (10, 1, Attributes::DEVICE),
                (50, 16, RWX),
                (66, 2, Attributes::KERNEL_TEXT),
                (68, 2, data),
                (70, 2, Attributes::KERNEL_RODATA),
                (90, 10, data),
                (100, 1, data.of_type(MemoryType::NORMAL_NC)),
                (101, 1, Attributes::DEVICE),
            ])
        );
    }

    #[test]
    fn a_page_that_two_share_has_what_both_may() {
        let shared = [(CODE, 16, 4, WB | READ_ONLY), (DATA, 20, 4, WB), (DATA, 64, 1, WB | READ_ONLY)];
        assert_eq!(read(&shared, 65536), Ok(vec![(16, 16, RWX), (64, 16, Attributes::KERNEL_RODATA)]));
        let mixed = [(CODE, 16, 4, WB), (REGISTERS, 20, 1, RUNTIME)];
        assert_eq!(read(&mixed, 65536), Err(NoRuntime::Mixed(Pa(0x10000))));
        assert_eq!(read(&[(7, 16, 4, WRITE_BACK)], 4096), Err(NoRuntime::None));
        let many: Vec<_> = (0..129).map(|page| (DATA, 2 * page, 1, WB)).collect();
        assert_eq!(read(&many, 4096), Err(NoRuntime::TooMany));
        assert_eq!(read(&many[1..], 4096).map(|all| all.len()), Ok(MOST));
        assert_eq!(
            read(&[(DATA, (1 << 52) - 1, 1, WB)], 4096),
            Err(NoRuntime::None),
            "the last of all pages"
        );
    }

    proptest! {
        /// Regions are in order, apart, in whole pages, and have each page of runtime services.
        #[test]
        fn every_page_is_there(
            all in prop::collection::vec((5..7u32, 0..500u64, 1..40u64, any::<bool>()), 1..20), shift in 0..3u32,
        ) {
            let page = 4096 << (2 * shift);
            let all: Vec<_> = all.into_iter().map(|(kind, start, pages, runtime)| {
                (kind, start, pages, WRITE_BACK | if runtime { RUNTIME } else { 0 })
            }).collect();
            let read = read(&all, page).unwrap_or_default();
            prop_assert!(read.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{:?}", read);
            prop_assert!(read.iter().all(|r| (r.0 * 4096) % page == 0 && (r.1 * 4096) % page == 0));
            for (_, start, pages, _) in all.iter().filter(|d| d.3 & RUNTIME != 0) {
                let has = |page: u64| read.iter().any(|r| r.0 <= page && page < r.0 + r.1);
                prop_assert!((*start..start + pages).all(has), "{} {} {:?}", start, pages, read);
            }
        }

        /// Noise never panics.
        #[test]
        fn noise(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(map) = MemoryMap::new(&bytes, 40) {
                _ = regions(map, 4096);
            }
        }
    }
}
