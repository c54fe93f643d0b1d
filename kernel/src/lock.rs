//! A spin lock for CPUs that share memory, without what it guards. Whoever waits asks in between whether another
//! CPU parks this one.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::cpu::relax;
use crate::parking;

/// A lock that one context has at a time.
///
/// Who finds others waiting lets them go first: a repaint, which takes the lock again as soon as it has let go of it,
/// would otherwise keep all others out.
pub(crate) struct Lock {
    taken: AtomicBool,
    /// How many wait for it.
    waiting: AtomicU32,
}

/// The lock, taken until this is dropped.
pub(crate) struct Taken<'a> {
    lock: &'a Lock,
}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self { taken: AtomicBool::new(false), waiting: AtomicU32::new(0) }
    }

    /// Waits for the lock and takes it.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Taken<'_> {
        if self.waiting.load(Ordering::Relaxed) != 0 || !self.take() {
            self.wait();
        }
        Taken { lock: self }
    }

    /// Takes it if it is free, and seldom not even then.
    #[inline(always)]
    fn take(&self) -> bool {
        self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it as soon as it is free. Out of line, so that those who need not wait are short.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        /// So many looks the others have before who has come last.
        const HEAD_START: u32 = 64;
        let mut behind = if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 { 0 } else { HEAD_START };
        while behind != 0 || !self.take() {
            parking::answer_if_asked();
            relax();
            behind = behind.saturating_sub(1);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Taken<'_>> {
        let taken = self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(Taken { lock: self })
    }
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
    }
}
