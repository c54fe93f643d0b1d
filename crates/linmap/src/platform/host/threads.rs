//! Threads of the host as the CPUs of a kernel: spin locks, barriers, and counters of readers.

extern crate std;

use core::hint::spin_loop;
use core::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::thread::yield_now;

use crate::format::{Geometry, Pa, Tlbi, Va};
use crate::platform::entry_update::EntryUpdate;
use crate::platform::hardware::{CannotPark, Dsb, Hardware, Promise};
use crate::platform::memory::{Frame, Memory};
use crate::platform::readers::Readers;
use crate::platform::sharing::Sharing;

/// Hardware for several threads that change the same tables, which no CPU translates by.
///
/// Its locks spin, and let another thread run if that takes long. An operation that overlaps another's claim waits, unless
/// [`never_waits`](Self::never_waits) says otherwise. Readers wait for nobody. There are no CPUs to park.
#[derive(Debug)]
pub struct Threads<const LOCKS: usize = 64, const HOLD: usize = 4096> {
    locks: [Padded; LOCKS],
    readers: Readers<64, 1024>,
    waits: bool,
}

/// A lock in a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicBool);

/// The number of looks at a taken lock before another thread may run. The machine may have fewer CPUs than threads.
const LOOKS: u32 = 64;

impl<const LOCKS: usize, const HOLD: usize> Threads<LOCKS, HOLD> {
    /// Returns hardware whose locks are free.
    #[must_use]
    pub const fn new() -> Self {
        let locks = [const { Padded(AtomicBool::new(false)) }; LOCKS];
        Self { locks, readers: Readers::new(), waits: true }
    }

    /// Makes this the hardware of callers that cannot wait: [`Sharing::wait`] returns false.
    #[must_use]
    pub const fn never_waits(self) -> Self {
        Self { waits: false, ..self }
    }

    /// Returns the sections of the threads, and the pages that wait for their end.
    pub const fn readers(&self) -> &Readers<64, 1024> {
        &self.readers
    }
}

impl<const LOCKS: usize, const HOLD: usize> Default for Threads<LOCKS, HOLD> {
    fn default() -> Self {
        Self::new()
    }
}

/// A held lock of [`Threads`].
#[derive(Debug)]
pub struct ThreadsHeld<'h>(&'h AtomicBool);

impl Drop for ThreadsHeld<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// Returns a number for this thread. Two threads can have the same.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Relaxed);
    }
    NUMBER.with(|number| *number % 64)
}

// SAFETY: no walker and no TLB sees the tables, so a barrier has to order the accesses of threads only, as the fence does.
// There are no CPUs to park.
unsafe impl<const LOCKS: usize, const HOLD: usize> Hardware for Threads<LOCKS, HOLD> {
    fn promise(&self) -> Promise {
        Promise { never_aborts: true, range_tlbi: true, repeat_tlbi: false }
    }

    #[inline]
    fn dsb(&self, _: Dsb) {
        fence(SeqCst);
    }

    fn isb(&self) {}
    fn tlbi(&self, _: Tlbi, _: Geometry) {}
    fn sync_code(&self, _: Va, _: u64) {}

    unsafe fn park(&self, _: &impl Memory, _: Pa, _: &[EntryUpdate]) -> Result<(), CannotPark> {
        Err(CannotPark)
    }
}

// SAFETY: a lock is taken by one thread at a time, which sees all that the holder before it did. A page is retired to the
// counters of all readers.
unsafe impl<const LOCKS: usize, const HOLD: usize> Sharing for Threads<LOCKS, HOLD> {
    const LOCKS: usize = LOCKS;
    const HOLD: usize = HOLD;

    type Held<'h> = ThreadsHeld<'h>;

    #[inline]
    fn lock(&self, number: usize) -> ThreadsHeld<'_> {
        let Padded(lock) = &self.locks[number];
        while lock.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            let mut looks = 0;
            // Looking leaves the line with its owner.
            while lock.load(Relaxed) {
                looks += 1;
                if looks % LOOKS == 0 { yield_now() } else { spin_loop() }
            }
        }
        ThreadsHeld(lock)
    }

    fn wait(&self) -> bool {
        if self.waits {
            yield_now();
        }
        self.waits
    }

    #[inline]
    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        let _section = self.readers.enter(number());
        work()
    }

    fn retire(&self, memory: &impl Memory, mut frame: Frame) {
        // The list of a kernel has room for all its tables. Here the readers go on running, so a full list gets room again.
        while let Err(same) = self.readers.retire(memory, frame) {
            frame = same;
            yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_that_never_waits_says_so() {
        let threads = Threads::<64, 64>::new();
        assert!(threads.wait());
        assert!(!threads.never_waits().wait());
    }
}
