//! Output of the process: data on stdout, messages on stderr, colours if they are wanted. Writing never panics, and a
//! pipe that the reader closed is not an error.
//!
//! Untrusted text reaches a terminal without control characters other than styles. A terminal with a locale other
//! than UTF-8 gets the drawing characters of this command as ASCII.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use serde_json::Value;

use crate::printable::{harmless, text_lines};
use crate::progress;

/// The style of headings.
pub(crate) const HEADING: Style = Style::new().bold();
/// The style of secondary text.
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
    /// Applies this choice to the whole process.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Prints an error on stderr.
pub(crate) fn error(text: impl Display) {
    message(ERROR, "error", text);
}

/// Prints a note on stderr.
pub(crate) fn note(text: impl Display) {
    message(NOTE, "note", text);
}

fn message(style: Style, label: &str, text: impl Display) {
    progress::end();
    let text = text_lines(&text.to_string());
    // If stderr is gone, there is no place to complain.
    let _ = writeln!(anstream::stderr(), "{style}{label}:{style:#} {}", in_locale(&text));
}

/// Returns true if stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns the columns of the terminal behind stdout; `None` if it is not a terminal.
pub(crate) fn width() -> Option<u16> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok())??;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Returns the rows of the terminal behind stdout; `None` if it is none on which the cursor can be moved. One that does
/// not tell has as many as fit on the oldest.
pub(crate) fn rows() -> Option<u16> {
    let out = io::stdout();
    let is_screen = out.is_terminal() && !progress::is_dumb();
    let size = || rustix::termios::tcgetwinsize(&out).ok().map(|size| size.ws_row);
    is_screen.then(|| size().filter(|rows| *rows > 0).unwrap_or(24))
}

/// Returns true if the locale has the characters that tables are drawn with: UTF-8, or no locale at all.
fn is_utf8() -> bool {
    let named = |name| std::env::var(name).ok().filter(|locale| !locale.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(named);
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Replaces the characters of this command that are not ASCII, if the locale lacks them.
fn in_locale(text: &str) -> Cow<'_, str> {
    if is_utf8() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('─', "-").replace('…', "...").replace(char::REPLACEMENT_CHARACTER, "?"))
}

/// Writes text with styles to stdout.
pub(crate) fn print(text: &str) -> io::Result<()> {
    progress::end();
    let mut out = anstream::stdout();
    let text = harmless(text);
    unless_closed(out.write_all(in_locale(&text).as_bytes()).and_then(|()| out.flush()))
}

/// Writes text with styles to stdout, for a command that goes on. Returns false if nobody reads it any more.
pub(crate) fn print_on(text: &str) -> io::Result<bool> {
    progress::end();
    let mut out = anstream::stdout();
    let text = harmless(text);
    is_read(out.write_all(in_locale(&text).as_bytes()).and_then(|()| out.flush()))
}

/// Writes text with styles over what the terminal shows. Returns false if nobody reads it any more.
pub(crate) fn repaint(text: &str) -> io::Result<bool> {
    progress::end();
    let mut out = io::stdout();
    let cleared = out.write_all(b"\x1b[H\x1b[J").and_then(|()| out.flush());
    if is_read(cleared)? { print_on(text) } else { Ok(false) }
}

fn is_read(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true),
    }
}

/// Writes one JSON document to stdout.
pub(crate) fn print_document(document: &Value) -> io::Result<()> {
    progress::end();
    let mut out = io::stdout();
    let text = json_text(document);
    unless_closed(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// Returns a document as text, with all control characters escaped, also those that JSON allows.
pub(crate) fn json_text(document: &Value) -> String {
    let text = format!("{document:#}");
    if !text.chars().any(|character| matches!(character, '\u{7f}'..='\u{9f}')) {
        return text;
    }
    let escaped = text.chars().map(|character| match character {
        '\u{7f}'..='\u{9f}' => format!("\\u{:04x}", u32::from(character)),
        _ => character.to_string(),
    });
    escaped.collect()
}

/// Writes a large amount of data to stdout, in parts.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    progress::end();
    if !is_terminal() {
        progress::begin("writing");
    }
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    progress::end();
    unless_closed(written)
}

/// Writes clap's help to stdout, or its error to stderr.
///
/// # Errors
///
/// The help cannot be written.
pub(crate) fn print_clap(error: &clap::Error, tip: Option<&str>) -> io::Result<()> {
    let text = error.render().ansi().to_string();
    if !error.use_stderr() {
        return print(&text);
    }
    let tip = tip.map(|tip| format!("\n{}\n", in_locale(&text_lines(tip)))).unwrap_or_default();
    // If stderr is gone, there is no place to complain.
    let _ = write!(anstream::stderr(), "{}{tip}", in_locale(&harmless(&text)));
    Ok(())
}

fn unless_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
