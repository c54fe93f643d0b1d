//! Runs the command and checks its output.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The result of a run.
pub(crate) struct Ran(pub(crate) Output);

/// Runs `linmap` with these arguments.
pub(crate) fn linmap(arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
    Ran(command.output().expect("linmap runs"))
}

impl Ran {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("stdout is UTF-8")
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("stderr is UTF-8")
    }

    /// Returns the one document on stdout.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_slice(&self.0.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout()))
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.0.status.code(), Some(code), "{}\n{}", self.stdout(), self.stderr());
        self
    }

    /// Data on stdout, or a message on stderr, never both.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        let stderr = self.stderr();
        assert!(stderr.contains(words), "{stderr}");
        self
    }
}

/// Runs `linmap` with these arguments and this standard input, through a pipe.
pub(crate) fn piped(arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8").spawn().expect("linmap runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::scope(|scope| {
        // It can end without reading all of it.
        scope.spawn(move || drop(std::io::Write::write_all(&mut stdin, input)));
        child.wait_with_output().expect("it ends")
    });
    Ran(writer)
}
