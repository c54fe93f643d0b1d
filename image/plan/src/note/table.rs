//! Defects of ACPI tables, as values.

use core::fmt;

use linmap::Pa;

/// The signature of a table, four letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature(pub [u8; 4]);

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

/// A defect of a table. A table with one of the first five is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableDefect {
    /// There is none.
    Missing,
    /// It is at an address that cannot be read.
    Unreachable(Pa),
    /// Its header gives it more or fewer bytes than it can have.
    Length {
        /// The bytes.
        bytes: u32,
    },
    /// Its bytes do not add up to 0.
    Checksum {
        /// Their sum, modulo 256.
        sum: u8,
    },
    /// There is another one, which is used.
    Twice,
    /// It has fewer bytes than its fixed part.
    TooShort {
        /// The bytes of the table.
        bytes: usize,
        /// The bytes of the fixed part.
        least: usize,
    },
    /// One of its structures is cut short or has too few bytes for its type; it is left out.
    Structure {
        /// The offset of the structure.
        at: usize,
        /// Its type.
        kind: u8,
        /// Its bytes.
        bytes: usize,
        /// The bytes that it needs.
        least: usize,
    },
    /// So many CPUs are not enabled, and left out.
    NotEnabled {
        /// Their number.
        cpus: u32,
    },
    /// It has more than one distributor; the first is used.
    Distributors,
    /// It has no distributor.
    NoDistributor,
    /// The registers that it names are not those of an interrupt controller.
    NotGic,
    /// The interrupt of the virtual timer is not private to a CPU.
    NotPrivate {
        /// Its INTID.
        intid: u32,
    },
    /// It describes no console that can be used: a port of another kind, or registers that memory accesses do not reach.
    NoConsole {
        /// The kind of the port.
        kind: u16,
    },
    /// A range of memory ends beyond all addresses.
    BeyondAddresses {
        /// The first address.
        start: u64,
        /// Bytes from there.
        size: u64,
    },
    /// There are more ranges than are kept.
    Ranges {
        /// The most that are kept.
        most: usize,
    },
}

impl fmt::Display for TableDefect {
    /// Writes the end of a sentence that starts with the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Unreachable(at) => write!(f, "cannot be read at {at}"),
            Self::Length { bytes } => write!(f, "cannot have {bytes} bytes"),
            Self::Checksum { sum } => write!(f, "is damaged: its bytes add up to {sum:#x} instead of 0"),
            Self::Twice => f.write_str("is there twice; the first is used"),
            Self::TooShort { bytes, least } => write!(f, "has {bytes} bytes; {least} are the least"),
            Self::Structure { at, kind, bytes, least } => write!(
                f,
                "has a structure of type {kind} and {bytes} bytes at {at:#x}; {least} are the least; left out"
            ),
            Self::NotEnabled { cpus } => write!(f, "has {cpus} CPUs that are not enabled; left out"),
            Self::Distributors => f.write_str("has several distributors; the first is used"),
            Self::NoDistributor => f.write_str("has no distributor"),
            Self::NotGic => f.write_str("names registers that are not those of a GIC"),
            Self::NotPrivate { intid } => {
                write!(
                    f,
                    "gives the virtual timer interrupt {intid}, which is no CPU's own: 16 to 31 are right"
                )
            }
            Self::NoConsole { kind } => {
                write!(f, "names no console that can be used: a port of type {kind:#x}")
            }
            Self::BeyondAddresses { start, size } => {
                write!(f, "has {size:#x} bytes at {start:#x}, which is beyond all addresses; left out")
            }
            Self::Ranges { most } => write!(f, "has more than {most} ranges; the others are left out"),
        }
    }
}
