//! The words that the holders of one lock store, in cache lines of their own, so that holders of different locks share no line while no
//! repaint runs.

use crate::build::Counters;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicU64, fence};

/// The state that belongs to one lock. Its holder stores to it; others may read it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Share {
    /// The sum over all shares is what the map has. One share may have less than nothing: a table that was built in one
    /// hold is given back in another.
    pub(crate) counters: Counters,
    /// Odd while a holder may be changing tables, even otherwise.
    version: AtomicU64,
    /// The parts of gigabytes that have changed since a repaint began, where [`Marks`](crate::share::map_state::Marks) has no word for it.
    pub(crate) marks: AtomicU64,
}

impl Share {
    pub(crate) const fn new() -> Self {
        Self { counters: Counters::new(), version: AtomicU64::new(0), marks: AtomicU64::new(0) }
    }

    /// Returns the version for a reader without the lock.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Says that the holder may change tables from now on. A reader that sees one of its stores then sees this, too.
    #[inline(always)]
    pub(crate) fn changes_begin(&self) -> u64 {
        let version = self.version.load(Relaxed);
        self.version.store(version + 1, Relaxed);
        fence(Release);
        version
    }

    /// Says that the changes after [`changes_begin`](Self::changes_begin), which returned `version`, are done.
    #[inline(always)]
    pub(crate) fn changes_end(&self, version: u64) {
        self.version.store(version + 2, Release);
    }
}
