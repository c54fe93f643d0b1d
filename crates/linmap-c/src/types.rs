//! The structures and constants of the header.

/// The number of locks, from 0 on. The gigabyte with the number n has the lock n % LINMAP_LOCKS. An object built with the
/// feature locks-64 has 64.
#[cfg(not(feature = "locks-64"))]
pub const LINMAP_LOCKS: usize = 1;
/// The number of locks, from 0 on. The gigabyte with the number n has the lock n % LINMAP_LOCKS.
#[cfg(feature = "locks-64")]
pub const LINMAP_LOCKS: usize = 64;

/// The size of struct linmap in bytes.
#[cfg(not(feature = "locks-64"))]
pub const LINMAP_SIZE: usize = 1280;
/// The size of struct linmap in bytes.
#[cfg(feature = "locks-64")]
pub const LINMAP_SIZE: usize = 12288;
/// The alignment of struct linmap in bytes.
pub const LINMAP_ALIGN: usize = 128;

/// A map. All of it is the library's; it may be anywhere in memory, and does not move.
///
/// A map that is all zero has not been initialised, and every call but linmap_init and linmap_adopt refuses it.
#[repr(C, align(128))]
pub struct Linmap {
    opaque: [u8; LINMAP_SIZE],
}

/// 48-bit output addresses.
pub const LINMAP_OA_48: u32 = 0;
/// 52-bit output addresses of the 64K granule (FEAT_LPA).
pub const LINMAP_OA_LPA: u32 = 1;
/// 52-bit output addresses of the 4K and 16K granules (FEAT_LPA2, TCR.DS set).
pub const LINMAP_OA_LPA2: u32 = 2;

/// The addresses that a map translates, and the format of its descriptors.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinmapGeometry {
    /// log2 of the page size: 12, 14 or 16.
    pub page_shift: u32,
    /// The number of bits of a virtual address, 36 to 52.
    pub va_bits: u32,
    /// LINMAP_OA_48, LINMAP_OA_LPA or LINMAP_OA_LPA2.
    pub oa_format: u32,
    /// log2 of the size of the largest leaf, contiguous runs included; 0 for no limit.
    pub max_leaf_shift: u32,
    /// 1 for the lower half of the address space (TTBR0), 0 for the upper (TTBR1).
    pub lower: u32,
    /// The bits of the descriptors of new tables besides address and type: PXNTable, UXNTable, APTable and AF, or 0. A new
    /// table gets those that remove nothing from what is below it.
    pub table_attributes: u64,
}

/// The region is mapped in pages that are in no contiguous run, so that each can change without a change of size. Bit 58 of their
/// descriptors says that they stay pages: linmap_collapse leaves them.
pub const LINMAP_PAGES: u32 = 1 << 0;

/// Memory that is mapped linearly with one set of attributes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinmapRegion {
    /// The first virtual address.
    pub va: u64,
    /// The physical address to which it is mapped.
    pub pa: u64,
    /// The length in bytes, a multiple of the page size.
    pub bytes: u64,
    /// The attributes of its leaves, as they are in a page descriptor: bits of the address and of the descriptor's type, and
    /// the contiguous bit, are not among them.
    pub attributes: u64,
    /// LINMAP_PAGES or 0.
    pub flags: u32,
}

/// All CPUs never raise an abort when the size of a live leaf changes (FEAT_BBM level 2 alone does not say so).
pub const LINMAP_NEVER_ABORTS: u32 = 1 << 0;
/// All CPUs have TLBIs by range (FEAT_TLBIRANGE).
pub const LINMAP_RANGE_TLBI: u32 = 1 << 1;
/// A CPU needs each batch of TLBIs repeated.
pub const LINMAP_REPEAT_TLBI: u32 = 1 << 2;

/// The kernel parks CPUs (linmap_park). Where not all CPUs promise LINMAP_NEVER_ABORTS, leaves in use change their size while
/// they are parked.
pub const LINMAP_PARKS: u32 = 1 << 3;

/// The valid bit, for linmap_change.
pub const LINMAP_VALID: u64 = 1 << 0;
/// nG, which linmap_change can set, and not clear.
pub const LINMAP_NOT_GLOBAL: u64 = 1 << 11;

/// The call does not wait and does not sleep. It fails with -EAGAIN where it would have to wait for another caller, or for
/// the other CPUs to park.
pub const LINMAP_ATOMIC: u32 = 1 << 0;

/// linmap_change and linmap_change_pages leave the TLB invalidations to a later linmap_flush of the range, or of one that
/// contains it. Until then CPUs may use the old translations, and another call on the range invalidates first.
pub const LINMAP_NOFLUSH: u32 = 1 << 1;
/// linmap_change and linmap_change_pages leave out what is not mapped, instead of refusing the range.
pub const LINMAP_SKIP_HOLES: u32 = 1 << 2;

/// The reason of a change, in its flags, by which the leaves that it splits are counted (linmap_split_cost): a module of the
/// kernel. A call whose flags have none is not counted apart.
pub const LINMAP_BY_MODULE: u32 = 1 << 8;
/// A program for the kernel's virtual machine (BPF).
pub const LINMAP_BY_BPF: u32 = 2 << 8;
/// Pages that are watched for wrong accesses (KFENCE).
pub const LINMAP_BY_GUARD: u32 = 3 << 8;
/// The range of a crash kernel.
pub const LINMAP_BY_CRASH: u32 = 4 << 8;
/// Memory of a user that the kernel does not reach.
pub const LINMAP_BY_USER: u32 = 5 << 8;
/// The bits of a reason in flags. 6 and 7 are the kernel's own.
pub const LINMAP_BY: u32 = 7 << 8;

/// The cost of the splits for one reason since the map was made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LinmapSplitCost {
    /// Leaves that became tables.
    pub splits: u64,
    /// TLB entries that cover the map, more than before, if each contiguous run takes one.
    pub tlb_entries: u64,
}

/// A range of addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinmapRange {
    /// The first address.
    pub first: u64,
    /// The last address.
    pub last: u64,
}

/// The largest number of ranges that a repaint leaves as they are.
pub const LINMAP_MOST_KEPT: usize = 8;

/// Adjacent entries of a table, and what is to become of them (linmap_park).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinmapUpdate {
    /// The physical address of the table.
    pub table: u64,
    /// The index of the first entry.
    pub index: usize,
    /// The physical address of the table whose entries of the same indices are read: mostly the table itself.
    pub from: u64,
    /// The number of entries, at least 1.
    pub count: usize,
    /// The bits that are cleared in what was read.
    pub clear: u64,
    /// The bits that are set after that.
    pub set: u64,
    /// True if the table is the root.
    pub in_root: bool,
}

/// The largest number of leaf sizes.
pub const LINMAP_LEAF_SIZES: usize = 8;

/// The leaves of one size. A contiguous run is a leaf.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LinmapLeaves {
    /// The number of bytes that such a leaf maps; 0 for none.
    pub bytes: u64,
    /// The number of leaves.
    pub count: u64,
}

/// Counts of a map and of the changes of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LinmapStats {
    /// The number of table pages, with the root.
    pub tables: u64,
    /// The number of bytes that are mapped, valid or not.
    pub bytes: u64,
    /// Leaves that became tables.
    pub splits: u64,
    /// Tables that became leaves, or were freed because they were empty.
    pub collapses: u64,
    /// TLB invalidations.
    pub invalidations: u64,
    /// The leaves by size, the largest first.
    pub leaves: [LinmapLeaves; LINMAP_LEAF_SIZES],
}
