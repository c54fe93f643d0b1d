//! The exit status: 0 fine, 1 findings, 2 error.

use std::process::ExitCode;

/// How a run of the command went, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Everything was done, and all was well.
    Fine = 0,
    /// Everything was done, and something is wrong with what was looked at.
    Findings = 1,
    /// The command could not do what was asked.
    Error = 2,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}
