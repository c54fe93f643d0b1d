//! A document comes out of variables, or the reason why they have none that is whole.

use core::fmt;

use lzokay::decompress::decompress;

use super::pieces::{CRC, HEADER, Header, MOST_PIECES, PIECE, Set};
use super::variables::Variables;

/// The variables as they were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found<'a> {
    /// There are none.
    Nothing,
    /// They are this document.
    Whole(&'a [u8]),
    /// They are no whole document.
    Torn(Torn),
}

/// The reason why variables are no whole document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Torn {
    /// The variable of this number is no piece of it.
    Foreign(u32),
    /// There are so many pieces, of so many.
    Missing {
        /// Those that are there.
        found: u32,
        /// Those that should be.
        of: u32,
    },
    /// The pieces have together not as many bytes as they say.
    Length,
    /// The checksum is wrong.
    Checksum,
    /// It cannot be unpacked.
    Packing,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(number) => write!(f, "its variable {number} is no piece of it"),
            Self::Missing { found, of } => write!(f, "{found} of its {of} variables are there"),
            Self::Length => f.write_str("its variables have another length than they say"),
            Self::Checksum => f.write_str("its checksum is wrong"),
            Self::Packing => f.write_str("it cannot be unpacked"),
        }
    }
}

/// Reads the document in variables. `room` is [`WORK`](super::WORK) bytes, whose content does not matter.
///
/// # Errors
///
/// The firmware does not read a variable: its status.
pub fn find<'a>(variables: &mut impl Variables, room: &'a mut [u8]) -> Result<Found<'a>, u64> {
    let Some((set, bytes, pieces)) = (match read(variables, room)? {
        Ok(read) => read,
        Err(torn) => return Ok(Found::Torn(torn)),
    }) else {
        return Ok(Found::Nothing);
    };
    let (packed, rest) = room.split_at_mut(bytes);
    Ok(match unpack(set, pieces, packed, rest) {
        Ok(document) => Found::Whole(document),
        Err(torn) => Found::Torn(torn),
    })
}

/// The set that was read, the bytes of its content at the start of the room, and the number of pieces.
type Read = Option<(Set, usize, u32)>;

/// Reads all pieces that are there: their content, one after the other.
fn read(variables: &mut impl Variables, room: &mut [u8]) -> Result<Result<Read, Torn>, u64> {
    let (mut first, mut bytes) = (None, 0);
    for number in 0..MOST_PIECES {
        let Some(size) = variables.size(number)? else {
            return Ok(Ok(first.map(|set| (set, bytes, number))));
        };
        let Some(piece) =
            room.get_mut(bytes..).and_then(|rest| rest.get_mut(..size)).filter(|_| size <= PIECE)
        else {
            return Ok(Err(Torn::Foreign(number)));
        };
        variables.read(number, piece)?;
        match Header::of(piece, number) {
            Some((set, _)) if *first.get_or_insert(set) == set => {}
            _ => return Ok(Err(Torn::Foreign(number))),
        }
        // The content takes the place of the header before it.
        piece.copy_within(HEADER.., 0);
        bytes += size - HEADER;
    }
    Ok(Ok(first.map(|set| (set, bytes, MOST_PIECES))))
}

/// Returns the document in the content of so many pieces.
fn unpack<'a>(set: Set, pieces: u32, packed: &[u8], room: &'a mut [u8]) -> Result<&'a [u8], Torn> {
    if pieces != set.pieces.get() {
        return Err(Torn::Missing { found: pieces, of: set.pieces.get() });
    }
    if packed.len() as u64 != u64::from(set.packed.get()) {
        return Err(Torn::Length);
    }
    if CRC.checksum(packed) != set.checksum.get() {
        return Err(Torn::Checksum);
    }
    let document = room.get_mut(..set.document.get() as usize).ok_or(Torn::Packing)?;
    match decompress(packed, document) {
        Ok(bytes) if bytes == document.len() => Ok(document),
        _ => Err(Torn::Packing),
    }
}
