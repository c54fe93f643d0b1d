//! The contents of a file that can be read anywhere, as it is or put together from makedumpfile's flattened form.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::flattened::{Flattened, FlattenedError};

/// The contents of a file.
#[derive(Debug)]
pub(super) struct Bytes {
    file: File,
    length: u64,
    flattened: Option<Flattened>,
}

/// A part of a file that is beyond its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PartError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error(
        "it is not whole: {what} should end at byte {end}, and the file has {length}; was there room for all of it?"
    )]
    Truncated { what: &'static str, end: u64, length: u64 },
    #[error("it is damaged: a length in it is beyond any file")]
    Beyond,
}

impl Bytes {
    /// Returns the contents of a file of so many bytes.
    pub(super) const fn of(file: File, length: u64) -> Self {
        Self { file, length, flattened: None }
    }

    /// Returns the contents of the file that these, which are flattened, describe.
    pub(super) fn flattened(self) -> Result<Self, FlattenedError> {
        let flattened = Flattened::read(&self.file, self.length)?;
        Ok(Self { length: flattened.length(), flattened: Some(flattened), ..self })
    }

    /// Returns the file that has these bytes one after the other, if there is one.
    pub(super) const fn plain(&self) -> Option<&File> {
        if self.flattened.is_none() { Some(&self.file) } else { None }
    }

    /// Fills `into` from the bytes at `offset`.
    pub(super) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.flattened {
            Some(flattened) => flattened.read_at(&self.file, into, offset),
            None => self.file.read_exact_at(into, offset),
        }
    }

    /// Returns the first bytes, at most so many.
    pub(super) fn beginning(&self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most.min(usize::try_from(self.length).unwrap_or(most))];
        self.read_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Fails unless so many bytes from `offset` on are there. `what` is their name for people.
    pub(super) fn has(&self, what: &'static str, offset: u64, length: u64) -> Result<(), PartError> {
        let end = offset.checked_add(length).ok_or(PartError::Beyond)?;
        if end > self.length { Err(PartError::Truncated { what, end, length: self.length }) } else { Ok(()) }
    }

    /// Returns a part of the contents.
    pub(super) fn part(&self, what: &'static str, offset: u64, length: u64) -> Result<Vec<u8>, PartError> {
        self.has(what, offset, length)?;
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| PartError::Beyond)?];
        self.read_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}
