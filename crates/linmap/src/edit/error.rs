//! The reasons why a change of a live map was refused, with the place and the remedy.

use core::convert::Infallible;

use crate::build::{BuildError, OutOfFrames};
use crate::format::{Descriptor, Geometry, Level, Pa, Unaligned, Va};
use crate::plan::Policy;
use crate::platform::CannotPark;

/// Returns the remedy for a policy that rules out live changes of size.
const fn remedy(policy: Policy) -> &'static str {
    match policy {
        Policy::Live => ": one of the CPUs may abort; park the others instead, or map in pages",
        Policy::Pages => "; map the range in pages from the start",
        Policy::Fixed => "; make it a carve-out, which is mapped in pages from the start",
        Policy::Park => "",
    }
}

/// The reason why an operation on a live map did nothing.
///
/// After every error, frames that were taken have been given back, and live tables are as before. Only
/// [`CannotPark`](Self::CannotPark) may occur after some leaves have changed their size, where one operation parks
/// several times. Translations are as before even then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The memory has no more table pages.
    #[error("out of table pages after {taken}; give the frame source more memory")]
    OutOfFrames {
        /// The number of pages that the operation had taken, all given back.
        taken: u64,
    },
    /// The tables of a new mapping cannot be built.
    #[error(transparent)]
    Build(BuildError),
    /// A range or its physical memory does not start at a page boundary.
    #[error("{0} to the page size")]
    Unaligned(#[from] Unaligned),
    /// A range that is not in the half of the address space.
    #[error("{pages} pages from {va} on are not in the half that these tables translate")]
    OutsideHalf {
        /// The start of the range.
        va: Va,
        /// Its length in pages.
        pages: u64,
    },
    /// Addresses of a root that others use too, in a part that was not taken over. There, leaves change their permissions
    /// and their validity, and nothing else.
    #[error(
        "{va} is in a part of the root table that was not taken over: only whole leaves can change there"
    )]
    NotOwned {
        /// The first such address.
        va: Va,
    },
    /// Physical memory beyond what descriptors can express.
    #[error("{pages} pages from {oa} on exceed the {bits} address bits of the descriptors")]
    OutputAddress {
        /// The start of the memory.
        oa: Pa,
        /// Its length in pages.
        pages: u64,
        /// The number of bits of an output address.
        bits: u32,
    },
    /// Something is already mapped there.
    #[error("{va} is mapped already; unmap it first")]
    Occupied {
        /// The first mapped address.
        va: Va,
    },
    /// Nothing is mapped there.
    #[error("nothing is mapped at {va}; map it first, or leave it out of the range")]
    Hole {
        /// The first unmapped address.
        va: Va,
    },
    /// Memory would be both writable and executable.
    #[error("{va} would be writable and executable at once; make it read-only first, or not executable")]
    WriteExecute {
        /// The first such address.
        va: Va,
    },
    /// Walkers would update a leaf, and the address space expects hardware updates
    /// ([`expect_hardware_updates`](crate::Tables::expect_hardware_updates)).
    #[error(
        "walkers would update a leaf at {va}: give it the access flag (AF), and not both AP[2] and DBM (D8.5.1, D8.5.2)"
    )]
    HardwareUpdated {
        /// The first address of the change.
        va: Va,
    },
    /// A leaf in use would have to change its size, which the policy does not permit.
    #[error("the leaf at {va} would have to change its size while it is in use, which the policy \"{policy}\" rules out{}", remedy(*policy))]
    NeedsResize {
        /// The start of the leaf.
        va: Va,
        /// The policy in force.
        policy: Policy,
    },
    /// The other CPUs do not park, so that a leaf in use cannot change its size.
    #[error(
        "the other CPUs cannot be parked, so no leaf in use can change its size; map the range in pages from the start (leaves that changed their size in earlier parkings stay so)"
    )]
    CannotPark,
    /// Another caller's long operation has claimed some of the addresses, and this context cannot wait
    /// ([`Sharing::wait`](crate::Sharing::wait)).
    #[error("another operation has claimed addresses from {va} on; call again when it is done")]
    Busy {
        /// The first address of the operation that was refused.
        va: Va,
    },
    /// Memory that is not plain RAM of the linear map, so it is not removed as such ([`Hotplug`](crate::Hotplug)).
    #[error(
        "the memory at {va} is not as RAM was added: valid, writable, at its own address; undo what was changed first"
    )]
    NotRam {
        /// The first such address.
        va: Va,
    },
    /// RAM beyond what the linear map reaches.
    #[error("{pa} is beyond what the linear map reaches, which is {} to {}; a larger VA size reaches further", reach.0, reach.1)]
    NotReached {
        /// The first such address.
        pa: Pa,
        /// The first physical address that it reaches, and the one after the last.
        reach: (Pa, Pa),
    },
    /// Memory of another type than Normal write-back, which has no allocation tags.
    #[error("{va} is not Normal write-back memory; remake it as that first")]
    NotNormal {
        /// The first such address.
        va: Va,
    },
    /// A leaf that is too large for where a remake would have it lead.
    #[error(
        "the leaf of {bytes} bytes at {va} cannot lead to {oa}, to which it is not aligned; split the range to pages first"
    )]
    Misfit {
        /// The start of the leaf.
        va: Va,
        /// Its size.
        bytes: u64,
        /// The address, or the bits of it that are within the leaf.
        oa: Pa,
    },
    /// Tables that this library would not write: a reserved descriptor.
    #[error(
        "the descriptor that translates {va} was not written by this library: it is reserved at its level"
    )]
    NotUnderstood {
        /// The first address that it translates.
        va: Va,
    },
}

/// The reason why a range was not remade.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemakeError<E> {
    /// It was refused, before the step. Each translation is as before, although leaves may have been split.
    #[error(transparent)]
    Refused(#[from] ChangeError),
    /// The step failed. The range, and its aliases where they change with it, are invalid, and otherwise as before. No TLB has
    /// them. A remake by [`Remake::NONE`](crate::Remake::NONE) brings them back as they were.
    #[error(
        "the step failed that {pages} pages from {va} on were taken out for, and they stay invalid: {error}"
    )]
    Step {
        /// The start of the range.
        va: Va,
        /// Its length in pages.
        pages: u64,
        /// The error of the step.
        error: E,
    },
}

/// A step that cannot fail.
impl From<RemakeError<Infallible>> for ChangeError {
    fn from(error: RemakeError<Infallible>) -> Self {
        match error {
            RemakeError::Refused(error) => error,
            RemakeError::Step { error, .. } => match error {},
        }
    }
}

impl<E> From<CannotPark> for RemakeError<E> {
    fn from(error: CannotPark) -> Self {
        Self::Refused(error.into())
    }
}

impl From<Infallible> for ChangeError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<OutOfFrames> for ChangeError {
    fn from(OutOfFrames(taken): OutOfFrames) -> Self {
        Self::OutOfFrames { taken }
    }
}

impl From<CannotPark> for ChangeError {
    fn from(_: CannotPark) -> Self {
        Self::CannotPark
    }
}

impl From<BuildError> for ChangeError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::OutOfFrames { taken } => Self::OutOfFrames { taken },
            other => Self::Build(other),
        }
    }
}

/// Returns the reason why an entry that translates an address is not changed.
#[cold]
pub(crate) fn refusal(va: u64, level: Level, old: Descriptor, g: Geometry) -> ChangeError {
    let va = Va(va);
    match old.is_leaf(g, level) {
        true => ChangeError::WriteExecute { va },
        false if old.is_valid() => ChangeError::NotUnderstood { va },
        false => ChangeError::Hole { va },
    }
}

/// The reason why a part of a root was not taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The memory's table pages are not of the geometry's size.
    #[error(transparent)]
    Memory(#[from] BuildError),
    /// A range that is empty or not in the half.
    #[error("{first} to {last} is not a range of the half that these tables translate")]
    OutsideHalf {
        /// The first address of the range.
        first: Va,
        /// Its last address.
        last: Va,
    },
    /// A range whose ends are not those of entries of the root, or of contiguous runs of them.
    #[error(
        "{va} is within an entry of the root table, or within a run of them; take whole ones, as in `linear_range`"
    )]
    PartOfEntry {
        /// The end of the range that is not.
        va: Va,
    },
}

/// The reason why a map was not created. Every frame has been given back, and the address space is as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Its tables could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The layout and the address space differ in geometry, or the address space is not the upper half.
    #[error("the layout is for another geometry or half than the address space has")]
    OtherGeometry,
    /// A part of the root that was not taken over.
    #[error("{va} is in a part of the root table that was not taken over")]
    NotOwned {
        /// The first such address.
        va: Va,
    },
    /// A slot of the root table is not a hole.
    #[error("{va} is mapped already; unmap it first")]
    Occupied {
        /// The first address that it translates.
        va: Va,
    },
    /// Another caller's long operation has claimed some of the addresses, and this context cannot wait
    /// ([`Sharing::wait`](crate::Sharing::wait)).
    #[error("another operation has claimed addresses from {va} on; call again when it is done")]
    Busy {
        /// The first address of the entries of the root that the map takes.
        va: Va,
    },
    /// Memory that is both writable and executable.
    #[error("{va} would be writable and executable at once; make it read-only first, or not executable")]
    WriteExecute {
        /// The first such address.
        va: Va,
    },
}
