//! A spin lock for CPUs that share memory, without what it guards. Whoever waits asks in between whether another
//! CPU parks this one.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::cpu::relax;
use crate::parking;

/// A lock that one context has at a time.
pub(crate) struct Lock {
    taken: AtomicBool,
}

/// The lock, taken until this is dropped.
pub(crate) struct Taken<'a> {
    lock: &'a Lock,
}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self { taken: AtomicBool::new(false) }
    }

    /// Waits for the lock and takes it.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Taken<'_> {
        if !self.take() {
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
        while !self.take() {
            while self.taken.load(Ordering::Relaxed) {
                parking::answer_if_asked();
                relax();
            }
        }
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
