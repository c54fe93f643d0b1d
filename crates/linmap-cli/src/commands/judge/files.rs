//! The files of a run: the guest's RAM, and what the plugin writes.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::Value;
use tempfile::TempDir;

use super::failure::Failure;
use super::guest::Ending;
use super::kernel::{self, Own};
use super::machine::Machine;

/// A guest's RAM: a file in memory without a name, which the processes that this one starts have as well. It goes with the last of them.
pub(crate) struct Ram(File);

impl Ram {
    pub(crate) fn new(machine: &Machine) -> Result<Self, Failure> {
        let failed = |error| Failure::File { path: "the guest's RAM".into(), error };
        // Without CLOEXEC, so that QEMU has it under the same number.
        let file = memfd_create("linmap-judge", MemfdFlags::empty()).map(File::from);
        let file = file.map_err(|error| failed(error.into()))?;
        file.set_len(machine.ram.0).map_err(failed)?;
        Ok(Self(file))
    }

    /// Its path in QEMU's process.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    /// Its path in the program that this process becomes.
    pub(crate) fn kept(self) -> PathBuf {
        let path = self.path();
        let _ = self.0.into_raw_fd();
        path
    }
}

/// The files of a run. They go with it.
pub(crate) struct Files {
    directory: TempDir,
    pub(crate) ram: Ram,
}

impl Files {
    pub(crate) fn new(machine: &Machine) -> Result<Self, Failure> {
        let failed = |error| Failure::File { path: "a temporary directory".into(), error };
        Ok(Self { directory: TempDir::new().map_err(failed)?, ram: Ram::new(machine)? })
    }

    /// A file of the run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The document that the plugin writes.
    pub(crate) fn document(&self) -> PathBuf {
        self.path("judged.json")
    }

    /// Reads the functions that a Linux guest's memory has of itself.
    pub(crate) fn own(&self, machine: &Machine) -> Option<Own> {
        kernel::read(&self.ram.0, machine.base)
    }

    /// Reads the document of a run that has ended.
    pub(crate) fn read(&self, ended: &Ending) -> Result<Value, Failure> {
        let document = read(&self.document());
        match nothing_judged(&document) {
            Some(why) => Err(Failure::NotJudged(format!("{why}: {}", ended.why))),
            None => Ok(document),
        }
    }
}

/// Returns the reason that a document of the plugin, or its lack, judges nothing.
pub(crate) fn nothing_judged(document: &Value) -> Option<&'static str> {
    if document.is_null() {
        return Some("QEMU left no document");
    }
    let is_none = |value: &Value| value.as_u64().unwrap_or_default() == 0;
    if is_none(&document["blocks"][1]) {
        return Some("the guest executed nothing at EL1");
    }
    is_none(&document["counts"]["roots"]).then_some(
        "no table was judged: the guest used no MMU at EL1, its tables are big-endian, or its RAM does not begin at the address of --ram-base",
    )
}

/// Reads a document of the plugin; null if there is none.
pub(crate) fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}
