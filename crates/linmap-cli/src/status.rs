//! The exit status: 0 fine, 1 findings, 2 error.

use std::process::ExitCode;

/// The result of a run, worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Everything was done without findings.
    Fine = 0,
    /// Everything was done, and something is wrong with the subject.
    Findings = 1,
    /// The command could not do its work.
    Error = 2,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}
