//! The crates of the workspace, and the file where each library and program begins.

use std::path::{Component, Path, PathBuf};
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

impl Crate {
    /// Returns true if all its root files lie in its directory.
    fn has_own_sources(&self) -> bool {
        self.roots.iter().all(|root| root.starts_with(&self.directory))
    }
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

    /// Returns the crates with these names. Without names it returns all but those whose library is another crate's,
    /// compiled once more.
    ///
    /// # Errors
    ///
    /// If a crate does not exist.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Crate>, Error> {
        if names.is_empty() {
            return Ok(self.crates.iter().filter(|package| package.has_own_sources()).collect());
        }
        let find = |name: &String| self.crates.iter().find(|package| package.name == *name);
        names.iter().map(|name| find(name).ok_or_else(|| Error::NoCrate(name.clone()))).collect()
    }
}

fn crates(metadata: &Value) -> Vec<Crate> {
    let base = Path::new(text(&metadata["workspace_root"]));
    let relative = |path: &Value| {
        let path = Path::new(text(path));
        without_detours(path.strip_prefix(base).unwrap_or(path))
    };
    let package = |package: &Value| Crate {
        name: text(&package["name"]).into(),
        directory: relative(&package["manifest_path"]).parent().unwrap_or(Path::new("")).into(),
        roots: roots(package).map(|target| relative(&target["src_path"])).collect(),
    };
    list(&metadata["packages"]).iter().map(package).collect()
}

/// Returns a path without `..` and the directories that they leave: `a/../b` is `b`.
fn without_detours(path: &Path) -> PathBuf {
    let mut direct = PathBuf::new();
    for part in path.components() {
        if part != Component::ParentDir || !direct.pop() {
            direct.push(part);
        }
    }
    direct
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
