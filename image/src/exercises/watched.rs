//! The CPUs and their locks as a platform that is watched: an exercise is told when a lock is taken and released.

use linmap::arch::Tlbi;
use linmap::{CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Va};

use crate::cpu::relax;
use crate::hardware::{self, HARDWARE, Held, Kernel};

/// Something that watches locks.
pub(super) trait Watch: Sync {
    /// A CPU is about to take a lock.
    fn before(&self) {}
    /// A CPU has taken a lock, and may have found it held.
    fn taken(&self, number: usize, found_held: bool) {
        _ = (number, found_held);
    }
    /// A CPU is about to release a lock.
    fn released(&self) {}
}

/// The watched CPUs. The locks are those of [`HARDWARE`].
pub(super) struct Watched<'a> {
    /// The watcher.
    pub(super) watch: &'a dyn Watch,
    /// Other CPUs may run at each barrier, at each invalidation, and while a lock is held. Without this QEMU, where CPUs
    /// take turns, lets a CPU run for as many instructions as thousands of changes take.
    pub(super) yields: bool,
    /// The tables are in no TTBR, and one CPU changes them. So nothing is parked, and nobody is waited for.
    pub(super) idle: bool,
}

/// A lock, held.
pub(super) struct WatchedHeld<'a> {
    watch: &'a dyn Watch,
    _held: Held,
}

impl Drop for WatchedHeld<'_> {
    fn drop(&mut self) {
        self.watch.released();
    }
}

impl Watched<'_> {
    #[inline]
    fn step(&self) {
        if self.yields {
            relax();
        }
    }
}

// SAFETY: promise and primitives are those of `HARDWARE`. Tables that are `idle` are used by no CPU, so what others
// do is right while entries of them change.
unsafe impl Hardware for Watched<'_> {
    fn promise(&self) -> Promise {
        let Promise { never_aborts, range_tlbi, repeat_tlbi } = HARDWARE.promise();
        // No walker reaches idle tables.
        Promise { never_aborts: never_aborts || self.idle, range_tlbi, repeat_tlbi }
    }

    fn dsb(&self, kind: Dsb) {
        HARDWARE.dsb(kind);
        self.step();
    }

    fn isb(&self) {
        HARDWARE.isb();
        self.step();
    }

    #[inline]
    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        HARDWARE.tlbi(op, geometry);
        self.step();
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        HARDWARE.sync_code(va, bytes);
    }

    fn call(&self) -> Result<(), CannotPark> {
        if self.idle { Ok(()) } else { HARDWARE.call() }
    }

    unsafe fn park(&self, memory: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        if !self.idle {
            // SAFETY: the caller's promise.
            return unsafe { HARDWARE.park(memory, root, updates) };
        }
        for update in updates {
            // SAFETY: entries of live tables of this memory, whose locks the caller holds; no CPU uses them.
            unsafe { update.carry_out(memory) };
        }
        Ok(())
    }
}

// SAFETY: locks, readers and retired pages are those of `HARDWARE`.
unsafe impl Sharing for Watched<'_> {
    const LOCKS: usize = Kernel::LOCKS;
    const HOLD: usize = Kernel::HOLD;

    type Held<'h>
        = WatchedHeld<'h>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> WatchedHeld<'_> {
        self.watch.before();
        let free = hardware::try_lock(number);
        let found_held = free.is_none();
        let held = free.unwrap_or_else(|| HARDWARE.lock(number));
        self.watch.taken(number, found_held);
        self.step();
        WatchedHeld { watch: self.watch, _held: held }
    }

    fn wait(&self) -> bool {
        !self.idle && HARDWARE.wait()
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        HARDWARE.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        HARDWARE.retire(memory, frame);
    }
}
