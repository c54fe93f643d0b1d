//! An address or a size that is not aligned: to the page size, or to a larger leaf.

use crate::format::address::{Pa, Va};

/// The number that is not aligned. The error that holds it says to what.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unaligned {
    /// A virtual address.
    #[error("virtual address {0} is not aligned")]
    Va(Va),
    /// A physical address.
    #[error("physical address {0} is not aligned")]
    Pa(Pa),
    /// A size in bytes.
    #[error("a size of {0:#x} bytes is not aligned")]
    Size(u64),
}
