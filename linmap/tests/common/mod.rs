//! What the tests share: every geometry, and memory whose pages start out as garbage.

use linmap::host::HostMemory;
use linmap::{Geometry, Granule, Memory, OaFormat};

/// Every geometry that there is: each granule, format and VA size.
pub(crate) fn geometries() -> Vec<Geometry> {
    let mut all = Vec::new();
    for granule in Granule::ALL {
        for oa in [OaFormat::Bits48, OaFormat::Lpa, OaFormat::Lpa2] {
            all.extend((36..=52).filter_map(|va_bits| Geometry::new(granule, va_bits, oa).ok()));
        }
    }
    assert_eq!(all.len(), 13 + 17 + 13 + 17 + 17 + 17, "4K, 4K LPA2, 16K, 16K LPA2, 64K, 64K LPA");
    all
}

/// Memory for at most `pages` table pages, each full of descriptors that would translate.
pub(crate) fn dirty_memory(geometry: Geometry, pages: usize) -> HostMemory {
    let memory = HostMemory::new(geometry, pages);
    let mut frames: Vec<_> = std::iter::from_fn(|| memory.take()).collect();
    for frame in &mut frames {
        memory.slots(frame).fill(0x0060_0000_dead_0703);
    }
    frames.into_iter().for_each(|frame| memory.give(frame));
    assert_eq!(memory.in_use(), 0);
    memory
}
