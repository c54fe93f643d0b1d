//! What can go wrong when a map is made or changed: what, where, and what would be right.

use crate::{Level, Va};

/// Why an operation on a map did nothing.
///
/// Whatever the error, frames that were taken are given back and live tables are as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory has no more table pages.
    #[error("out of table pages after {taken}; give the frame source more memory")]
    OutOfFrames {
        /// How many this operation had taken, all given back.
        taken: u64,
    },
    /// A run starts before the one in front of it ends.
    #[error("the run at {va} starts before the one in front of it ends; runs go up in address order")]
    Unordered {
        /// Where it starts.
        va: Va,
    },
    /// A run that the geometry can not map: its level has no leaves, or an address is not aligned to it.
    #[error("a run at {va} can not be mapped at level {}: no leaves there, or not aligned", level.number())]
    NotALeaf {
        /// Where it starts.
        va: Va,
        /// The level that it asks for.
        level: Level,
    },
    /// An address outside the half that is being mapped, or an output address beyond the format.
    #[error("the run at {va} leaves the address range that its root table translates")]
    OutOfRange {
        /// Where it starts.
        va: Va,
    },
    /// A tree and an address space of different geometry, or of different halves.
    #[error("the tree was built for another geometry or half than the address space has")]
    OtherGeometry,
    /// Something is mapped there already.
    #[error("{va} is mapped already; unmap it first")]
    Occupied {
        /// Where the first such slot of the root table starts.
        va: Va,
    },
}
