//! A document in variables becomes a file, and the variables are removed.

use core::fmt;

use super::find::{Found, Torn, find};
use super::pieces::MOST_PIECES;
use super::variables::{Variables, present, remove};

/// The highest number of a file.
pub const MOST_FILES: u32 = 9999;

/// A directory of numbered files. Errors are statuses of the firmware.
pub trait Volume {
    /// Writes a file that was not there. Returns false, and changes nothing, if one is there.
    ///
    /// # Errors
    ///
    /// The firmware does not write it; no part of it stays.
    fn write_new(&mut self, number: u32, bytes: &[u8]) -> Result<bool, u64>;
}

/// The result of looking for a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There is none.
    Nothing,
    /// It is in the file of this number, and no longer in variables.
    Written(u32),
    /// There were variables that are no whole document; they are removed.
    Removed(Torn),
}

/// The reason why a document is not in a file, or still in variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotCollected {
    /// The firmware does not read the variables: its status.
    Unreadable(u64),
    /// The firmware writes no file: its status. The document stays in variables.
    Unwritable(u64),
    /// All numbers have a file. The document stays in variables.
    TooManyFiles,
    /// The firmware does not remove the variables: its status. If there was a document, the file has it.
    NotRemoved(u64),
}

impl fmt::Display for NotCollected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(status) => write!(f, "the firmware does not read it: status {status:#x}"),
            Self::Unwritable(status) => {
                write!(f, "the medium cannot be written, status {status:#x}; it stays in variables")
            }
            Self::TooManyFiles => {
                write!(f, "the medium has files up to number {MOST_FILES}; it stays in variables")
            }
            Self::NotRemoved(status) => {
                write!(f, "the firmware does not remove its variables: status {status:#x}")
            }
        }
    }
}

/// Writes the document that is in variables to the first file that is not there, and removes the variables. `room` is
/// [`WORK`](super::WORK) bytes, whose content does not matter.
///
/// # Errors
///
/// The firmware refuses something; a document is then in variables, in a file, or in both.
pub fn collect(
    variables: &mut impl Variables,
    volume: &mut impl Volume,
    room: &mut [u8],
) -> Result<Outcome, NotCollected> {
    let outcome = match find(variables, room).map_err(NotCollected::Unreadable)? {
        Found::Nothing => return Ok(Outcome::Nothing),
        Found::Whole(document) => Outcome::Written(write(volume, document)?),
        Found::Torn(torn) => Outcome::Removed(torn),
    };
    let count = present(variables, MOST_PIECES).map_err(NotCollected::Unreadable)?;
    remove(variables, count).map_err(NotCollected::NotRemoved)?;
    Ok(outcome)
}

/// Writes a document to the first file that is not there. Returns its number.
fn write(volume: &mut impl Volume, document: &[u8]) -> Result<u32, NotCollected> {
    for number in 1..=MOST_FILES {
        if volume.write_new(number, document).map_err(NotCollected::Unwritable)? {
            return Ok(number);
        }
    }
    Err(NotCollected::TooManyFiles)
}
