//! Everything that keeps a guest from being judged.

use std::io;
use std::path::PathBuf;

use crate::size::SizeError;
use crate::source::MonitorError;

/// Why a guest was not judged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no command line for QEMU: `linmap judge -- -M virt -cpu max -m 1G -kernel Image` has one")]
    NoArguments,
    #[error("`{option} {value}`: {why}")]
    Refused { option: String, value: String, why: String },
    #[error("`-m {value}`: {error}")]
    Ram { value: String, error: SizeError },
    #[error("cannot start QEMU `{program}`: {error}; --qemu names another one")]
    NoQemu { program: String, error: io::Error },
    #[error("{0}")]
    NoPlugin(String),
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("the machine cannot be paused: {0}")]
    Monitor(MonitorError),
    #[error("cannot watch over QEMU: {0}")]
    Supervision(io::Error),
    #[error("{0}")]
    NotJudged(String),
    #[error("cannot write to stdout: {0}")]
    Output(io::Error),
}
