//! The number of entries that one hold may still read and write.

use core::cell::Cell;

use crate::edit::Stop;

/// The rest of a hold.
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    /// The entries that an extent counts as: it is looked up, and its alias surveyed and changed.
    pub(crate) const EXTENT: usize = 32;

    pub(crate) const fn new(entries: usize) -> Self {
        Self(Cell::new(entries))
    }

    /// Returns the last entry, up to `last`, for which it suffices, from one on.
    ///
    /// # Errors
    ///
    /// Nothing is left.
    #[inline]
    pub(crate) fn last(&self, index: usize, last: usize) -> Result<usize, Stop> {
        match self.0.get() {
            0 => Err(Stop::TooLong),
            left => Ok(last.min(index.saturating_add(left - 1))),
        }
    }

    /// Takes so many entries.
    ///
    /// # Errors
    ///
    /// There are fewer.
    #[inline]
    pub(crate) fn take(&self, entries: usize) -> Result<(), Stop> {
        self.0.set(self.0.get().checked_sub(entries).ok_or(Stop::TooLong)?);
        Ok(())
    }

    /// Returns the number of entries that are left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.0.get()
    }

    /// Keeps so many entries of those that were left.
    #[inline]
    pub(crate) fn keep(&self, entries: usize) {
        self.0.set(entries);
    }
}
