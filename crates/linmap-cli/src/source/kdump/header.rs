//! The headers of a kdump-compressed core: pure.
//!
//! In units of its block size, which is the kernel's page size: the header, the sub-header, the bitmaps, the descriptors of
//! pages. All numbers are those of the kernel's machine: here little-endian, with 64-bit longs.

use super::error::KdumpError;
use crate::printable::excerpt;

/// The first bytes of a core of kdump, and of its predecessor, whose sub-header is another.
pub(super) const KDUMP: &[u8; 8] = b"KDUMP   ";
pub(super) const DISKDUMP: &[u8; 8] = b"DISKDUMP";

/// The bytes of the header, and of the sub-header as far as it is used.
pub(super) const HEADER: u64 = 464;
pub(super) const SUB_HEADER: u64 = 104;

/// Offsets in the header: the version, the release and the machine of the kernel, and the sizes that follow them.
const VERSION: usize = 8;
const RELEASE: usize = 142;
const MACHINE: usize = 272;
const NAME: usize = 65;
const BLOCK_SIZE: usize = 428;
const SUB_HEADER_BLOCKS: usize = 432;
const BITMAP_BLOCKS: usize = 436;
const MAX_MAPNR: usize = 440;

/// The most blocks of a sub-header: VMCOREINFO and the notes of all CPUs may be counted in it.
const MAX_SUB_HEADER_BLOCKS: u32 = 1 << 16;

/// The header of a kdump-compressed core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// True for the older form.
    pub(super) is_diskdump: bool,
    pub(super) version: u32,
    pub(super) release: String,
    /// The size of blocks and pages.
    pub(super) block: u64,
    pub(super) sub_header_blocks: u32,
    pub(super) bitmap_blocks: u32,
    /// The number of pages from address 0 on.
    pub(super) pages: u64,
}

/// The sub-header of a kdump-compressed core. What its version does not have is 0 or `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SubHeader {
    /// The kinds of pages that were left out: a sum of 1 (zeros), 2 and 4 (page cache), 8 (user), 16 (free).
    pub(super) level: u32,
    /// The pages that this part of a split core has: first, and end.
    pub(super) split: Option<(u64, u64)>,
    /// VMCOREINFO: its offset in the file, and its bytes.
    pub(super) info: Option<(u64, u64)>,
    /// The number of pages, in more bits.
    pub(super) pages: Option<u64>,
}

impl Header {
    /// Reads a header of [`HEADER`] bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, KdumpError> {
        let is_diskdump = bytes.starts_with(DISKDUMP);
        if !is_diskdump && !bytes.starts_with(KDUMP) {
            return Err(KdumpError::Damaged("its first bytes"));
        }
        // QEMU writes Unknown for every guest but those of x86.
        let machine = name(bytes, MACHINE);
        if !matches!(machine.as_str(), "aarch64" | "arm64" | "Unknown" | "") {
            return Err(KdumpError::Machine(machine));
        }
        let block = u64::from(half(bytes, BLOCK_SIZE)?);
        if !matches!(block, 0x1000 | 0x4000 | 0x10000) {
            return Err(KdumpError::BlockSize(block));
        }
        let sub_header_blocks = half(bytes, SUB_HEADER_BLOCKS)?;
        if sub_header_blocks > MAX_SUB_HEADER_BLOCKS {
            return Err(KdumpError::Damaged("the size of its sub-header"));
        }
        Ok(Self {
            is_diskdump,
            version: half(bytes, VERSION)?,
            release: name(bytes, RELEASE),
            block,
            sub_header_blocks,
            bitmap_blocks: half(bytes, BITMAP_BLOCKS)?,
            pages: half(bytes, MAX_MAPNR)?.into(),
        })
    }

    /// Returns the offset of the bitmaps.
    pub(super) fn bitmaps(&self) -> u64 {
        (1 + u64::from(self.sub_header_blocks)) * self.block
    }

    /// Returns the bytes of all bitmaps together.
    pub(super) fn bitmap_bytes(&self) -> u64 {
        u64::from(self.bitmap_blocks) * self.block
    }

    /// Returns the offset of the page descriptors.
    pub(super) fn descriptors(&self) -> u64 {
        self.bitmaps() + self.bitmap_bytes()
    }
}

impl SubHeader {
    /// Reads a sub-header of [`SUB_HEADER`] bytes of a core of this version.
    pub(super) fn parse(bytes: &[u8], version: u32) -> Result<Self, KdumpError> {
        let since = |least: u32, at: usize| if version >= least { word(bytes, at) } else { Ok(0) };
        let is_split = version >= 2 && half(bytes, 12)? != 0;
        // Page numbers of more than 32 bits are in places of their own since version 6.
        let bounds = if version >= 6 { (80, 88) } else { (16, 24) };
        let info = (since(3, 32)?, since(3, 40)?);
        Ok(Self {
            level: if version >= 1 { half(bytes, 8)? } else { 0 },
            split: if is_split { Some((word(bytes, bounds.0)?, word(bytes, bounds.1)?)) } else { None },
            info: (info.0 != 0 && info.1 != 0).then_some(info),
            pages: Some(since(6, 96)?).filter(|pages| *pages != 0),
        })
    }
}

fn half(bytes: &[u8], at: usize) -> Result<u32, KdumpError> {
    let half = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    half.map(|half| u32::from_le_bytes(*half)).ok_or(KdumpError::Damaged("its header is cut"))
}

fn word(bytes: &[u8], at: usize) -> Result<u64, KdumpError> {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.map(|word| u64::from_le_bytes(*word)).ok_or(KdumpError::Damaged("its header is cut"))
}

/// Returns a name of the header, for people.
fn name(bytes: &[u8], at: usize) -> String {
    let field = bytes.get(at..at + NAME).unwrap_or_default().split(|byte| *byte == 0).next();
    excerpt(&String::from_utf8_lossy(field.unwrap_or_default()), 64)
}
