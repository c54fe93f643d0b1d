//! A document in pieces: how large both are, and the header by which each says which set it belongs to.

use core::ops::Range;

use crc::{CRC_32_ISO_HDLC, Crc};
use lzokay::compress::{Dict, compress_worst_size};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::variables::Limits;

/// The most bytes of a document.
pub const MOST: usize = 256 << 10;

/// The bytes that [`store`](super::store()) and [`collect`](super::collect()) want for their work.
pub const WORK: usize = {
    let packed = compress_worst_size(MOST);
    let (store, find) = (size_of::<Dict>() + packed + PIECE, packed + PIECE + MOST);
    (if store > find { store } else { find }).next_multiple_of(4096)
};

/// The most bytes of a piece, its header included.
pub(super) const PIECE: usize = 32 << 10;
/// The most pieces of a document.
pub(super) const MOST_PIECES: u32 = 256;

/// The bytes that firmware may take for each variable beside its content: the name, and a header of its own.
const OVERHEAD: u64 = 128;
/// Pieces with less content are not worth their overhead.
const LEAST: u64 = 256;

/// The checksum of a packed document.
pub(super) const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// The first bytes of a piece.
const MAGIC: [u8; 8] = *b"linmap 1";

/// The header of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    magic: [u8; 8],
    /// The number of the piece.
    number: U32,
    set: Set,
}

/// The part of a header that all pieces of a set have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Set {
    /// The number of pieces.
    pub(super) pieces: U32,
    /// The bytes of the packed document.
    pub(super) packed: U32,
    /// The bytes of the document.
    pub(super) document: U32,
    /// The CRC-32 of the packed document.
    pub(super) checksum: U32,
}

pub(super) const HEADER: usize = size_of::<Header>();

impl Header {
    /// Returns the header of a piece of a set.
    pub(super) fn new(number: u32, set: Set) -> Self {
        Self { magic: MAGIC, number: number.into(), set }
    }

    /// Returns the set that a piece says it belongs to, and its content; none if it is not the piece of that number.
    pub(super) fn of(piece: &[u8], number: u32) -> Option<(Set, &[u8])> {
        let (header, content) = Self::read_from_prefix(piece).ok()?;
        (header.magic == MAGIC && header.number.get() == number).then_some((header.set, content))
    }
}

/// A packed document, cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    pub(super) pieces: u32,
    bytes: usize,
    content: usize,
}

/// The firmware has no room for a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoRoom {
    pub(super) wanted: u64,
}

impl Cut {
    /// Cuts so many bytes into as few pieces as firmware permits. They take half of what is free at most, as firmware itself needs
    /// room for its variables.
    pub(super) fn new(bytes: usize, limits: Limits) -> Result<Self, NoRoom> {
        let content = limits.one.min(PIECE as u64).saturating_sub(OVERHEAD + HEADER as u64);
        let pieces = (bytes as u64).div_ceil(content.max(1));
        let wanted = bytes as u64 + pieces * (OVERHEAD + HEADER as u64);
        if content < LEAST || pieces > u64::from(MOST_PIECES) || wanted > limits.free / 2 {
            return Err(NoRoom { wanted });
        }
        Ok(Self { pieces: pieces as u32, bytes, content: content as usize })
    }

    /// Returns where the content of a piece is in the packed document.
    pub(super) fn content(&self, number: u32) -> Range<usize> {
        let start = number as usize * self.content;
        start..(start + self.content).min(self.bytes)
    }
}
