//! Why a log cannot be expressed in another format.

use std::fmt;

use crate::Event;

/// An event, or a property of the machine, that a format cannot express.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inexpressible {
    /// The event and its number, from 0; none if it is the machine or the log as a whole.
    pub event: Option<(usize, Event)>,
    /// The reason.
    pub why: Why,
}

/// The reason.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// The geometry is none that the checker has.
    Geometry {
        /// The geometry that it has.
        has: &'static str,
    },
    /// There are more CPUs than the checker has.
    Cpus {
        /// The number that it has.
        has: usize,
    },
    /// The checker has no such event.
    NoSuchEvent {
        /// The missing thing.
        lacks: &'static str,
    },
    /// The CPU, the table page or the slot does not exist.
    NotInMachine,
    /// The operand of a TLBI means nothing.
    Operand(String),
    /// The TLBI names another address space than that of the tree.
    OtherAsid,
    /// A second tree is loaded.
    SecondTree,
    /// A live table is written outside of an operation: nothing says who holds the lock.
    OutsideOperation,
    /// Two CPUs change one tree at a time: nothing says who holds the lock.
    TwoOperations,
    /// There is no operation of that number after a CPU has loaded its tables.
    NoOperation,
    /// The operation never translates the address in another way.
    Unchanged {
        /// The address.
        va: u64,
    },
    /// The operation publishes no table above the address.
    NothingPublished {
        /// The address.
        va: u64,
    },
    /// Another CPU takes part in the operation.
    OtherCpu,
    /// The address maps to more pages one after another than the format has.
    ManyPages {
        /// The address.
        va: u64,
    },
    /// The format has no such attribute as the one that changes.
    Attributes {
        /// The address.
        va: u64,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Geometry { has } => write!(f, "the checker has only {has}"),
            Self::Cpus { has } => write!(f, "the checker has {has} CPUs"),
            Self::NoSuchEvent { lacks } => write!(f, "the checker has no {lacks}"),
            Self::NotInMachine => write!(f, "the machine has no such CPU, table page or slot"),
            Self::Operand(mistake) => write!(f, "the operand of the TLBI means nothing: {mistake}"),
            Self::OtherAsid => write!(f, "the TLBI names another ASID than that of the tree"),
            Self::SecondTree => write!(f, "a second tree is loaded; the checker has one for all CPUs"),
            Self::OutsideOperation => {
                write!(f, "a live table is written outside of an operation: nothing says who holds the lock")
            }
            Self::TwoOperations => {
                write!(f, "two CPUs are in an operation on one tree: nothing says who holds the lock")
            }
            Self::NoOperation => write!(f, "there is no such operation after a CPU has loaded its tables"),
            Self::Unchanged { va } => {
                write!(f, "the operation leaves {va:#x} as it was: name an address that it changes")
            }
            Self::NothingPublished { va } => {
                write!(f, "the operation publishes no table above {va:#x}: there is nothing to fill first")
            }
            Self::OtherCpu => write!(f, "another CPU takes part in the operation; one test has one program"),
            Self::ManyPages { va } => {
                write!(f, "{va:#x} maps to more than two pages one after another; the format has two")
            }
            Self::Attributes { va } => write!(
                f,
                "{va:#x} changes in something else than address, validity and write permission, which is all that \
                 the format has"
            ),
        }
    }
}

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            Some((number, event)) => write!(f, "event {number} ({event}): {}", self.why),
            None => write!(f, "{}", self.why),
        }
    }
}

impl std::error::Error for Inexpressible {}
