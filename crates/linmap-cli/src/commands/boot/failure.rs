//! Everything that makes a run neither fine nor a failed test.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why the exit status is 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "no image to boot: {}; the image is built for bare metal, from the sources, and `cargo install` does not \
         have it: run `make image` there, which leaves target/linmap.img, then `linmap boot` there, or anywhere \
         with --image PATH or with a copy of it beside `linmap`",
        listed(places)
    )]
    NoImage { places: Vec<PathBuf> },

    #[error("`{}` is no arm64 kernel image: it has no `ARM\\x64` at byte 56; `make image` builds one", .0.display())]
    NotAnImage(PathBuf),

    #[error(
        "cannot start QEMU `{program}`: {error}; install it (Debian: qemu-system-arm), or name it with --qemu"
    )]
    NoQemu { program: String, error: io::Error },

    #[error("cannot watch over QEMU: {0}")]
    Supervision(io::Error),

    /// By this signal.
    #[error("interrupted")]
    Interrupted(i32),

    #[error("not finished after {seconds} s, {}; --timeout allows more", last_seen(last_line))]
    TimedOut { seconds: u64, last_line: String },

    #[error("QEMU has used no CPU time for {seconds} s, {}; --idle allows more", last_seen(last_line))]
    Idle { seconds: u64, last_line: String },

    #[error("QEMU {}{}\nit was started as: {command}", fate(*exit), quoted(complaints))]
    QemuDied { exit: ExitStatus, complaints: String, command: String },

    #[error("the kernel faulted: {0}")]
    Fault(String),

    #[error("malformed `linmap: ` lines on the console: {count}; the first: {first}")]
    Malformed { count: usize, first: String },

    #[error("the guest ended without finishing, {}", last_seen(last_line))]
    Unfinished { last_line: String },

    #[error("the kernel finished without saying whether all was well: its last document lacks `ok`")]
    NoVerdict,

    #[error("cannot write to stdout: {0}")]
    Output(String),
}

fn listed(places: &[PathBuf]) -> String {
    let places: Vec<String> = places.iter().map(|path| format!("`{}`", path.display())).collect();
    match &places[..] {
        [place] => format!("{place} is not a file"),
        _ => format!("none of {} is a file", places.join(", ")),
    }
}

fn last_seen(line: &str) -> String {
    if line.is_empty() {
        "with an empty console; is this an arm64 CPU that can run it?".to_owned()
    } else {
        format!("last console line: `{line}`")
    }
}

fn fate(exit: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (exit.signal(), exit.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(code)) => format!("failed with exit status {code}"),
        (None, None) => format!("ended oddly ({exit})"),
    }
}

fn quoted(complaints: &str) -> String {
    match complaints.trim_end() {
        "" => " and said nothing".to_owned(),
        text => format!(":\n{text}"),
    }
}
