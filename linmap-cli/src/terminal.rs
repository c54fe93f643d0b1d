//! What leaves the process: data on stdout, messages on stderr, colours where they are wanted.
//! Writing never panics, and a pipe that was closed at the other end is no error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use serde_json::Value;

/// The style of headings.
pub(crate) const HEADING: Style = Style::new().bold();
/// The style of what stands beside the point.
pub(crate) const ASIDE: Style = Style::new().dimmed();
const ERROR: Style = AnsiColor::Red.on_default().bold();
const NOTE: Style = AnsiColor::Yellow.on_default().bold();

/// When to use colours.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Color {
    /// On terminals
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl Color {
    /// Makes this the choice of the whole process.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Says on stderr what went wrong.
pub(crate) fn error(text: impl Display) {
    message(ERROR, "error", text);
}

/// Says on stderr what is worth knowing.
pub(crate) fn note(text: impl Display) {
    message(NOTE, "note", text);
}

fn message(style: Style, label: &str, text: impl Display) {
    // There is nowhere left to complain to when stderr is gone.
    let _ = writeln!(anstream::stderr(), "{style}{label}:{style:#} {text}");
}

/// Writes text with styles to stdout.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    unless_closed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes one JSON document to stdout.
pub(crate) fn print_document(document: &Value) -> io::Result<()> {
    let mut out = io::stdout();
    unless_closed(writeln!(out, "{document:#}").and_then(|()| out.flush()))
}

/// Writes much data to stdout, bit by bit.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    unless_closed(write(&mut out).and_then(|()| out.flush()))
}

/// Writes clap's help to stdout, or its error to stderr.
pub(crate) fn print_clap(error: &clap::Error) {
    let text = error.render();
    // As above: nobody is left to be told.
    let _ = if error.use_stderr() {
        write!(anstream::stderr(), "{}", text.ansi())
    } else {
        print(&text.ansi().to_string())
    };
}

fn unless_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
