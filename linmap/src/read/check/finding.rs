//! What a check finds: what, where, and why it is wrong.

use core::fmt;

use crate::format::{Descriptor, Level, Pa, Va};

/// Something that must not be in a map: what, where, and why it is wrong.
///
/// `va` is the first address that the entry or table translates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A leaf that can be written and executed, with the restrictions of the tables above it applied.
    #[error(
        "{va}, level {}: {oa} is mapped writable and executable; writable memory needs PXN and UXN (D8.4.1.2)",
        level.number()
    )]
    WritableAndExecutable {
        /// Where.
        va: Va,
        /// What it maps.
        oa: Pa,
        /// The level of the leaf.
        level: Level,
    },
    /// The linear map can write what a leaf elsewhere makes read-only or executable.
    #[error(
        "{va}, level {}: {oa} is mapped {}, but the linear map can write {bytes:#x} bytes of it, at {alias}",
        level.number(),
        if *executable { "executable" } else { "read-only" }
    )]
    WritableAlias {
        /// Where the leaf elsewhere is.
        va: Va,
        /// What it maps.
        oa: Pa,
        /// Its level.
        level: Level,
        /// Whether it is executable; read-only otherwise.
        executable: bool,
        /// The first writable address in the linear map.
        alias: Va,
        /// How many bytes from there on are writable.
        bytes: u64,
    },
    /// A leaf of the linear map that is not at the map's offset: an alias that can not be found.
    #[error(
        "{va}, level {}: maps {oa}, which the linear map's offset puts at {expected}",
        level.number()
    )]
    NotLinear {
        /// Where.
        va: Va,
        /// What it maps.
        oa: Pa,
        /// The level of the leaf.
        level: Level,
        /// Where it should be.
        expected: Va,
    },
    /// The members of a contiguous run are not one run.
    #[error(
        "{va}, level {}: a contiguous run is broken: {fault}, first at {member}; a TLB may give any of the \
         addresses and permissions, or abort (D8.7.1.1)",
        level.number()
    )]
    BrokenRun {
        /// Where the run starts.
        va: Va,
        /// The level of its members.
        level: Level,
        /// What is wrong.
        fault: RunFault,
        /// Where the first member is that does not fit.
        member: Va,
    },
    /// A valid descriptor that has no meaning at its level.
    #[error(
        "{va}, level {}: descriptor {:#x} is valid but means nothing at this level, so that accesses fault \
         (D8.3, table D8-48)",
        level.number(),
        descriptor.0
    )]
    Reserved {
        /// Where.
        va: Va,
        /// Its level.
        level: Level,
        /// The descriptor.
        descriptor: Descriptor,
    },
    /// Bits that must be zero: address bits below the size of a block among them.
    #[error(
        "{va}, level {}: descriptor {:#x} sets {bits:#x}, which must be 0 in a descriptor of this kind (D8.3.1)",
        level.number(),
        descriptor.0
    )]
    ReservedBits {
        /// Where.
        va: Va,
        /// Its level.
        level: Level,
        /// The descriptor.
        descriptor: Descriptor,
        /// Those of its bits that must be 0.
        bits: u64,
    },
    /// A leaf that ends beyond the physical address space.
    #[error(
        "{va}, level {}: maps {oa}, which ends beyond the physical address size of {pa_bits} bits, so that \
         accesses fault",
        level.number()
    )]
    LeafBeyondPa {
        /// Where.
        va: Va,
        /// What it maps.
        oa: Pa,
        /// The level of the leaf.
        level: Level,
        /// The physical address size.
        pa_bits: u32,
    },
    /// A table that no walk can read. It was not read here, either.
    #[error(
        "{va}: the level {} table is at {table}, beyond the physical address size of {pa_bits} bits, so that \
         walks fault",
        level.number()
    )]
    TableBeyondPa {
        /// From where on it translates.
        va: Va,
        /// Where it is.
        table: Pa,
        /// The level of its entries.
        level: Level,
        /// The physical address size.
        pa_bits: u32,
    },
    /// A table that is not in RAM. It was not read.
    #[error("{va}: the level {} table is at {table}, where there is no RAM; it was not read", level.number())]
    TableOutsideRam {
        /// From where on it translates.
        va: Va,
        /// Where it is.
        table: Pa,
        /// The level of its entries.
        level: Level,
    },
    /// A table that is among the tables above it. It was not read again.
    #[error(
        "{va}: the level {} table is at {table}, which is also a table above it: the tables loop",
        level.number()
    )]
    Loop {
        /// From where on it translates.
        va: Va,
        /// Where it is.
        table: Pa,
        /// The level of its entries.
        level: Level,
    },
    /// A table that the caller knew already. It was not read again.
    #[error(
        "{va}: the level {} table is at {table}, which is in use as a table already: whoever changes one of \
         its translations changes both",
        level.number()
    )]
    SharedTable {
        /// From where on it translates.
        va: Va,
        /// Where it is.
        table: Pa,
        /// The level of its entries.
        level: Level,
    },
    /// The limit was reached, and not everything was looked at. Always the last finding.
    #[error(
        "{va}: gave up here, as more than {limit} slots would have to be read; a larger limit goes on, unless \
         tables are shared without end"
    )]
    GaveUp {
        /// From where on nothing was looked at.
        va: Va,
        /// The limit.
        limit: u64,
    },
}

/// In which way the members of a contiguous run do not make one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunFault {
    /// A valid member without the contiguous bit.
    Mixed,
    /// The run does not start at a multiple of its size.
    Unaligned,
    /// Output addresses that are not one range.
    Addresses,
    /// Permissions or memory attributes that differ.
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
