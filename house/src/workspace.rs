//! The crates of the workspace, and the file where each library and program begins.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Error;

/// A crate: its name and the roots of its library and its programs, the library first.
#[derive(Clone, Debug)]
pub struct Crate {
    /// The name in its Cargo.toml.
    pub name: String,
    /// Its directory.
    pub directory: PathBuf,
    /// The root file of each target.
    pub roots: Vec<PathBuf>,
}

/// All crates of a workspace.
#[derive(Debug)]
pub struct Workspace {
    /// The crates, as Cargo.toml lists them.
    pub crates: Vec<Crate>,
}

impl Workspace {
    /// Asks cargo for the crates of the workspace in `directory`. Paths are relative to it.
    ///
    /// # Errors
    ///
    /// If `cargo metadata` fails.
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(directory);
        let output = cargo.output().map_err(|error| Error::Metadata(error.to_string()))?;
        if !output.status.success() {
            return Err(Error::Metadata(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let metadata =
            serde_json::from_slice(&output.stdout).map_err(|error| Error::Metadata(error.to_string()))?;
        Ok(Workspace { crates: crates(&metadata) })
    }

    /// The crates with these names; all if there are none.
    ///
    /// # Errors
    ///
    /// If a crate does not exist.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Crate>, Error> {
        if names.is_empty() {
            return Ok(self.crates.iter().collect());
        }
        let find = |name: &String| self.crates.iter().find(|package| package.name == *name);
        names.iter().map(|name| find(name).ok_or_else(|| Error::NoCrate(name.clone()))).collect()
    }
}

fn crates(metadata: &Value) -> Vec<Crate> {
    let base = Path::new(text(&metadata["workspace_root"]));
    let relative = |path: &Value| {
        let path = Path::new(text(path));
        path.strip_prefix(base).unwrap_or(path).to_path_buf()
    };
    let package = |package: &Value| Crate {
        name: text(&package["name"]).into(),
        directory: relative(&package["manifest_path"]).parent().unwrap_or(Path::new("")).into(),
        roots: roots(package).map(|target| relative(&target["src_path"])).collect(),
    };
    list(&metadata["packages"]).iter().map(package).collect()
}

/// The targets that are libraries, then those that are programs.
fn roots(package: &Value) -> impl Iterator<Item = &Value> {
    let of_kind = |kind: &'static str| {
        let targets = list(&package["targets"]).iter();
        targets.filter(move |target| list(&target["kind"]).iter().any(|other| text(other) == kind))
    };
    of_kind("lib").chain(of_kind("bin"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
