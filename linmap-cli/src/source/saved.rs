//! Dumps that were saved: the text of `kernel_page_tables`, or what `linmap dump --json` wrote.
//!
//! - `form`: that document, key by key.  `json`: reading and writing it.  `text`: what Linux prints.

mod form;
mod json;
mod text;

use std::io::Read;

pub(crate) use json::{JsonError, SCHEMA, cpu_document, kernel_document, limits_document, row};
pub(crate) use text::TextError;

use super::Saved;
use super::error::Why;
use crate::printable::excerpt;

/// No dump is longer.
const LONGEST: u64 = 1 << 30;
/// More rows than the map of any machine has.
const MOST_ROWS: usize = 1 << 22;

/// What a dump was saved as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Text,
}

/// What it is that begins so.
pub(super) fn recognised(beginning: &[u8]) -> Result<Kind, Why> {
    let start = beginning.trim_ascii_start();
    if start.starts_with(b"{") {
        return Ok(Kind::Json);
    }
    if text::begins(start) {
        return Ok(Kind::Text);
    }
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or(start);
    Err(Why::NotRecognised { beginning: excerpt(&String::from_utf8_lossy(line), 40) })
}

/// Whether a dump can be so long.
pub(super) fn within(bytes: u64) -> Result<(), Why> {
    if bytes > LONGEST { Err(Why::TooLong { bytes, most: LONGEST }) } else { Ok(()) }
}

/// Reads all of a dump that is called so.
pub(super) fn read(kind: Kind, name: &str, from: &mut dyn Read) -> Result<Saved, Why> {
    let mut content = Vec::new();
    from.take(LONGEST + 1).read_to_end(&mut content)?;
    within(content.len() as u64)?;
    let (what, saved) = match kind {
        Kind::Json => ("saved dump", json::read(&content)?),
        Kind::Text => ("saved text", text::read(&String::from_utf8_lossy(&content))?),
    };
    let origin = saved.origin.as_deref().map(|origin| format!(" of {}", crate::printable::line(origin)));
    Ok(Saved { name: format!("{what} `{name}`{}", origin.unwrap_or_default()), ..saved })
}
