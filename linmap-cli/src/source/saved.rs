//! Dumps that were saved: the text of `kernel_page_tables`, or what `linmap dump --json` wrote.
//!
//! - `json`: that document, both ways.  `text`: what Linux prints.

mod json;
mod text;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) use json::{JsonError, row};
pub(crate) use text::TextError;

use super::Saved;
use super::error::Why;
use crate::printable::excerpt;

/// No dump is longer.
const LONGEST: u64 = 1 << 30;
/// More rows than the map of any machine has.
const MOST_ROWS: usize = 1 << 22;

/// Reads a file of so many bytes that begins with these.
pub(super) fn open(path: &Path, file: &File, bytes: u64, beginning: &[u8]) -> Result<Saved, Why> {
    let start = beginning.trim_ascii_start();
    let is_json = start.starts_with(b"{");
    if !is_json && !text::begins(start) {
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or(start);
        return Err(Why::NotRecognised { beginning: excerpt(&String::from_utf8_lossy(line), 40) });
    }
    if bytes > LONGEST {
        return Err(Why::TooLong { bytes, most: LONGEST });
    }
    let mut content = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut content, 0)?;
    let saved = if is_json { json::read(&content)? } else { text::read(&String::from_utf8_lossy(&content))? };
    let kind = if is_json { "saved dump" } else { "saved text" };
    Ok(Saved { name: format!("{kind} `{}`", path.display()), ..saved })
}
