//! A document goes into variables: all of it, or nothing stays.

use core::fmt;

use lzokay::compress::{Dict, compress_no_alloc};
use zerocopy::{FromBytes, IntoBytes};

use super::pieces::{CRC, Cut, HEADER, Header, MOST, NoRoom, PIECE, Set};
use super::variables::{Limits, Variables, remove};

/// A document that is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The number of variables.
    pub pieces: u32,
    /// The bytes of the packed document.
    pub packed: usize,
}

/// The reason why a document is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotStored {
    /// An earlier one is there, and no start has written it to a file.
    Earlier,
    /// It has so many bytes; 1 to [`MOST`] are possible.
    Length(usize),
    /// It cannot be packed in the memory for that.
    NotPacked,
    /// The firmware does not read variables now: its status.
    Unreadable(u64),
    /// The firmware does not say how much room there is: its status.
    Unknown(u64),
    /// There is no room.
    NoRoom {
        /// The bytes that it takes.
        wanted: u64,
        /// The limits of the firmware.
        limits: Limits,
    },
    /// The firmware refuses a variable.
    Refused {
        /// Its status.
        status: u64,
        /// The pieces before that one are removed.
        removed: bool,
    },
}

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earlier => f.write_str(
                "the firmware's variables have an earlier one; a start from a medium that can be written makes it a file",
            ),
            Self::Length(bytes) => write!(f, "it has {bytes} bytes; 1 to {MOST} are possible"),
            Self::NotPacked => f.write_str("it cannot be packed"),
            Self::Unreadable(status) => write!(f, "the firmware reads no variables now: status {status:#x}"),
            Self::Unknown(status) => {
                write!(f, "the firmware does not say how much room there is for variables: status {status:#x}")
            }
            Self::NoRoom { wanted, limits: Limits { free, one } } => write!(
                f,
                "it takes {wanted} bytes of variables, and half of the {free} that are free may be used, {one} by each"
            ),
            Self::Refused { status, removed } => {
                let rest = if *removed { "nothing of it stays" } else { "the next start removes the rest" };
                write!(f, "the firmware refuses a variable: status {status:#x}; {rest}")
            }
        }
    }
}

/// Stores a document in variables. `work` is [`WORK`](super::WORK) bytes, whose content does not matter.
///
/// # Errors
///
/// There is no room, an earlier document is there, or the firmware refuses; nothing of it stays, unless the error says so.
pub fn store(variables: &mut impl Variables, document: &[u8], work: &mut [u8]) -> Result<Stored, NotStored> {
    if document.is_empty() || document.len() > MOST {
        return Err(NotStored::Length(document.len()));
    }
    if variables.size(0).map_err(NotStored::Unreadable)?.is_some() {
        return Err(NotStored::Earlier);
    }
    let (dictionary, rest) = Dict::mut_from_prefix(work).map_err(|_| NotStored::NotPacked)?;
    let (piece, rest) = rest.split_at_mut_checked(PIECE).ok_or(NotStored::NotPacked)?;
    let packed = compress_no_alloc(document, rest, dictionary).map_err(|_| NotStored::NotPacked)?;
    let packed = &rest[..packed];
    let limits = variables.limits().map_err(NotStored::Unknown)?;
    let cut =
        Cut::new(packed.len(), limits).map_err(|NoRoom { wanted }| NotStored::NoRoom { wanted, limits })?;
    let set = Set {
        pieces: cut.pieces.into(),
        packed: (packed.len() as u32).into(),
        document: (document.len() as u32).into(),
        checksum: CRC.checksum(packed).into(),
    };
    for number in 0..cut.pieces {
        let content = &packed[cut.content(number)];
        piece[..HEADER].copy_from_slice(Header::new(number, set).as_bytes());
        piece[HEADER..HEADER + content.len()].copy_from_slice(content);
        if let Err(status) = variables.write(number, &piece[..HEADER + content.len()]) {
            return Err(NotStored::Refused { status, removed: remove(variables, number).is_ok() });
        }
    }
    Ok(Stored { pieces: cut.pieces, packed: packed.len() })
}
