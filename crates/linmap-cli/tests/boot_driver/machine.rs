//! A stand-in for a machine, and the results of `linmap boot` with it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Runs its image, a shell script.
pub(crate) const FAKE_QEMU: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/boot_driver/fake-qemu");

/// A kernel that reports much and finishes well.
pub(crate) const GOOD: &str = r#"
cat <<'END'
linmap 0.1.0 on AmpereOne
linmap: {"cpu":{"name":"AmpereOne"},"page_size":4096,"va_bits":48,"rodata":"full"}
linmap: {"mode":1,"policy":"live","mode_reason":"boot CPU AmpereOne never aborts"}
linmap: {"memory":{"ram":[["0x40000000","0x340000000"]]}}
linmap: {"linear":{"start":"0xffff000000000000","bytes":12884901888,"tables":4,"table_bytes":16384}}
linmap: {"linear":{"tlb_entries":106,"leaves":[{"size":1073741824,"contiguous":false,"descriptors":11},{"size":4096,"contiguous":true,"descriptors":512},{"size":2097152,"contiguous":true,"descriptors":496},{"size":2097152,"contiguous":false,"descriptors":15}]}}
linmap: {"windows":{"create":{"instructions":4000,"tlbi":0,"dsb":2,"isb":1}}}
linmap: {"tests":{"selftest":{"ok":true}}}
bye
linmap: {"finished":true,"ok":true}
END
"#;

/// Returns a shell script with the header of an image, which is a comment to a shell.
pub(crate) fn image(script: &str) -> String {
    format!("#{:55}ARM\x64\n{script}", "")
}

/// A machine in a directory of its own.
pub(crate) struct Machine {
    pub(crate) directory: TempDir,
}

impl Machine {
    pub(crate) fn new(image: &str) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        std::fs::write(directory.path().join("image"), self::image(image)).expect("an image");
        Self { directory }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns `linmap boot` on this machine.
    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
        command.arg("boot").arg("--qemu").arg(FAKE_QEMU).arg("--image").arg(self.file("image")).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn boot(&self, options: &[&str]) -> Output {
        self.command(options).output().expect("linmap runs")
    }

    /// Returns true if the process that the image recorded still runs.
    pub(crate) fn is_alive(&self) -> bool {
        let pid = std::fs::read_to_string(self.file("pid")).expect("the machine has run");
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // A killed process that its parent has not waited for yet counts as ended.
        !state.is_empty() && !state.contains(") Z ")
    }
}

pub(crate) fn boot(image: &str, options: &[&str]) -> Output {
    Machine::new(image).boot(options)
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is UTF-8")
}

/// Returns the one document on stdout.
pub(crate) fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

#[track_caller]
pub(crate) fn assert_exit(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", stdout(output), stderr(output));
}
