//! Opens bytes by name: a file, which can be read anywhere, or a pipe, which is read to its end.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::error::Problem;

/// The wait for a writer of a named pipe.
const NO_WRITER: Duration = Duration::from_secs(10);
/// The interval of checks for one.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes to read.
pub(super) enum Input {
    /// A file of so many bytes.
    File(File, u64),
    /// A pipe, or something else that is read from its beginning to its end.
    Pipe(Box<dyn Read>),
}

/// Opens a file or a pipe by its path.
pub(super) fn named(path: &Path) -> Result<Input, Problem> {
    // Before opening it: that can block or have an effect.
    let about = fs::metadata(path).map_err(Problem::Open)?;
    let kind = about.file_type();
    if kind.is_fifo() {
        return fifo(path);
    }
    if !kind.is_file() {
        return Err(Problem::NotAFile { directory: kind.is_dir() });
    }
    let file = File::open(path).map_err(Problem::Open)?;
    let bytes = file.metadata()?.len();
    Ok(Input::File(file, bytes))
}

/// Opens the standard input: a file if it is one.
pub(super) fn standard() -> Result<Input, Problem> {
    let file = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(Problem::Open)?);
    let about = file.metadata().map_err(Problem::Open)?;
    match about.file_type() {
        kind if kind.is_file() => Ok(Input::File(file, about.len())),
        kind if kind.is_dir() => Err(Problem::NotAFile { directory: true }),
        _ => Ok(Input::Pipe(Box::new(file))),
    }
}

/// Opens a named pipe. Opening one for reading usually blocks until there is a writer; this wait ends.
fn fifo(path: &Path) -> Result<Input, Problem> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0i32);
    let mut file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(Problem::Open)?;
    let begun = Instant::now();
    let mut first = [0];
    let read = loop {
        match file.read(&mut first) {
            // Nobody has it open for writing, yet or any more.
            Ok(0) if begun.elapsed() > NO_WRITER => {
                return Err(Problem::NoWriter { seconds: NO_WRITER.as_secs() });
            }
            Ok(0) => thread::sleep(LOOK),
            Ok(read) => break read,
            // A writer has it open, and will write or close it.
            Err(error) if error.kind() == ErrorKind::WouldBlock => break 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    };
    let flags = fcntl_getfl(&file).map_err(io::Error::from)?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK)).map_err(io::Error::from)?;
    Ok(Input::Pipe(Box::new(io::Cursor::new(first).take(read as u64).chain(file))))
}
