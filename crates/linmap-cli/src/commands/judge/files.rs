//! The files of a run: the guest's RAM, and what the plugin writes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use serde_json::Value;
use tempfile::TempDir;

use super::failure::Failure;
use super::guest::Ending;
use super::kernel::{self, Own};
use super::machine::Machine;
use crate::size::Size;

/// A file system in memory. On a disk a guest takes minutes.
pub(crate) const MEMORY: &str = "/dev/shm";

/// The files of a run. They go with it.
pub(crate) struct Files {
    directory: TempDir,
    /// The guest's RAM.
    pub(crate) ram: PathBuf,
    _ram: TempDir,
}

impl Files {
    pub(crate) fn new(machine: &Machine) -> Result<Self, Failure> {
        let failed = |path: &str| {
            let path = path.into();
            move |error| Failure::File { path, error }
        };
        let directory = TempDir::new().map_err(failed("a temporary directory"))?;
        let in_memory = TempDir::with_prefix_in("linmap-judge-", MEMORY).map_err(failed(MEMORY))?;
        let ram = in_memory.path().join("ram");
        make_ram(&ram, machine)?;
        Ok(Self { directory, ram, _ram: in_memory })
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
        kernel::read(&File::open(&self.ram).ok()?, machine.base)
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

/// Makes the file of a guest's RAM.
pub(crate) fn make_ram(path: &Path, machine: &Machine) -> Result<(), Failure> {
    let room = statvfs(MEMORY).map_or(u64::MAX, |about| about.f_bavail.saturating_mul(about.f_frsize));
    if room < machine.ram.0 {
        return Err(Failure::NotJudged(format!(
            "the guest's RAM is a file in {MEMORY}, which has {} left, and it needs {}",
            Size(room),
            machine.ram
        )));
    }
    let sized = File::create(path).and_then(|file| file.set_len(machine.ram.0));
    sized.map_err(|error| Failure::File { path: path.into(), error })
}

/// Returns the reason that a document of the plugin, or its lack, judges nothing.
pub(crate) fn nothing_judged(document: &Value) -> Option<&'static str> {
    if document.is_null() {
        return Some("QEMU left no document");
    }
    let executed = document["blocks"][1].as_u64().unwrap_or_default();
    (executed == 0).then_some("the guest executed nothing at EL1")
}

/// Reads a document of the plugin; null if there is none.
pub(crate) fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}
