//! Everything that ends a run without a plan.

use std::io;
use std::path::PathBuf;

use kernel_plan::ranges::CAPACITY;

use super::image::ImageError;
use super::iomem::IomemError;

/// Why the exit status is 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("which machine? Say --ram SIZE, such as 256G, --iomem FILE or --dtb FILE")]
    NoMachine,

    #[error("{option} does not apply: only --sweep fragmentation has random pages")]
    NotRandom { option: &'static str },

    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },

    #[error("`{}`: {error}", path.display())]
    Iomem { path: PathBuf, error: IomemError },

    #[error("`{}` is {bytes} bytes long; no {what} is longer than {limit}", path.display())]
    TooLong { path: PathBuf, what: &'static str, bytes: u64, limit: u64 },

    #[error("`{}`: {reason}; a flattened device tree (.dtb) is right", path.display())]
    Dtb { path: PathBuf, reason: String },

    #[error("{what}: {count} separate ranges of RAM; {CAPACITY} are the most")]
    TooManyRanges { what: String, count: usize },

    #[error("`{}` reserves more than {CAPACITY} separate ranges of RAM", path.display())]
    TooManyReserved { path: PathBuf },

    #[error("{0}")]
    Image(#[from] ImageError),

    #[error("--kernel {start:#x}-{end:#x}: {remedy}")]
    Kernel { start: u64, end: u64, remedy: &'static str },

    #[error("with {granule} pages: {reason}")]
    Layout { granule: String, reason: String },

    #[error(
        "with {granule} pages: the tree in host memory is not what was counted without it; this is a bug"
    )]
    Disagreement { granule: String },

    #[error("cannot write the plot to `{}`: {error}", path.display())]
    Svg { path: PathBuf, error: io::Error },

    #[error("cannot write to stdout: {0}")]
    Output(String),
}
