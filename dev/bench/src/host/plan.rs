//! The plan of a map: its memory and the size of its leaves.

use linmap::arch::Level;
use linmap::layout::Run;
use linmap::{Attributes, Geometry, Granule, Half, OaFormat, Pa, Stats, Va};

/// The start of each map in its address space: an entry of the root in every library.
pub(crate) const OFFSET: u64 = 1 << 39;

/// The plan of a map.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) geometry: Geometry,
    pub(crate) level: Level,
    pub(crate) bytes: u64,
    /// The physical start. It is not aligned to leaves one level up, so that a library that chooses the largest
    /// possible leaves chooses those of `level`.
    pub(crate) pa: u64,
}

impl Plan {
    /// Plans a map of `bytes` in leaves of one level.
    pub(crate) fn new(granule: Granule, level: Level, bytes: u64) -> Self {
        let geometry = Geometry::new(granule, 48, OaFormat::Bits48).expect("every granule has 48 bits");
        let pa = (1 << 39u32) + (1 << geometry.level_shift(level));
        Self { geometry, level, bytes, pa }
    }

    /// Returns the same map in pages.
    pub(crate) fn in_pages(self) -> Self {
        Self { level: Level::PAGE, ..self }
    }

    /// Returns the bytes that one leaf maps.
    pub(crate) fn leaf_bytes(&self) -> u64 {
        1 << self.geometry.level_shift(self.level)
    }

    pub(crate) fn leaves(&self) -> u64 {
        self.bytes / self.leaf_bytes()
    }

    pub(crate) fn run(&self) -> Run {
        Run {
            va: Va(self.geometry.base(Half::Upper) + OFFSET),
            oa: Pa(self.pa),
            level: self.level,
            contiguous: false,
            descriptors: self.leaves(),
            attributes: Attributes::RAM,
        }
    }

    /// Returns the table pages of the map.
    pub(crate) fn tables(&self) -> u64 {
        Stats::of_runs(self.geometry, std::iter::once(self.run())).tables
    }

    /// Returns `count` random addresses of pages.
    pub(crate) fn addresses(&self, count: usize) -> Vec<u64> {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let page = self.geometry.page_size();
        let next = |_| {
            random ^= random << 13u32;
            random ^= random >> 7u32;
            random ^= random << 17u32;
            OFFSET + random % (self.bytes / page) * page
        };
        (0..count).map(next).collect()
    }
}
