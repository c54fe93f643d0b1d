//! Everything that keeps a run from having a result, with what to say about it.

use std::io;
use std::path::PathBuf;

use super::core::CoreError;
use super::trace::TraceError;
use crate::commands::plan;
use crate::size::human;

/// Why the run is worth exit status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Machine(#[from] plan::Failure),

    #[error("{0}")]
    Core(#[from] CoreError),

    #[error("{0}")]
    Trace(#[from] TraceError),

    #[error(
        "{workload} takes {} of memory, and the machine has {} that {placement} placement can hand out; --ram gives \
         it more, --footprint takes less",
        human(*wanted), human(*there)
    )]
    TooLittle { workload: String, placement: String, wanted: u64, there: u64 },

    #[error("the linear map reaches over {pages} pages; this model numbers them up to {}", u32::MAX)]
    TooLarge { pages: u64 },

    #[error("the core has no entry for {page}; l1.sizes and l2.sizes need a size up to that of a page")]
    Page { page: String },

    #[error("an access to {address:#x} of the linear map, which has nothing there; this is a bug")]
    Unmapped { address: u64 },

    #[error("cannot write the plot to `{}`: {error}", path.display())]
    Svg { path: PathBuf, error: io::Error },

    #[error("cannot write to stdout: {0}")]
    Output(String),
}
