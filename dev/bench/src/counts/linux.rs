//! The same operations in Linux: Debian's kernels, counted by a plugin of QEMU 7.2.
//!
//! `-M virt,gic-version=3 -cpu max,pauth-impdef=on -smp 1`, one bank of RAM at 0x40000000. Creation is counted from the
//! entry of the function that makes the map to its exit.

use super::boots::{Map, PageSize};

/// The creation of a linear map by Linux 7.2.
pub(crate) struct Creation {
    pub(crate) page_size: PageSize,
    pub(crate) map: Map,
    pub(crate) gib: u64,
    pub(crate) instructions: u64,
    pub(crate) tlbi: u64,
    pub(crate) dsb: u64,
    pub(crate) tables: u64,
}

const fn creation(page_size: PageSize, map: Map, gib: u64, counts: [u64; 4]) -> Creation {
    let [instructions, tlbi, dsb, tables] = counts;
    Creation { page_size, map, gib, instructions, tlbi, dsb, tables }
}

pub(crate) const CREATIONS: [Creation; 8] = [
    creation(PageSize::K4, Map::Pages, 4, [16_983_992, 2_083, 10_357, 2_054]),
    creation(PageSize::K4, Map::Pages, 64, [263_495_672, 32_863, 164_257, 32_834]),
    creation(PageSize::K4, Map::Pages, 512, [2_104_116_216, 262_687, 1_313_377, 262_658]),
    creation(PageSize::K4, Map::Large, 4, [132_694, 15, 589, 6]),
    creation(PageSize::K4, Map::Large, 64, [136_474, 15, 649, 6]),
    creation(PageSize::K4, Map::Large, 512, [164_698, 15, 1_097, 6]),
    creation(PageSize::K16, Map::Pages, 64, [55_047_173, 2_057, 10_271, 2_050]),
    creation(PageSize::K16, Map::Large, 64, [343_665, 11, 2_087, 4]),
];

/// Linux 6.1, before the speed-up of 2024: 64 GB in 4K pages.
pub(crate) const BEFORE_2024: Creation =
    creation(PageSize::K4, Map::Pages, 64, [641_996_132, 1_083_132, 20_054_325, 32_823]);

/// Returns the same creation by Linux 7.2, if it was counted.
pub(crate) fn same(page_size: PageSize, map: Map, gib: u64) -> Option<&'static Creation> {
    CREATIONS.iter().find(|c| (c.page_size, c.map, c.gib) == (page_size, map, gib))
}

/// A page becomes read-only, allocation included. `out_of` is the leaf that held the page, `window` the image's window
/// for the same change, `dsb` the DSBs where they were counted.
pub(crate) struct PageChange {
    pub(crate) page_size: PageSize,
    pub(crate) out_of: &'static str,
    pub(crate) window: &'static str,
    pub(crate) instructions: u64,
    pub(crate) dsb: Option<u64>,
}

const fn change(
    page_size: PageSize,
    (out_of, window): (&'static str, &'static str),
    instructions: u64,
    dsb: Option<u64>,
) -> PageChange {
    PageChange { page_size, out_of, window, instructions, dsb }
}

pub(crate) const PAGE_CHANGES: [PageChange; 5] = [
    change(PageSize::K4, ("out of a 1G block", "protect_l1"), 23_361, Some(4)),
    change(PageSize::K4, ("out of a 2M block", "protect_l2"), 12_784, Some(2)),
    change(PageSize::K4, ("out of a contiguous run", "protect_run"), 1_060, None),
    change(PageSize::K4, ("already a page", "protect_page"), 755, None),
    change(PageSize::K16, ("out of a 32M block", "protect_l2"), 46_556, None),
];

/// Instructions of a repaint, all of them with every other CPU stopped: page size, GiB, instructions.
pub(crate) const REPAINTS: [(PageSize, u64, u64); 3] =
    [(PageSize::K4, 64, 391_118_984), (PageSize::K4, 256, 1_564_892_659), (PageSize::K16, 64, 88_899_760)];

/// `set_memory_ro` of 512 adjacent pages of the area, with one split of a 1G block: instructions, TLBIs.
pub(crate) const SET_MEMORY_RO: (u64, u64) = (495_184, 528);

/// The patch series that lets Linux choose its page size at boot, by its own measurements.
pub(crate) const CHOOSING: &str = "fork +12.8%, munmap +3.8%, text +1.2%, data +6.8%";
