//! The reasons why tables were not built.

use crate::format::{Level, Unaligned, Va};

/// The memory has no more table pages. Holds the number of pages that had been taken, all given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfFrames(pub(crate) u64);

/// The reason why a tree was not built. Every frame has been given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The memory has no more table pages.
    #[error("out of table pages after {taken}; give the frame source more memory")]
    OutOfFrames {
        /// The number of pages that had been taken, all given back.
        taken: u64,
    },
    /// The memory's table pages are not of the geometry's page size.
    #[error(
        "the memory has table pages of {memory} bytes, but tables of this geometry need pages of {tables} bytes"
    )]
    PageSize {
        /// The size of the memory's pages in bytes.
        memory: u64,
        /// The size of the tables in bytes.
        tables: u64,
    },
    /// A run starts before the previous one ends.
    #[error("the run at {va} starts before the previous one ends; pass runs in ascending address order")]
    Unordered {
        /// The start of the run, or of the region that was to be mapped.
        va: Va,
    },
    /// A run that the geometry cannot map: its level has no such leaves, or it has no descriptors.
    #[error("the run at {va} has no leaves: none of its kind at level {}, or no descriptors", level.number())]
    NotALeaf {
        /// The start of the run, or of the region that was to be mapped.
        va: Va,
        /// The level that it asks for.
        level: Level,
    },
    /// An address of a run that is not aligned to its leaves, or a size that is not in whole contiguous runs.
    #[error("{unaligned} to the leaves of {leaf:#x} bytes of the run at {va}")]
    Unaligned {
        /// The start of the run, or of the region that was to be mapped.
        va: Va,
        /// The address or the size.
        unaligned: Unaligned,
        /// The size of its leaves in bytes; a contiguous run is one leaf.
        leaf: u64,
    },
    /// An address outside the half that is being mapped, or an output address beyond the format.
    #[error("the run at {va} is not within the address range that the root table translates")]
    OutOfRange {
        /// The start of the run, or of the region that was to be mapped.
        va: Va,
    },
}
