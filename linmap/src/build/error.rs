//! What can go wrong when a map is made or changed: what, where, and what would be right.

use crate::format::{Level, Pa, Va};
use crate::plan::Policy;

/// What can be done about a policy that rules out live changes of size.
const fn remedy(policy: Policy) -> &'static str {
    match policy {
        Policy::Live => ": one of the CPUs may abort; park the others instead, or map in pages",
        Policy::Pages => "; map the range in pages from the start",
        Policy::Fixed => "; make it a carve-out, which is mapped in pages from the start",
        Policy::Park => "",
    }
}

/// Why an operation on a map did nothing.
///
/// Whatever the error, frames that were taken are given back and live tables are as before; only
/// [`CanNotPark`](Self::CanNotPark) may come when some leaves have changed their size, and translate as before: where
/// one operation parks several times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory has no more table pages.
    #[error("out of table pages after {taken}; give the frame source more memory")]
    OutOfFrames {
        /// How many this operation had taken, all given back.
        taken: u64,
    },
    /// The memory's table pages are not of the size that the geometry wants.
    #[error(
        "the memory has table pages of {memory} bytes, and tables of this geometry take pages of {tables} bytes"
    )]
    PageSize {
        /// The size of the memory's pages.
        memory: u64,
        /// The size that the tables would have.
        tables: u64,
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
        /// The first such address; for a tree, where the slot of the root table starts.
        va: Va,
    },
    /// Nothing is mapped there.
    #[error("nothing is mapped at {va}; map it first, or leave it out of the range")]
    Hole {
        /// The first such address.
        va: Va,
    },
    /// A range that does not start at a page, or whose physical memory does not.
    #[error("{address:#x} is not aligned to the page size")]
    Unaligned {
        /// The address.
        address: u64,
    },
    /// A range that is not in the half of the address space.
    #[error("{pages} pages from {va} on are not in the half that these tables translate")]
    OutsideHalf {
        /// Where it starts.
        va: Va,
        /// How many pages it has.
        pages: u64,
    },
    /// A range that does not begin or end with an entry of the root, or with a contiguous run of them.
    #[error(
        "{va} lies within an entry of the root table, or within a run of them; a repaint takes whole ones, as `linear_range` has them"
    )]
    PartOfEntry {
        /// The end of the range that does not.
        va: Va,
    },
    /// A second repaint at once.
    #[error("a repaint of these tables is under way; wait until it has returned")]
    UnderWay,
    /// Physical memory beyond what descriptors can express.
    #[error("{pages} pages from {oa} on go beyond the {bits} address bits that the descriptors have")]
    OutputAddress {
        /// Where the memory starts.
        oa: Pa,
        /// How many pages it has.
        pages: u64,
        /// How many bits an output address has.
        bits: u32,
    },
    /// A page would be writable and executable at once.
    #[error("{va} would be writable and executable at once; make it read-only first, or not executable")]
    WriteExecute {
        /// The first such address.
        va: Va,
    },
    /// A leaf in use would have to change its size, which the policy does not permit.
    #[error("the leaf at {va} would have to change its size while it is in use, which the policy \"{policy}\" rules out{}", remedy(*policy))]
    NeedsResize {
        /// Where the leaf starts.
        va: Va,
        /// The policy in force.
        policy: Policy,
    },
    /// The other CPUs do not park, so that a leaf in use can not change its size.
    #[error(
        "the other CPUs can not be parked, so no leaf in use can change its size; map the range in pages from the start (what a collapse or splits had done in parkings before stays)"
    )]
    CanNotPark,
    /// Tables that this library would not write: a descriptor without meaning, or one that restricts all
    /// that lies below it.
    #[error(
        "the descriptor that translates {va} is not one of this library's: no meaning at its level, or restrictions on a whole table"
    )]
    NotUnderstood {
        /// The first address that it translates.
        va: Va,
    },
}
