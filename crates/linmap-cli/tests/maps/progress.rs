//! Progress: on a terminal in whose foreground the command runs, for every kind of work, and nowhere else.
//!
//! The work lasts until the line was seen, so that no time is measured: it waits for a pipe without a writer or a reader, or
//! for a model that runs for years.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::core::debian;
use crate::guest::{Guest, Habits, QEMU};
use crate::stub;

/// The command on a terminal of its own, as a shell starts it, with its stdout in no terminal.
struct OnTerminal {
    child: Child,
    terminal: File,
    shown: String,
}

impl OnTerminal {
    fn run(arguments: &[&str]) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let name = name.to_str().expect("a path in UTF-8").to_owned();
        let slave = OpenOptions::new().read(true).write(true).open(name).expect("a terminal");
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(env!("CARGO_BIN_EXE_linmap")).args(arguments);
        // The terminal in which the tests run may be dumb.
        command.env("TERM", "xterm");
        command.stdin(slave.try_clone().expect("a terminal")).stdout(Stdio::null()).stderr(slave);
        let child = command.spawn().expect("linmap runs");
        Self { child, terminal: File::from(master), shown: String::new() }
    }

    /// Reads until the terminal has shown a text.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let mut piece = [0; 4096];
        while !self.shown.contains(text) {
            match self.terminal.read(&mut piece) {
                Ok(read @ 1..) => self.shown += &String::from_utf8_lossy(&piece[..read]),
                ended => panic!("{ended:?} before `{text}`: {:?}", self.shown),
            }
        }
    }

    /// Waits for the end. Nothing of the line is left.
    #[track_caller]
    fn ends(mut self, code: i32) {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = self.terminal.read(&mut piece) {
            self.shown += &String::from_utf8_lossy(&piece[..read]);
        }
        assert_eq!(self.child.wait().expect("it ends").code(), Some(code), "{:?}", self.shown);
        assert!(self.shown.ends_with("\r\x1b[K"), "{:?}", self.shown);
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

fn pipe(path: PathBuf) -> String {
    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
    assert!(made.success());
    path.to_str().expect("a path in UTF-8").to_owned()
}

fn read_all(path: &str) {
    let mut all = Vec::new();
    File::open(Path::new(path)).expect("a pipe").read_to_end(&mut all).expect("it is read");
    assert!(all.starts_with(b"<svg"));
}

#[test]
fn work_that_is_not_reading_is_shown() {
    let core = debian().core(|_| {});
    let path = core.path();
    let path = path.to_str().expect("a path in UTF-8");
    let picture = pipe(core.file("map.svg"));
    let mut map = OnTerminal::run(&["map", path, "--svg", &picture]);
    map.shows("drawing: 1 s");
    read_all(&picture);
    map.ends(0);
    let symbols = pipe(core.file("System.map"));
    for command in [&["walk", path, "_stext"][..], &["stat", path, "--who"], &["dump", path, "--names"]] {
        let mut ran = OnTerminal::run(&[command, &["--symbols", &symbols]].concat());
        ran.shows("reading symbols: 1 s");
        let text = format!("{:016x} T _stext\n", debian().image());
        OpenOptions::new()
            .write(true)
            .open(&symbols)
            .expect("a pipe")
            .write_all(text.as_bytes())
            .expect("room");
        ran.ends(0);
    }
    let mut tlb = OnTerminal::run(&["tlb", "--accesses", "1000000000000"]);
    tlb.shows("runs of workloads: 0 of ");
    tlb.kill();
}

#[test]
fn reading_is_shown_with_what_it_counts() {
    let guest = Guest::new(debian(), Habits { delay: Duration::from_millis(30), monitor: false, ..QEMU });
    let source = stub::listen(&Arc::new(guest));
    let mut dump = OnTerminal::run(&["dump", &source, "--max-pause", "600"]);
    dump.shows("reading tables: ");
    dump.kill();
}

/// The same work as above, with stderr in a pipe: the second passes, and nothing is written.
#[test]
fn nothing_is_shown_in_a_pipe() {
    let core = debian().core(|_| {});
    let path = core.path();
    let picture = pipe(core.file("map.svg"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("map").arg(path).args(["--svg", &picture]).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("linmap runs");
    std::thread::sleep(Duration::from_millis(1500));
    read_all(&picture);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), &ended.stderr[..], &ended.stdout[..]), (Some(0), &b""[..], &b""[..]));
}
