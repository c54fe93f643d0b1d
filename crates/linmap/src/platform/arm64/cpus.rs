//! All CPUs as `Hardware` and `Sharing`, ready to use: the instructions, a lock of the caller's type, and the promises of the CPUs.

use core::arch::asm;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use lock_api::RawMutex;

use super::Cpu;
use crate::format::{Geometry, Tlbi, Va};
use crate::platform::{CacheType, Dsb, Features, Hardware, Promise, Sharing, all_locks, with_locks};

/// The CPUs of a system, and the locks on its live tables ([`Sharing::LOCKS`]).
///
/// `L` is any spinlock ([`lock_api::RawMutex`]), such as `spin::Mutex<()>`. Interrupts are masked on the CPU that holds
/// one. CPUs are not parked: a kernel that needs [`Policy::Park`](crate::Policy::Park) implements [`Hardware`] itself.
///
/// Readers of the tables take the locks. With [`WithReaders`](crate::WithReaders) they wait for nobody.
///
/// No promise holds until the first CPU is [admitted](Self::admit). The lock uses atomic operations, so it may not be
/// used before the MMU is on.
#[derive(Debug)]
pub struct Cpus<L, const LOCKS: usize = 1> {
    locks: [Padded<L>; LOCKS],
    /// The bits below, written under the lock.
    promise: AtomicU8,
    /// The bits of a [`CacheType`], written under the lock.
    cache: AtomicU64,
}

/// A lock in a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<L>(L);

/// A CPU has been admitted.
const ADMITTED: u8 = 1 << 0;
const NEVER_ABORTS: u8 = 1 << 1;
const RANGE_TLBI: u8 = 1 << 2;
const REPEAT_TLBI: u8 = 1 << 3;

impl<L: RawMutex, const LOCKS: usize> Cpus<L, LOCKS> {
    /// Returns a value without CPUs.
    ///
    /// # Safety
    ///
    /// - Each CPU whose walkers may reach the tables is admitted before the next operation on them starts.
    /// - TCR_EL1.HA and HD are 0 on each, as in [`Registers`](crate::cpu::Registers), or find nothing to do, as
    ///   [`Hardware`](crate::Hardware) says.
    /// - The lock spins. It must not sleep, since interrupts are masked.
    pub const unsafe fn new() -> Self {
        let (promise, cache) = (AtomicU8::new(REPEAT_TLBI), AtomicU64::new(0));
        Self { locks: [const { Padded(L::INIT) }; LOCKS], promise, cache }
    }

    /// Lets a CPU use the tables from now on. Returns the promises that all CPUs admitted so far keep.
    ///
    /// A CPU may admit itself as soon as its MMU is on, if no operation starts between the moment when its walkers can
    /// reach the tables and this call.
    ///
    /// If the returned promises no longer permit live changes of size, the map may need another policy
    /// ([`Decision::when_all_reported`](crate::policy::Decision::when_all_reported)).
    pub fn admit(&self, cpu: &Features) -> Promise {
        with_locks(self, all_locks::<Self>(), || self.admit_alone(cpu))
    }

    /// Does the same, while no operation runs.
    fn admit_alone(&self, cpu: &Features) -> Promise {
        let (mut promise, mut cache) = (Promise::of(cpu), cpu.cache_type());
        if self.promise.load(Relaxed) & ADMITTED != 0 {
            promise = promise.weakest(self.promise());
            cache = cache.weakest(self.cache());
        }
        let bit = |bit, holds| if holds { bit } else { 0 };
        let bits = bit(NEVER_ABORTS, promise.never_aborts)
            | bit(RANGE_TLBI, promise.range_tlbi)
            | bit(REPEAT_TLBI, promise.repeat_tlbi);
        self.promise.store(bits | ADMITTED, Relaxed);
        self.cache.store(cache.bits(), Relaxed);
        promise
    }

    fn cache(&self) -> CacheType {
        CacheType::of(self.cache.load(Relaxed))
    }
}

/// The held lock of [`Cpus`]. Interrupts are masked until it is dropped.
pub struct Held<'h, L: RawMutex> {
    lock: &'h L,
    /// Restored after the lock has been released.
    _masked: Masked,
}

impl<L: RawMutex> Drop for Held<'_, L> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this value holds the lock, which was taken when it was made.
        unsafe { self.lock.unlock() }
    }
}

/// Interrupts of this CPU are masked until this is dropped.
struct Masked {
    daif: u64,
    /// Not `Send`: the mask belongs to this CPU.
    _here: PhantomData<*const ()>,
}

impl Masked {
    #[inline]
    fn new() -> Self {
        let daif: u64;
        // SAFETY: masked interrupts are only delayed.
        unsafe {
            asm!("mrs {}, daif", "msr daifset, #0xf", out(reg) daif, options(nostack, preserves_flags));
        }
        Self { daif, _here: PhantomData }
    }
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: restores the previous value.
        unsafe { asm!("msr daif, {}", in(reg) self.daif, options(nostack, preserves_flags)) };
    }
}

// SAFETY:
// - each primitive is the instruction, in assembly that no access to memory is moved across;
// - the promise is the weakest of all CPUs that were admitted, which are all that use the tables, as `new` requires;
//   code is synchronised for the weakest as well;
// - no CPU is ever parked;
// - TCR_EL1.HA and HD are off or find nothing to do, as `new` requires.
unsafe impl<L: RawMutex, const LOCKS: usize> Hardware for Cpus<L, LOCKS> {
    #[inline]
    fn promise(&self) -> Promise {
        let bits = self.promise.load(Relaxed);
        Promise {
            never_aborts: bits & NEVER_ABORTS != 0,
            range_tlbi: bits & RANGE_TLBI != 0,
            repeat_tlbi: bits & REPEAT_TLBI != 0,
        }
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        Cpu.dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        Cpu.isb();
    }

    #[inline]
    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        Cpu.tlbi(op, geometry);
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        Cpu.sync_code(self.cache(), va, bytes);
    }
}

// SAFETY: the lock excludes, by the contract of `RawMutex`, and interrupts of its holder are masked. Readers hold all locks.
unsafe impl<L: RawMutex, const LOCKS: usize> Sharing for Cpus<L, LOCKS> {
    const LOCKS: usize = LOCKS;

    type Held<'h>
        = Held<'h, L>
    where
        Self: 'h;

    #[inline]
    fn lock(&self, number: usize) -> Held<'_, L> {
        let _masked = Masked::new();
        let Padded(lock) = &self.locks[number];
        lock.lock();
        Held { lock, _masked }
    }
}
