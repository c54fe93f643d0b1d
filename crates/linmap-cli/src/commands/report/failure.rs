//! Everything that ends a report without a result.

use std::io;
use std::path::PathBuf;

use crate::commands::tlb;
use crate::distinct::Collision;
use crate::printable::line;

/// Why the exit status is 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot read `{}`: {error}", line(&path.display().to_string()))]
    Unreadable { path: PathBuf, error: io::Error },

    #[error("`{}` is longer than {} MiB, which no log of a measurement is", line(&path.display().to_string()), limit >> 20)]
    TooLong { path: PathBuf, limit: u64 },

    #[error(
        "`{}` has no measurement; boot the image with run=measure, or `linmap boot --run measure --json`",
        line(&path.display().to_string())
    )]
    NoMeasurement { path: PathBuf },

    #[error("`{}`: its schema is {found}, and linmap.boot/1 is right", line(&path.display().to_string()))]
    Schema { path: PathBuf, found: String },

    #[error("`{}`: {part} is not as docs/schema/linmap.boot-1.json has it: {why}", line(&path.display().to_string()))]
    Malformed { path: PathBuf, part: String, why: String },

    #[error("`{}`: a line for programs is malformed: {why}", line(&path.display().to_string()))]
    Line { path: PathBuf, why: String },

    #[error("`{}`: its document is malformed: {why}", line(&path.display().to_string()))]
    Document { path: PathBuf, why: String },

    #[error(transparent)]
    Collision(#[from] Collision),

    #[error(transparent)]
    Core(#[from] tlb::Failure),

    #[error("cannot write {what} to `{}`: {error}", line(&path.display().to_string()))]
    File { what: &'static str, path: PathBuf, error: io::Error },

    #[error("cannot write to stdout: {0}")]
    Output(String),
}
