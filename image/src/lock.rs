//! Spin locks. Each is handed a function that its waiters call between two looks, so that it knows nothing of parking.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::cpu::relax;

/// A lock that one context holds at a time. What it guards is elsewhere.
///
/// A CPU that finds others waiting lets them go first. Otherwise a long operation, which takes the lock again right after
/// it has released it, would keep all others out.
#[repr(C)]
pub(crate) struct Lock {
    /// The lowest byte is 1 while the lock is held. The others count the CPUs that wait for it. So a free lock is taken
    /// by one look at one word, and released by one store of a byte, which leaves the count alone.
    word: AtomicU32,
    /// A waiter calls this between two looks.
    meanwhile: fn(),
}

/// The byte that says that the lock is held.
const HELD: u32 = 0xff;
/// One CPU that waits.
const WAITER: u32 = 0x100;

/// The lock, held until this is dropped.
pub(crate) struct Taken<'a> {
    lock: &'a Lock,
}

impl Lock {
    /// Makes a lock that is free. Its waiters call `meanwhile` between two looks.
    pub(crate) const fn new(meanwhile: fn()) -> Self {
        Self { word: AtomicU32::new(0), meanwhile }
    }

    /// Waits for the lock and takes it.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Taken<'_> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }

    /// Takes the lock if it is free and no CPU waits for it.
    ///
    /// In assembly, as the release stores to a byte of the word, which an atomic of Rust cannot.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Taken<'_>> {
        // SAFETY: the word goes from 0 to 1, or stays; LDAXR acquires what the release of the lock released. No access
        // to memory is moved across it.
        unsafe {
            asm!(
                "2: ldaxr {seen:w}, [{word}]",
                "cbnz {seen:w}, {held}",
                "stxr {seen:w}, {one:w}, [{word}]",
                "cbnz {seen:w}, 2b",
                word = in(reg) self.word.as_ptr(),
                one = in(reg) 1u32,
                seen = out(reg) _,
                held = label { return None },
                options(nostack, preserves_flags),
            );
        }
        Some(Taken { lock: self })
    }

    /// Takes the lock as soon as it is free. Out of line, so that taking a free lock stays short.
    #[cold]
    #[inline(never)]
    fn wait(&self) -> Taken<'_> {
        /// The looks by which earlier waiters are ahead of a later one.
        const HEAD_START: u32 = 64;
        let others = self.word.fetch_add(WAITER, Ordering::Relaxed) >= WAITER;
        let mut behind = if others { HEAD_START } else { 0 };
        while behind != 0 || !self.take_after_waiting() {
            (self.meanwhile)();
            relax();
            behind = behind.saturating_sub(1);
        }
        Taken { lock: self }
    }

    /// Tries once, for a CPU that is counted as a waiter; may fail spuriously.
    fn take_after_waiting(&self) -> bool {
        let seen = self.word.load(Ordering::Relaxed);
        let taken = (seen - WAITER) | 1;
        seen & HELD == 0
            && self.word.compare_exchange_weak(seen, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl Drop for Taken<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this context holds the lock, so the byte is its to clear. STLRB releases what it did meanwhile. A CPU
        // that is changing the count at the same time finds the word changed, and tries again.
        unsafe {
            asm!("stlrb wzr, [{word}]", word = in(reg) self.lock.word.as_ptr(), options(nostack, preserves_flags));
        }
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
