//! The document of a run, in a file.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

/// The version of the document.
pub const VERSION: u32 = 1;

/// Writes a document to a file, which is there once all of it is.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path, document: &Value) -> io::Result<()> {
    let whole = path.with_extension("new");
    fs::write(&whole, format!("{document:#}\n"))?;
    fs::rename(whole, path)
}
