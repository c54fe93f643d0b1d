//! Saved dumps: the text of `kernel_page_tables`, or the output of `linmap dump --json`.
//!
//! - `form`: that document, key by key.  `json`: reads and writes it.  `text`: reads the text of Linux.

mod form;
mod json;
mod text;

use std::io::Read;

pub(crate) use json::{JsonError, SCHEMA, cpu_document, kernel_document, limits_document, row};
pub(crate) use text::TextError;

use super::Saved;
use super::error::Problem;
use crate::printable::excerpt;

/// The most bytes of a dump.
const MAX_BYTES: u64 = 1 << 30;

/// The form of a dump.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Text,
}

/// Recognises the form of a dump by its first bytes.
pub(super) fn recognised(beginning: &[u8]) -> Result<Kind, Problem> {
    let start = beginning.trim_ascii_start();
    if start.starts_with(b"{") {
        return Ok(Kind::Json);
    }
    if text::begins(start) {
        return Ok(Kind::Text);
    }
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or(start);
    Err(Problem::NotRecognised { beginning: excerpt(&String::from_utf8_lossy(line), 40) })
}

/// Returns an error if a dump cannot be so long.
pub(super) fn within(bytes: u64) -> Result<(), Problem> {
    if bytes > MAX_BYTES { Err(Problem::TooLong { bytes, most: MAX_BYTES }) } else { Ok(()) }
}

/// Reads a whole dump. `name` is for people.
pub(super) fn read(kind: Kind, name: &str, from: &mut dyn Read) -> Result<Saved, Problem> {
    let mut content = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    within(content.len() as u64)?;
    let (what, saved) = match kind {
        Kind::Json => ("saved dump", json::read(&content)?),
        Kind::Text => ("saved text", text::read(&String::from_utf8_lossy(&content))?),
    };
    let origin = saved.origin.as_deref().map(|origin| format!(" of {}", crate::printable::line(origin)));
    Ok(Saved { name: format!("{what} `{name}`{}", origin.unwrap_or_default()), ..saved })
}
