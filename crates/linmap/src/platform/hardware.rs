//! The only interface to the CPU: barriers, TLB invalidation, and the promises of the CPUs.
//!
//! It has primitives only. The library makes the sequences from them, so that a model can judge the sequences.

use crate::format::{Geometry, Pa, Tlbi, Va};
use crate::platform::entry_update::EntryUpdate;
use crate::platform::memory::{Frame, Memory, leave_to_memory};
use crate::platform::reason::Reason;

/// Which accesses a DSB waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dsb {
    /// DSB ISHST: stores, to all CPUs of the inner shareable domain.
    Ishst,
    /// DSB ISH: all accesses and TLB invalidations, to all CPUs of that domain.
    Ish,
}

/// The promises that all CPUs that share the tables keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Promise {
    /// All of them let a live entry change its size without ever raising a TLB conflict abort
    /// ([`BbmPromise::never_aborts`](crate::BbmPromise::never_aborts)).
    pub never_aborts: bool,
    /// All of them have range TLBIs ([`Features::has_range_tlbi`](crate::Features::has_range_tlbi)).
    pub range_tlbi: bool,
    /// At least one CPU needs each batch of TLBIs repeated
    /// ([`Features::needs_repeated_tlbi`](crate::Features::needs_repeated_tlbi)). A platform may ignore CPUs for which
    /// that is [`rare`](crate::RepeatedTlbi::rare), at its own risk.
    pub repeat_tlbi: bool,
}

/// The platform cannot park its CPUs, or one of them did not answer. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other CPUs cannot be parked")]
pub struct CannotPark;

/// The CPU, as far as page tables need it, and a way to keep other CPUs away.
///
/// # Safety
///
/// - [`dsb`](Self::dsb), [`isb`](Self::isb) and [`tlbi`](Self::tlbi) are exactly the instruction they name, executed
///   before they return, and the compiler moves no access to table memory across them. In a model they are the
///   corresponding step.
/// - [`lock`](Self::lock) excludes: at most one [`Held`](Self::Held) of a number exists at any time among all CPUs and
///   contexts that share the tables. The next holder sees all that the previous one did before it dropped its own. All
///   callers of a map use platforms with the same locks, and the same [`LOCKS`](Self::LOCKS).
/// - [`retire`](Self::retire) gives a page back after every [`read`](Self::read) that began before has ended.
/// - [`promise`](Self::promise) is kept by every CPU whose walkers may reach the tables.
/// - [`park`](Self::park) stores what it says, in the state that it says.
/// - No walker writes into the tables, since a change is a load and a plain store. Either hardware management of the
///   access flag and of the dirty state (TCR_EL1.HA and HD) is off, or it finds nothing to do: each valid leaf has the
///   access flag set, none is writable-clean (`DIRTY_MANAGED` with `READ_ONLY`, D8.5.2), and no change makes one so. With
///   TCR2_EL1.HAFT on each table has its flag set, too
///   ([`TableAttributes::ACCESSED`](crate::TableAttributes::ACCESSED)). The library keeps these bits as the caller chose
///   them; [`expect_hardware_updates`](crate::Tables::expect_hardware_updates) lets it refuse others.
pub unsafe trait Hardware {
    /// The number of locks, a power of two from 1 to 64. With 1, callers take turns. With more, callers that change
    /// different gigabytes work at the same time: the gigabyte with the number `n` has the lock `n % LOCKS`.
    const LOCKS: usize = 1;

    /// The number of entries that an operation reads or writes at most while it holds a lock, or one table if that has
    /// more. A longer operation lets go of its locks in between.
    const HOLD: usize = 2048;

    /// A lock on live tables, held until it is dropped.
    type Held<'h>
    where
        Self: 'h;

    /// Waits for a lock on live tables, with a number below [`LOCKS`](Self::LOCKS), and takes it. A caller that takes
    /// several takes them in the order of their numbers, and drops them in the reverse order. A context does not take a
    /// lock twice: an interrupt whose handler changes the map is masked while a lock is held.
    ///
    /// A CPU that waits here must still answer when another CPU parks it. A CPU that holds a lock is parked only after it
    /// has dropped it.
    ///
    /// A kernel that excludes callers itself may have a lock that does nothing.
    fn lock(&self, number: usize) -> Self::Held<'_>;

    /// Waits a moment for another caller, whose long operation has claimed the same addresses. No lock is held. Returns
    /// false if this context cannot wait; the operation then fails with [`Busy`](crate::ChangeError::Busy). The default
    /// always returns false.
    fn wait(&self) -> bool {
        false
    }

    /// Runs `work`, which reads live tables while others may change them. The tables that it finds are not given back
    /// before it returns. `work` changes no map.
    ///
    /// The default holds all locks, so there is nothing that [`retire`](Self::retire) would have to wait for. A kernel
    /// whose readers are to wait for nobody overrides both, for example by its RCU: then neither `read` nor `work` waits.
    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        with_locks(self, all_locks::<Self>(), work)
    }

    /// Gives a page that was a live table back to `memory`, after every [`read`](Self::read) that began before has ended.
    /// Locks may be held, so it does not wait: it may keep the page for later. The page must not be written until then.
    fn retire(&self, memory: &impl Memory, frame: Frame) {
        memory.give(frame);
    }

    /// Returns the reason of the changes that are made through this value, by which their splits are counted. The default
    /// has none.
    fn reason(&self) -> Reason {
        Reason::NONE
    }

    /// Returns the promises that all CPUs keep.
    fn promise(&self) -> Promise;

    /// Waits until earlier accesses, as selected by `kind`, are visible to all walkers (Arm ARM D8.2.6.1).
    fn dsb(&self, kind: Dsb);

    /// Executes a context synchronisation event on this CPU.
    fn isb(&self);

    /// Issues an invalidation, encoded for this geometry. It is complete after the next [`Dsb::Ish`] (D8.17.8).
    fn tlbi(&self, op: Tlbi, geometry: Geometry);

    /// Makes `bytes` bytes from `va` on, which were written as data, visible to the instruction fetch of all CPUs that
    /// share the tables. For this CPU the effect is immediate (Arm ARM B2.7.4.2). The addresses must be readable.
    ///
    /// The maintenance must suffice for the weakest of those CPUs ([`CacheType::weakest`](crate::CacheType::weakest)),
    /// not only for this one. A CPU that starts to use the tables later must first invalidate its instruction cache. If
    /// it also needs DC CVAU and no earlier CPU did (IDC), all code synchronised before must be synchronised again.
    fn sync_code(&self, va: Va, bytes: u64);

    /// Asks all CPUs whether they answer, and waits until they have. No lock is held. The library calls it before it takes
    /// the locks to [`park`](Self::park) in. The default always succeeds.
    ///
    /// # Errors
    ///
    /// A CPU does not answer, or the platform cannot park.
    fn call(&self) -> Result<(), CannotPark> {
        Ok(())
    }

    /// Applies `updates` in order while no CPU, including this one, uses the tables. All CPUs then continue with the
    /// tables of `root`. The caller holds locks, so this waits for the other CPUs no longer than it takes them when all of
    /// them answer.
    ///
    /// From before the first store until the last store is visible to all walkers, each CPU translates the half with
    /// other tables, holds no entry of these tables in its TLB, accesses no address of the half and takes no exception.
    /// This CPU stores to the tables at their physical addresses, through a map of its own, or through `memory`
    /// ([`EntryUpdate::carry_out`]) if that uses none of these tables. Before a CPU uses `root`, its TLB has dropped
    /// all entries of the half, so the library invalidates nothing. An update may read another table than it stores to
    /// ([`EntryUpdate::from`]), which no walker reaches.
    ///
    /// No safe code calls it:
    ///
    /// ```compile_fail,E0133
    /// fn park(platform: &impl linmap::Platform, root: linmap::Pa) -> Result<(), linmap::CannotPark> {
    ///     platform.park(platform, root, &[])
    /// }
    /// ```
    ///
    /// # Safety
    ///
    /// `root` is the root of a map in use, or of a tree that is complete and visible to walkers and takes its place. The
    /// updates are of tables of that map, in `memory`. The caller holds the locks of all that they translate, and has made
    /// the updates for this one call: nothing else has stored to these entries since.
    ///
    /// # Errors
    ///
    /// The CPUs cannot be parked, and nothing was stored. A platform without parking always returns this error.
    unsafe fn park(&self, memory: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        _ = (memory, root, updates);
        Err(CannotPark)
    }
}

/// Returns a set with all locks: a bit for each.
pub(crate) const fn all_locks<H: Hardware + ?Sized>() -> u64 {
    const { assert!(H::LOCKS.is_power_of_two() && H::LOCKS <= 64, "LOCKS is a power of two from 1 to 64") };
    u64::MAX >> (64 - H::LOCKS)
}

/// Runs `work` while the locks of a set are held, at least one. They are taken in the order of their numbers.
#[inline]
pub(crate) fn with_locks<H: Hardware + ?Sized, R>(hardware: &H, set: u64, work: impl FnOnce() -> R) -> R {
    let _held = hardware.lock(set.trailing_zeros() as usize);
    match set & (set - 1) {
        others if H::LOCKS > 1 && others != 0 => with_more_locks(hardware, others, work),
        _ => work(),
    }
}

/// Does the same inside another lock. Each lock takes a frame of the stack, so the frames of `work` are not among them.
#[inline(never)]
pub(crate) fn with_more_locks<H: Hardware + ?Sized, R>(
    hardware: &H,
    set: u64,
    work: impl FnOnce() -> R,
) -> R {
    let _held = hardware.lock(set.trailing_zeros() as usize);
    match set & (set - 1) {
        0 => apart(work),
        others => with_more_locks(hardware, others, work),
    }
}

/// Runs `work` in a frame of its own.
#[inline(never)]
fn apart<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Everything that a platform provides: table pages and CPUs.
pub trait Platform: Memory + Hardware {}

impl<P: Memory + Hardware> Platform for P {}

/// Makes the methods of [`Hardware`] that wrappers leave to the hardware below, all but `read`, `retire` and `reason`. A method
/// that is new in the trait goes here, so that no wrapper falls back to its default.
macro_rules! leave_to_hardware {
    ($below:ty, $self:ident => $hardware:expr) => {
        const LOCKS: usize = <$below>::LOCKS;
        const HOLD: usize = <$below>::HOLD;

        type Held<'h>
            = <$below as $crate::platform::Hardware>::Held<'h>
        where
            Self: 'h;

        #[inline]
        fn lock(&$self, number: usize) -> Self::Held<'_> {
            $hardware.lock(number)
        }

        fn wait(&$self) -> bool {
            $hardware.wait()
        }

        #[inline]
        fn promise(&$self) -> $crate::platform::Promise {
            $hardware.promise()
        }

        #[inline]
        fn dsb(&$self, kind: $crate::platform::Dsb) {
            $hardware.dsb(kind);
        }

        #[inline]
        fn isb(&$self) {
            $hardware.isb();
        }

        #[inline]
        fn tlbi(&$self, op: $crate::format::Tlbi, geometry: $crate::format::Geometry) {
            $hardware.tlbi(op, geometry);
        }

        fn sync_code(&$self, va: $crate::format::Va, bytes: u64) {
            $hardware.sync_code(va, bytes);
        }

        fn call(&$self) -> Result<(), $crate::platform::CannotPark> {
            $hardware.call()
        }

        unsafe fn park(
            &$self,
            memory: &impl $crate::platform::Memory,
            root: $crate::format::Pa,
            updates: &[$crate::platform::EntryUpdate],
        ) -> Result<(), $crate::platform::CannotPark> {
            // SAFETY: the caller's promise.
            unsafe { $hardware.park(memory, root, updates) }
        }
    };
}
pub(crate) use leave_to_hardware;

/// A platform made from a memory and hardware.
#[derive(Debug)]
pub struct Combined<'a, M, H>(&'a M, &'a H);

impl<'a, M: Memory, H: Hardware> Combined<'a, M, H> {
    /// Combines a memory and hardware.
    ///
    /// # Safety
    ///
    /// The locks of `hardware` are the only locks for all live tables of `memory`: nothing changes or reads them under
    /// another lock.
    pub const unsafe fn new(memory: &'a M, hardware: &'a H) -> Self {
        Self(memory, hardware)
    }
}

// SAFETY: every method is the memory's own, which keeps its promises.
unsafe impl<M: Memory, H> Memory for Combined<'_, M, H> {
    leave_to_memory!(M, self => self.0);

    #[inline]
    fn take(&self) -> Option<Frame> {
        self.0.take()
    }

    #[inline]
    fn give(&self, frame: Frame) {
        self.0.give(frame);
    }
}

// SAFETY: every method is the hardware's own, which keeps its promises.
unsafe impl<M, H: Hardware> Hardware for Combined<'_, M, H> {
    leave_to_hardware!(H, self => self.1);

    fn reason(&self) -> Reason {
        self.1.reason()
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.1.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        self.1.retire(memory, frame);
    }
}
