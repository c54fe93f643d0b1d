//! The plugin for a QEMU, by its version.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::failure::Failure;

/// A version of QEMU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Version(u32, u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The first QEMU that takes plugins of version 4 with registers, and the first that takes those of version 7 alone.
const OLDEST: Version = Version(10, 0);
const API_7: Version = Version(11, 1);

/// Returns a version for each of the plugins.
pub(crate) fn all() -> Vec<Version> {
    vec![OLDEST, API_7]
}

/// Asks a QEMU for its version.
pub(crate) fn version(program: &Path) -> Result<Version, Failure> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| Failure::NoQemu { program: program.display().to_string(), error })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    read(&text).ok_or_else(|| {
        Failure::NoPlugin(format!("`{} --version` says no version of QEMU", program.display()))
    })
}

/// Reads what `--version` prints.
fn read(text: &str) -> Option<Version> {
    let number = text.split("version ").nth(1)?;
    let mut parts = number.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    Some(Version(parts.next()??, parts.next()??))
}

/// Finds the plugin for a version.
pub(crate) fn find(version: Version, directory: Option<&Path>) -> Result<PathBuf, Failure> {
    if version < OLDEST {
        return Err(Failure::NoPlugin(format!(
            "QEMU {version} cannot be judged: its plugins see no registers. {OLDEST} can; Debian 12 has it in \
             bookworm-backports, Debian 13 itself. --qemu names another QEMU"
        )));
    }
    let name = format!("linmap-judge-{}.so", if version < API_7 { "4" } else { "7" });
    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let places: Vec<PathBuf> = match (directory, beside) {
        (Some(directory), _) => vec![directory.join(&name)],
        (None, Some(beside)) => vec![beside.join(&name), beside.join("../lib/linmap").join(&name)],
        (None, None) => Vec::new(),
    };
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        return Ok(found.canonicalize().unwrap_or_else(|_| found.clone()));
    }
    let looked: Vec<String> = places.iter().map(|place| format!("`{}`", place.display())).collect();
    Err(Failure::NoPlugin(format!(
        "no plugin for QEMU {version}: {} is missing; the Debian package has it, `cargo install` does not; \
         `make judge` in the sources builds it, and --plugins names its directory",
        looked.join(" or ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let of = |text| read(text).map(|version| version.to_string());
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopyright (c)";
        assert_eq!(of(debian).as_deref(), Some("10.0"));
        assert_eq!(of("QEMU emulator version 7.2.22").as_deref(), Some("7.2"));
        assert_eq!(of("something else"), None);
    }

    #[test]
    fn an_old_qemu_and_a_missing_plugin_are_told_apart() {
        let why = |version| find(version, Some(Path::new("/nowhere"))).expect_err("none").to_string();
        assert!(why(Version(7, 2)).contains("bookworm-backports"));
        assert!(why(Version(10, 2)).contains("linmap-judge-4.so"));
        assert!(why(Version(11, 1)).contains("linmap-judge-7.so"));
    }
}
