//! Bytes that a test reads while something writes them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A log in memory, of which each clone is the same.
#[derive(Clone, Default, Debug)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the bytes so far, and forgets them.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
