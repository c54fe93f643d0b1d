//! The findings of a check: the problem, its place and its reason.

use core::fmt;

use crate::format::{Descriptor, Level, Pa, Va};

/// A problem in a map: the kind, the place and the reason.
///
/// `va` is the first address that the entry or table translates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A leaf that is both writable and executable, after the restrictions of the tables above it.
    #[error(
        "{va}, level {}: {oa} is mapped writable and executable; writable memory needs PXN and UXN (D8.4.1.2)",
        level.number()
    )]
    WritableAndExecutable {
        /// The first address.
        va: Va,
        /// The physical address that it maps.
        oa: Pa,
        /// The level of the leaf.
        level: Level,
    },
    /// A leaf that walkers may update while a change of it is a load and a store.
    #[error(
        "{va}, level {}: walkers may update descriptor {:#x}, as it has no access flag, or AP[2] and DBM (D8.5.1, D8.5.2)",
        level.number(),
        descriptor.0
    )]
    HardwareUpdated {
        /// The first address.
        va: Va,
        /// The level of the leaf.
        level: Level,
        /// The descriptor.
        descriptor: Descriptor,
    },
    /// Memory that a leaf elsewhere makes read-only or executable is writable through the linear map.
    #[error(
        "{va}, level {}: {oa} is mapped {}, but the linear map can write {bytes:#x} bytes of it, at {alias}",
        level.number(),
        if *executable { "executable" } else { "read-only" }
    )]
    WritableAlias {
        /// The first address of the leaf elsewhere.
        va: Va,
        /// The physical address that it maps.
        oa: Pa,
        /// The level of the leaf elsewhere.
        level: Level,
        /// True if the leaf elsewhere is executable; false if it is read-only.
        executable: bool,
        /// The first writable address in the linear map.
        alias: Va,
        /// The number of writable bytes from there on.
        bytes: u64,
    },
    /// A leaf of the linear map that is not at the map's offset, so that it cannot be found as an alias.
    #[error(
        "{va}, level {}: maps {oa}, which the linear map's offset puts at {expected}",
        level.number()
    )]
    NotLinear {
        /// The first address.
        va: Va,
        /// The physical address that it maps.
        oa: Pa,
        /// The level of the leaf.
        level: Level,
        /// The address where it should be.
        expected: Va,
    },
    /// The members of a contiguous run are inconsistent.
    #[error(
        "{va}, level {}: a contiguous run is broken: {fault}, first at {member}; a TLB may give any of the \
         addresses and permissions, or abort (D8.7.1.1)",
        level.number()
    )]
    BrokenRun {
        /// The first address of the run.
        va: Va,
        /// The level of its members.
        level: Level,
        /// The kind of inconsistency.
        fault: RunFault,
        /// The address of the first member that does not fit.
        member: Va,
    },
    /// A valid descriptor that is reserved at its level.
    #[error(
        "{va}, level {}: descriptor {:#x} is valid but reserved at this level, so accesses fault \
         (D8.3, table D8-48)",
        level.number(),
        descriptor.0
    )]
    Reserved {
        /// The first address.
        va: Va,
        /// The level of the descriptor.
        level: Level,
        /// The descriptor.
        descriptor: Descriptor,
    },
    /// Bits that must be zero are set. Address bits below the size of a block are among those.
    #[error(
        "{va}, level {}: descriptor {:#x} sets {bits:#x}, which must be 0 in a descriptor of this kind (D8.3.1)",
        level.number(),
        descriptor.0
    )]
    ReservedBits {
        /// The first address.
        va: Va,
        /// The level of the descriptor.
        level: Level,
        /// The descriptor.
        descriptor: Descriptor,
        /// The set bits that must be 0.
        bits: u64,
    },
    /// A leaf beyond the physical address space.
    #[error(
        "{va}, level {}: maps {oa}, which ends beyond the physical address size of {pa_bits} bits, so \
         accesses fault",
        level.number()
    )]
    LeafBeyondPa {
        /// The first address.
        va: Va,
        /// The physical address that it maps.
        oa: Pa,
        /// The level of the leaf.
        level: Level,
        /// The physical address size in bits.
        pa_bits: u32,
    },
    /// A table beyond the physical address space. It was not read.
    #[error(
        "{va}: the level {} table is at {table}, beyond the physical address size of {pa_bits} bits, so \
         walks fault",
        level.number()
    )]
    TableBeyondPa {
        /// The first address that it translates.
        va: Va,
        /// Its physical address.
        table: Pa,
        /// The level of its entries.
        level: Level,
        /// The physical address size in bits.
        pa_bits: u32,
    },
    /// A table that is not in RAM. It was not read.
    #[error("{va}: the level {} table is at {table}, where there is no RAM; it was not read", level.number())]
    TableOutsideRam {
        /// The first address that it translates.
        va: Va,
        /// Its physical address.
        table: Pa,
        /// The level of its entries.
        level: Level,
    },
    /// A table that is also one of the tables above it. It was not read again.
    #[error(
        "{va}: the level {} table is at {table}, which is also a table above it: the tables loop",
        level.number()
    )]
    Loop {
        /// The first address that it translates.
        va: Va,
        /// Its physical address.
        table: Pa,
        /// The level of its entries.
        level: Level,
    },
    /// A table for which [`Checks::is_known`](crate::read::Checks::is_known) returned true. It was not read again.
    #[error(
        "{va}: the level {} table is at {table}, which is already in use as a table: a change of one of \
         its translations changes both",
        level.number()
    )]
    SharedTable {
        /// The first address that it translates.
        va: Va,
        /// Its physical address.
        table: Pa,
        /// The level of its entries.
        level: Level,
    },
    /// The limit was reached before the end of the check. Always the last finding.
    #[error(
        "{va}: stopped here at the limit of {limit} slots; a larger limit continues, unless tables point to one \
         another in circles"
    )]
    GaveUp {
        /// The first address that was not checked.
        va: Va,
        /// The limit in slots.
        limit: u64,
    },
}

/// The inconsistency between the members of a contiguous run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunFault {
    /// A valid member has no contiguous bit.
    Mixed,
    /// The run does not start at a multiple of its size.
    Unaligned,
    /// The output addresses are not consecutive.
    Addresses,
    /// Permissions or memory attributes differ.
    Attributes,
}

impl fmt::Display for RunFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mixed => "a valid member has no contiguous bit",
            Self::Unaligned => "its output address is no multiple of its size",
            Self::Addresses => "output addresses are not one range",
            Self::Attributes => "attributes differ",
        })
    }
}
