//! The log of a console becomes the document of one boot: its lines for programs are merged as `linmap boot` does. A log may have
//! several boots, and may be cut off.

use std::path::Path;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::failure::Failure;
use crate::commands::boot::console::{MARK, Piece, Splitter};
use crate::commands::boot::document::Document;
use crate::commands::boot::transcript::Transcript;

/// Returns true if there are lines for programs.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(MARK))
}

/// Returns the document of the last boot that measured and finished, else of the last that measured, else of the last, and how
/// many others measured before it.
pub(super) fn last_boot(path: &Path, log: &[u8]) -> Result<(Document, usize), Failure> {
    let boots = boots(without_a_cut_line(log));
    let measured = |boot: &Transcript| boot.document.at("/measure").is_some();
    let finished = |boot: &Transcript| boot.document.flag("/finished") == Some(true);
    let last = boots.iter().rposition(|boot| measured(boot) && finished(boot));
    let last = last.or_else(|| boots.iter().rposition(measured)).unwrap_or(boots.len() - 1);
    let boot = &boots[last];
    match boot.malformed_lines() {
        Some((_, why)) => Err(Failure::Line { path: path.into(), why: why.to_owned() }),
        None => Ok((boot.document.clone(), boots[..last].iter().filter(|boot| measured(boot)).count())),
    }
}

/// Returns the boots of a log, at least one.
fn boots(log: &[u8]) -> Vec<Transcript> {
    let (mut splitter, mut boot, mut before) = (Splitter::default(), Transcript::default(), Vec::new());
    for piece in splitter.push(log).into_iter().chain(splitter.finish()) {
        if matches!(&piece, Piece::Document(line) if has_schema(line))
            && boot.document.at("/schema").is_some()
        {
            before.push(std::mem::take(&mut boot));
        }
        boot.take(piece);
    }
    before.push(boot);
    before
}

/// Returns true if a line for programs is the one of its boot that names the schema.
fn has_schema(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|part| part.get("schema").is_some())
}

/// Returns a log without a last line for programs that is not whole.
fn without_a_cut_line(log: &[u8]) -> &[u8] {
    let last = log.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let cut = log[last..]
        .strip_prefix(MARK)
        .is_some_and(|json| serde_json::from_slice::<IgnoredAny>(json).is_err());
    if cut { &log[..last] } else { log }
}
