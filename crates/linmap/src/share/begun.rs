//! How often something began that excludes others. Who looks without a lock learns by it that nothing began meanwhile.

use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicU64, fence};

/// The number of times, which never comes back.
#[derive(Debug)]
pub(crate) struct Begun(AtomicU64);

impl Begun {
    pub(crate) const fn never() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Says that something has begun. What the caller stored before is known to who knows the number; what it stores later is
    /// seen by nobody who does not know the number. The caller holds a lock, the same each time.
    pub(crate) fn another(&self) {
        self.0.fetch_add(1, Release);
        fence(Release);
    }

    /// Asks whether something is under way, then looks. Returns what was found, and whether something may have been under way
    /// then: it was, or began meanwhile. If not, the look has found all that was stored by whatever `is_under_way` knows to be over.
    pub(crate) fn look<T>(&self, is_under_way: impl FnOnce() -> bool, look: impl FnOnce() -> T) -> (T, bool) {
        let before = self.0.load(Acquire);
        let under_way = is_under_way();
        fence(Acquire);
        let found = look();
        fence(Acquire);
        (found, under_way || self.0.load(Relaxed) != before)
    }
}
