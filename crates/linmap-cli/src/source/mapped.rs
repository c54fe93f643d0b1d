//! Maps a file into memory, to search all of it: the only unsafe line of the command.

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap};

/// Maps a whole file for reading.
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the bytes are only read, and nothing relies on them to stay as they are: each is treated as a number,
    // and what is found is read again by `pread`. If the file is truncated meanwhile, SIGBUS ends the process, as for
    // any reader of a mapping.
    let mapping = unsafe { Mmap::map(file) }?;
    // Only a hint.
    let _ = mapping.advise(Advice::Sequential);
    Ok(mapping)
}
