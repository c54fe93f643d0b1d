//! Tables above a gigabyte that have been published, and that walkers may not see yet.
//!
//! The publisher of such a table has the locks of some gigabytes below it. Callers in other gigabytes reach the table under
//! their own locks as soon as it is stored, which may be before the publisher's DSB. One that makes something valid below it
//! looks here first, and waits for the publisher's lock if need be. So it returns only when walkers see all of the way down.

use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicU64, fence};

/// The number of callers that publish such a table.
#[derive(Debug)]
pub(crate) struct Publishing(AtomicU64);

impl Publishing {
    pub(crate) const fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins, before the store of the table.
    pub(crate) fn begins(&self) {
        self.0.fetch_add(1, Relaxed);
        fence(Release);
    }

    /// Ends, after a DSB.
    pub(crate) fn ends(&self) {
        self.0.fetch_sub(1, Release);
    }

    /// Returns true if walkers may not see a table yet that the caller has loaded an entry for.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        fence(Acquire);
        self.0.load(Acquire) != 0
    }
}
