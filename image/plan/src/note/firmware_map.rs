//! Defects of the memory map of EFI firmware.

use core::fmt;
use core::ops::Range;

use linmap::Pa;

/// A defect of a memory map of EFI firmware.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MapDefect {
    /// It ends within a descriptor.
    CutShort {
        /// The bytes behind the last whole descriptor.
        rest: usize,
    },
    /// A descriptor has no pages.
    Empty(Pa),
    /// A range does not start at a multiple of 4096 bytes.
    Unaligned(Pa),
    /// A range ends beyond all addresses.
    BeyondAddresses {
        /// Its start.
        start: Pa,
        /// Its pages of 4096 bytes.
        pages: u64,
    },
    /// A range is RAM by one descriptor, and by another one memory that is not the system's.
    Contradicted(Range<Pa>),
}

impl fmt::Display for MapDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory map of the firmware: ")?;
        match self {
            Self::CutShort { rest } => write!(f, "its last {rest} bytes are no whole descriptor"),
            Self::Empty(start) => write!(f, "the range at {start} is empty"),
            Self::Unaligned(start) => write!(f, "the range at {start} starts within a page; left out"),
            Self::BeyondAddresses { start, pages } => {
                write!(f, "{start} and {pages:#x} pages is beyond all addresses; left out")
            }
            Self::Contradicted(range) => {
                write!(f, "{range:?} is RAM and is not: it overlaps memory of another type; left out")
            }
        }
    }
}
