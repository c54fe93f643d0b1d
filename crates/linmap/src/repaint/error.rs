//! The reasons why a map was not repainted.

use crate::build::OutOfFrames;
use crate::format::Va;
use crate::platform::CannotPark;

/// The reason why a repaint did nothing. All new tables have been given back, and the map, the policy and the counts
/// are as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepaintError {
    /// The memory has no more table pages.
    #[error("out of table pages after {taken}; give the frame source more memory")]
    OutOfFrames {
        /// The number of pages that the repaint had taken, all given back.
        taken: u64,
    },
    /// A range that is not in the half of the address space.
    #[error("{pages} pages from {va} on are not in the half that these tables translate")]
    OutsideHalf {
        /// The start of the range.
        va: Va,
        /// Its length in pages.
        pages: u64,
    },
    /// A range whose ends are not those of entries of the root, or of contiguous runs of them.
    #[error(
        "{va} is within an entry of the root table, or within a run of them; a repaint needs whole ones, as in `linear_range`"
    )]
    PartOfEntry {
        /// The end of the range that is not.
        va: Va,
    },
    /// A range with addresses in a part of the root that [was not taken over](crate::SharedSpace::from_shared_root).
    #[error("{va} is in a part of the root table that was not taken over")]
    NotOwned {
        /// The first such address.
        va: Va,
    },
    /// Another repaint is under way.
    #[error("a repaint of these tables is under way; wait until it has returned")]
    UnderWay,
    /// Other callers' long operations have claimed parts of the range for as long as the copying took, and this context
    /// cannot wait ([`Sharing::wait`](crate::Sharing::wait)).
    #[error("other operations have claimed parts of the range all the time; call again when they are done")]
    Busy,
    /// The other CPUs do not park, so they cannot switch to the new tables.
    #[error("the other CPUs cannot be parked, so they cannot switch to the new tables")]
    CannotPark,
    /// Tables that this library would not write: a reserved descriptor.
    #[error(
        "the descriptor that translates {va} was not written by this library: it is reserved at its level"
    )]
    NotUnderstood {
        /// The first address that it translates.
        va: Va,
    },
}

impl From<OutOfFrames> for RepaintError {
    fn from(OutOfFrames(taken): OutOfFrames) -> Self {
        Self::OutOfFrames { taken }
    }
}

impl From<CannotPark> for RepaintError {
    fn from(_: CannotPark) -> Self {
        Self::CannotPark
    }
}
