//! Recorded traces: read line by line, in bounded memory. An error names the file and the line.
//!
//! - `line`: what a line can say.  `formats`: the lines of each format.

mod formats;
mod line;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::quoted::quoted;
use formats::Parser;
pub(crate) use line::{Access, Address};
pub use line::{TraceFormat, TraceProblem};

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },

    /// A line cannot be used.
    #[error("`{}`:{line}: `{text}`: {problem}", path.display())]
    Line { path: PathBuf, line: u64, text: String, problem: TraceProblem },

    /// No line has an access to data.
    #[error("`{}` has no access to data in {lines} lines", path.display())]
    Empty { path: PathBuf, lines: u64 },
}

/// The longest line, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Calls `each` for every access of a trace, until it returns false or an error, which becomes the line's.
pub(crate) fn read(
    path: &Path,
    format: TraceFormat,
    mut each: impl FnMut(Access) -> Result<bool, TraceProblem>,
) -> Result<(), TraceError> {
    let unreadable = |error| TraceError::Unreadable { path: path.to_owned(), error };
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(unreadable)?);
    let mut parser = Parser::new(format);
    let (mut line, mut number, mut accesses) = (Vec::new(), 0u64, 0u64);
    while read_line(&mut file, &mut line).map_err(unreadable)? {
        number += 1;
        let mut going = true;
        let parsed = text(&line).and_then(|text| {
            let mut result = Ok(());
            parser.line(text, &mut |access| {
                accesses += 1;
                if going && result.is_ok() {
                    result = each(access).map(|more| going = more);
                }
            })?;
            result
        });
        parsed.map_err(|problem| TraceError::Line {
            path: path.to_owned(),
            line: number,
            text: quoted(&String::from_utf8_lossy(&line[..line.len().min(400)]), 80),
            problem,
        })?;
        if !going {
            return Ok(());
        }
    }
    match accesses {
        0 => Err(TraceError::Empty { path: path.to_owned(), lines: number }),
        _ => Ok(()),
    }
}

/// Reads one line, or a little more than the longest one allowed; returns false at the end of the file.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let length = file.by_ref().take(MAX_LINE as u64 + 2).read_until(b'\n', line)?;
    Ok(length != 0)
}

/// Returns a line as text.
fn text(line: &[u8]) -> Result<&str, TraceProblem> {
    if line.len() > MAX_LINE {
        return Err(TraceProblem::TooLong);
    }
    std::str::from_utf8(line).map_err(|_| TraceProblem::NotText)
}
