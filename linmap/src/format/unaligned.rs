//! An address or a size that is not aligned to the page size.

use crate::format::address::{Pa, Va};

/// The number that is not aligned to the page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unaligned {
    /// A virtual address.
    #[error("virtual address {0} is not aligned to the page size")]
    Va(Va),
    /// A physical address.
    #[error("physical address {0} is not aligned to the page size")]
    Pa(Pa),
    /// A size in bytes.
    #[error("a size of {0:#x} bytes is not a multiple of the page size")]
    Size(u64),
}
