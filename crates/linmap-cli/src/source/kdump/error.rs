//! Why a kdump-compressed core cannot be read.

use std::io;

use super::super::bytes::PartError;

/// Why a kdump-compressed core cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KdumpError {
    #[error(transparent)]
    Part(#[from] PartError),
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is a kdump-compressed core, and damaged: {0}")]
    Damaged(&'static str),
    #[error("it is a kdump-compressed core of {0}; this reads those of aarch64")]
    Machine(String),
    #[error("it is a kdump-compressed core with blocks of {0} bytes, which is no page size of arm64")]
    BlockSize(u64),
    #[error("two files are no parts of one split core: they differ in {0}")]
    OtherCore(&'static str),
    #[error(
        "no file in the directory is a kdump-compressed core; a directory is read as the parts of a split one"
    )]
    NoPart,
}
