//! Spin locks. Each is handed a function that its waiters call between two looks, so that it knows nothing of parking.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::cpu::relax;

/// A lock that one context holds at a time. What it guards is elsewhere.
///
/// A CPU that finds others waiting lets them go first. Otherwise a repaint, which takes the lock again right after it
/// has released it, would keep all others out.
pub(crate) struct Lock {
    taken: AtomicBool,
    /// The number of CPUs that wait for it.
    waiting: AtomicU32,
    /// A waiter calls this between two looks.
    meanwhile: fn(),
}

/// The lock, held until this is dropped.
pub(crate) struct Taken<'a> {
    lock: &'a Lock,
}

impl Lock {
    /// Makes a lock that is free. Its waiters call `meanwhile` between two looks.
    pub(crate) const fn new(meanwhile: fn()) -> Self {
        Self { taken: AtomicBool::new(false), waiting: AtomicU32::new(0), meanwhile }
    }

    /// Waits for the lock and takes it.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Taken<'_> {
        if self.waiting.load(Ordering::Relaxed) != 0 || !self.take() {
            self.wait();
        }
        Taken { lock: self }
    }

    /// Tries once; may fail spuriously.
    #[inline(always)]
    fn take(&self) -> bool {
        self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock as soon as it is free. Out of line, so that taking a free lock stays short.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        /// The looks by which earlier waiters are ahead of a later one.
        const HEAD_START: u32 = 64;
        let mut behind = if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 { 0 } else { HEAD_START };
        while behind != 0 || !self.take() {
            (self.meanwhile)();
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

/// A value and the lock on it.
pub(crate) struct Guarded<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used by the holder of the lock alone.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// Guards a value by a lock that calls `meanwhile` as [`Lock::new`] says.
    pub(crate) const fn new(value: T, meanwhile: fn()) -> Self {
        Self { lock: Lock::new(meanwhile), value: UnsafeCell::new(value) }
    }

    /// Works on the value while the lock is held. `work` must not take the same lock: it would wait for itself.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let _taken = self.lock.lock();
        // SAFETY: the lock is held, and `work` cannot get a second reference, as that takes the lock.
        work(unsafe { &mut *self.value.get() })
    }
}
