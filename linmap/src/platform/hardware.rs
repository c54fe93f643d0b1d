//! The only door to the CPU: barriers, TLB invalidation, and what the CPUs promise.
//!
//! Primitives only. The sequences made of them belong to the library, so that a model can judge them.

use crate::format::{Descriptor, Geometry, Pa, Tlbi, Va};
use crate::platform::entry_update::EntryUpdate;
use crate::platform::memory::{Frame, Memory, Slot};

/// Which accesses a DSB waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dsb {
    /// DSB ISHST: stores, to all CPUs of the inner shareable domain.
    Ishst,
    /// DSB ISH: all accesses and TLB invalidations, to all CPUs of that domain.
    Ish,
}

/// What the CPUs that share the tables promise: what the weakest of them does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Promise {
    /// All of them let a live entry change its size without ever raising a TLB conflict abort
    /// ([`BbmPromise::never_aborts`](crate::BbmPromise::never_aborts)).
    pub never_aborts: bool,
    /// All of them have range TLBIs ([`Features::has_range_tlbi`](crate::Features::has_range_tlbi)).
    pub range_tlbi: bool,
    /// One of them needs each batch of TLBIs repeated
    /// ([`Features::needs_repeated_tlbi`](crate::Features::needs_repeated_tlbi)). A platform may leave out CPUs for
    /// which that is [`rare`](crate::RepeatedTlbi::rare), and answers for it.
    pub repeat_tlbi: bool,
}

/// The platform cannot park its CPUs, or one of them did not answer. Nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other CPUs cannot be parked")]
pub struct CannotPark;

/// The CPU, as far as page tables need it, and the others as far as they must be kept away.
///
/// # Safety
///
/// - [`dsb`](Self::dsb), [`isb`](Self::isb) and [`tlbi`](Self::tlbi) are exactly the instruction they name,
///   executed before they return, and the compiler moves no access to table memory across them. In a model
///   they are the corresponding step.
/// - [`lock`](Self::lock) excludes: there is at most one [`Held`](Self::Held) at any time among all CPUs and
///   contexts that share the tables, and what its holder did before it was dropped is visible to the next.
/// - [`promise`](Self::promise) is kept by every CPU whose walkers may reach the tables.
/// - [`park`](Self::park) keeps its contract.
/// - No walker writes into the tables: hardware management of the access flag and of the dirty state
///   (TCR_EL1.HA and HD) is off, since a change is a load and a store.
pub unsafe trait Hardware {
    /// The lock on all live tables, held until it is dropped.
    type Held<'h>
    where
        Self: 'h;

    /// Waits for the lock on all live tables and takes it. Not taken twice by one context: an interrupt
    /// that could come while it is held, and take it, is masked.
    ///
    /// A CPU that waits here answers when another one parks it.
    fn lock(&self) -> Self::Held<'_>;

    /// Takes the lock if it is free: for a caller that cannot wait, such as a fault handler. By default it never is.
    fn try_lock(&self) -> Option<Self::Held<'_>> {
        None
    }

    /// What the CPUs promise.
    fn promise(&self) -> Promise;

    /// Waits until earlier accesses are visible to all walkers, as `kind` says (Arm ARM D8.2.6.1).
    fn dsb(&self, kind: Dsb);

    /// A context synchronisation event on this CPU.
    fn isb(&self);

    /// Issues an invalidation, encoded for this geometry. It is complete after the next [`Dsb::Ish`]
    /// (D8.17.8).
    fn tlbi(&self, op: Tlbi, geometry: Geometry);

    /// Makes what was written to `bytes` bytes from `va` on visible to the instruction fetch of all CPUs that
    /// share the tables, and to that of this one at once (Arm ARM B2.7.4.2). The addresses can be read.
    ///
    /// By the weakest of those CPUs, not by the one that runs this ([`CacheType::weakest`](crate::CacheType::weakest)).
    /// One that comes to the tables later has to invalidate its instruction cache before it uses them. If it also
    /// needs DC CVAU and none of the others did (IDC), what was synchronised before has to be synchronised once more.
    fn sync_code(&self, va: Va, bytes: u64);

    /// Does `updates`, in their order, while no CPU uses the tables, this one included; then all of them go
    /// on with the tables of `root`. The caller holds the lock.
    ///
    /// From before the first store until after the last one is visible to all walkers, each CPU
    /// translates the half with other tables, has nothing of these in its TLB, touches no address of the half and
    /// takes no exception. This one stores to the tables where they lie, through a map of its own, or as `memory`
    /// does ([`EntryUpdate::carry_out`]) if that goes through none of these tables. Before a CPU uses `root` it has
    /// dropped what its TLB held of the half, so that nothing is left to be invalidated.
    ///
    /// # Errors
    ///
    /// The CPUs cannot be parked; nothing was stored. That is what a platform says that does not do it.
    fn park(&self, memory: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        _ = (memory, root, updates);
        Err(CannotPark)
    }
}

/// All that a platform brings: table pages and CPUs.
pub trait Platform: Memory + Hardware {}

impl<P: Memory + Hardware> Platform for P {}

/// A platform made of a memory and of hardware.
#[derive(Debug)]
pub struct Combined<'a, M, H>(&'a M, &'a H);

impl<'a, M: Memory, H: Hardware> Combined<'a, M, H> {
    /// Puts them together.
    ///
    /// # Safety
    ///
    /// The lock of `hardware` is the one lock of all live tables of `memory`: nobody changes or reads them
    /// through another.
    pub const unsafe fn new(memory: &'a M, hardware: &'a H) -> Self {
        Self(memory, hardware)
    }
}

// SAFETY: the memory does it all, and keeps its promises.
unsafe impl<M: Memory, H> Memory for Combined<'_, M, H> {
    fn page_size(&self) -> u64 {
        self.0.page_size()
    }

    #[inline]
    fn take(&self) -> Option<Frame> {
        self.0.take()
    }

    #[inline]
    fn give(&self, frame: Frame) {
        self.0.give(frame);
    }

    #[inline]
    fn slots<'f>(&self, frame: &'f mut Frame) -> &'f mut [u64] {
        self.0.slots(frame)
    }

    const PLAIN: bool = M::PLAIN;

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.0.words(table) }
    }

    #[inline]
    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.0.load(slot) }
    }

    #[inline]
    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store(slot, new) }
    }
}

// SAFETY: the hardware does it all, and keeps its promises.
unsafe impl<M, H: Hardware> Hardware for Combined<'_, M, H> {
    type Held<'h>
        = H::Held<'h>
    where
        Self: 'h;

    #[inline]
    fn lock(&self) -> Self::Held<'_> {
        self.1.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Held<'_>> {
        self.1.try_lock()
    }

    #[inline]
    fn promise(&self) -> Promise {
        self.1.promise()
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        self.1.dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        self.1.isb();
    }

    #[inline]
    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.1.tlbi(op, geometry);
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.1.sync_code(va, bytes);
    }

    fn park(&self, memory: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        self.1.park(memory, root, updates)
    }
}
