//! The repository in which the benchmarks run: its directory, and its files by their names from there.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Returns the repository's directory.
///
/// # Errors
///
/// Cargo has not said where the package is.
pub(crate) fn root() -> Result<PathBuf, String> {
    let package = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set; cargo sets it")?;
    Ok(Path::new(&package).ancestors().nth(2).ok_or("the package is not in a workspace")?.to_owned())
}

/// Reads a file.
///
/// # Errors
///
/// It cannot be read: says which.
pub(crate) fn read(root: &Path, name: impl AsRef<Path>) -> Result<String, String> {
    let name = name.as_ref();
    fs::read_to_string(root.join(name)).map_err(|e| format!("{}: {e}", name.display()))
}

/// Writes a file, and its directory if that is missing.
///
/// # Errors
///
/// It cannot be written: says which.
pub(crate) fn write(root: &Path, name: impl AsRef<Path>, text: &str) -> Result<(), String> {
    let (name, whole) = (name.as_ref(), root.join(name.as_ref()));
    let made = whole.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(&whole, text)).map_err(|e| format!("{}: {e}", name.display()))
}
