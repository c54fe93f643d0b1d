//! A SOURCE that is a pipe: the standard input, or one with a name.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::core::debian;
use crate::run::{linmap, piped};

fn fifo(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
    path
}

#[test]
fn a_pipe_is_a_source() {
    let core = debian().core(|_| {});
    let stat = core.run("stat", &[]).exits(0).stdout();
    let (json, text) =
        (core.run("dump", &["--json"]).exits(0).0.stdout, core.run("dump", &[]).exits(0).0.stdout);
    assert_eq!(piped(&["stat", "-"], &json).exits(0).stdout(), stat);
    assert_eq!(piped(&["stat", "/dev/stdin"], &json).exits(0).stdout(), stat);
    piped(&["stat", "-"], &text).exits(0).says("saved text `-`");
    // Input from a file is read as a file.
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    let file = std::fs::File::open(core.path()).expect("a file");
    let output = command.args(["stat", "-"]).stdin(file).output().expect("linmap runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), stat);
}

#[test]
fn a_pipe_with_a_name_is_a_source() {
    let core = debian().core(|_| {});
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = fifo(&directory);
    for more in [&[][..], &["--json"]] {
        let saved = core.run("dump", more).exits(0).0.stdout;
        let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
        command.arg("stat").arg(&path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().expect("linmap runs");
        let mut writer = std::fs::OpenOptions::new().write(true).open(&path).expect("a reader");
        // In two pieces, the second one later.
        writer.write_all(&saved[..9]).and_then(|()| writer.write_all(&saved[9..])).expect("it reads");
        drop(writer);
        let output = child.wait_with_output().expect("it ends");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("Linear map: 256M"), "{output:?}");
    }
}

#[test]
fn a_pipe_that_has_no_dump_is_refused() {
    piped(&["stat", "-"], b"").exits(2).says("`-`: it is empty");
    piped(&["stat", "-"], b"\x7fELF\x02\x01\x01")
        .exits(2)
        .says("it is not whole: the ELF header should end at byte 64");
    piped(&["stat", "-"], b"some text\n").exits(2).says("it is no SOURCE");
    linmap(&["stat", "/dev/zero"]).exits(2).says("neither a file nor a pipe");
    // Endless, and recognised by its beginning.
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    let zeros = std::fs::File::open("/dev/zero").expect("zeros");
    let output = command.args(["stat", "-"]).stdin(zeros).output().expect("linmap runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_pipe_that_nobody_writes_to_is_no_reason_to_wait_for_ever() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = fifo(&directory);
    linmap(&["stat", path.to_str().expect("a path in UTF-8")])
        .exits(2)
        .says("nobody wrote to it in 10 seconds");
}
