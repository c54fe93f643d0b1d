//! One file of a report: its measurement, and what the model says of it.

use std::path::Path;

use super::failure::Failure;
use super::input;
use super::measurement::Measurement;
use super::predicted::{self, Predicted};

/// A measurement, and what the model says of it.
pub(crate) struct Reported {
    pub(crate) measurement: Measurement,
    pub(crate) predicted: Predicted,
}

/// Reads a file, and models its accesses on a core, or on that of its CPU.
pub(crate) fn read(path: &Path, core: Option<&str>) -> Result<Reported, Failure> {
    let measurement = input::read(path)?;
    let predicted = predicted::of(&measurement, core)?;
    Ok(Reported { measurement, predicted })
}
