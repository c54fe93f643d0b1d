//! A file mapped into memory, to look for something in all of it: the only unsafe line of the command.

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap};

/// Maps a whole file for reading.
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the bytes are read only, and nothing is built on their staying as they are: each is looked at
    // as a number, and what is found is read again by `pread`. A file that is cut short meanwhile ends the
    // process by SIGBUS, as it would any reader of a mapping.
    let mapping = unsafe { Mmap::map(file) }?;
    // Only a hint.
    let _ = mapping.advise(Advice::Sequential);
    Ok(mapping)
}
