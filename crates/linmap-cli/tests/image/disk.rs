//! A disk that `linmap image` writes, and firmware that starts the image from it and keeps variables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::guest::{Booted, boot_with};

/// Runs QEMU with firmware.
pub(crate) const QEMU: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/image/efi-qemu");

/// EDK2, which knows no earlier start.
pub(crate) const EDK2: &str = "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd";
/// The same with secure boot in flash, and its variables with a key for tests. Debian 13 has another without.
const FLASH: &str = "/usr/share/AAVMF/AAVMF_CODE.snakeoil.fd";
pub(crate) const SECURE: &str = "/usr/share/AAVMF/AAVMF_VARS.snakeoil.fd";

/// A disk, and a copy of the firmware's variables if it keeps any.
pub(crate) struct Disk {
    directory: TempDir,
    variables: Option<PathBuf>,
    more: String,
}

impl Disk {
    /// Writes a disk with the image and these boot arguments.
    pub(crate) fn new(arguments: &str) -> Self {
        Self::with(&["--args", arguments])
    }

    /// Writes a disk by `linmap image` with these options.
    pub(crate) fn with(options: &[&str]) -> Self {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let disk = Self { directory, variables: None, more: String::new() };
        let mut write = Command::new(env!("CARGO_BIN_EXE_linmap"));
        let written = write.args(["image", "--disk"]).arg(disk.path()).args(options).output();
        let written = written.expect("linmap runs");
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        disk
    }

    /// Gives the firmware a copy of these variables to keep.
    pub(crate) fn keep(mut self, variables: &str) -> Self {
        let copy = self.directory.path().join("variables");
        fs::copy(variables, &copy).expect("the firmware is installed");
        self.variables = Some(copy);
        self
    }

    /// Gives QEMU more words.
    pub(crate) fn more(mut self, words: &str) -> Self {
        words.clone_into(&mut self.more);
        self
    }

    /// Returns the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    /// Boots from the disk. Without variables to keep, the firmware is this one.
    pub(crate) fn boot(&self, firmware: &str, machine: &str, more: &[&str]) -> Booted {
        let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
        let options = ["--qemu", QEMU, "--ram", "1G", "--machine", machine];
        let variables = self.variables.as_deref().map(path).unwrap_or_default();
        let firmware = if variables.is_empty() { firmware } else { FLASH };
        let environment = [
            ("LINMAP_DISK", path(&self.path())),
            ("LINMAP_FIRMWARE", firmware.to_owned()),
            ("LINMAP_VARIABLES", variables),
            ("LINMAP_MORE", self.more.clone()),
        ];
        let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        boot_with(&[&options, more].concat(), &environment)
    }
}
