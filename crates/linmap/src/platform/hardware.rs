//! The only interface to the CPU: barriers, TLB invalidation, and the promises of the CPUs.
//!
//! It has primitives only. The library makes the sequences from them, so that a model can judge the sequences.

use crate::format::{Geometry, Pa, Tlbi, Va};
use crate::platform::entry_update::EntryUpdate;
use crate::platform::memory::Memory;

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
    /// ([`BbmPromise::never_aborts`](crate::cpu::BbmPromise::never_aborts)).
    pub never_aborts: bool,
    /// All of them have range TLBIs ([`Features::has_range_tlbi`](crate::cpu::Features::has_range_tlbi)).
    pub range_tlbi: bool,
    /// At least one CPU needs each batch of TLBIs repeated
    /// ([`Features::needs_repeated_tlbi`](crate::cpu::Features::needs_repeated_tlbi)). A platform may ignore CPUs for which
    /// that is [`rare`](crate::cpu::RepeatedTlbi::rare), at its own risk.
    pub repeat_tlbi: bool,
}

/// The platform cannot park its CPUs, or one of them did not answer. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other CPUs cannot be parked")]
pub struct CannotPark;

/// The CPU, as far as page tables need it.
///
/// # Safety
///
/// - [`dsb`](Self::dsb), [`isb`](Self::isb) and [`tlbi`](Self::tlbi) are exactly the instruction they name, executed
///   before they return, and the compiler moves no access to table memory across them. In a model they are the
///   corresponding step.
/// - [`promise`](Self::promise) is kept by every CPU whose walkers may reach the tables.
/// - [`park`](Self::park) stores what it says, in the state that it says.
/// - No walker writes into the tables, since a change is a load and a plain store. Either hardware management of the
///   access flag and of the dirty state (TCR_EL1.HA and HD) is off, or it finds nothing to do: each valid leaf has the
///   access flag set, none is writable-clean (`DIRTY_MANAGED` with `READ_ONLY`, D8.5.2), and no change makes one so. With
///   TCR2_EL1.HAFT on each table has its flag set, too
///   ([`TableAttributes::ACCESSED`](crate::arch::TableAttributes::ACCESSED)). The library keeps these bits as the caller chose
///   them; [`expect_hardware_updates`](crate::Tables::expect_hardware_updates) lets it refuse others.
pub unsafe trait Hardware {
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
    /// The maintenance must suffice for the weakest of those CPUs ([`CacheType::weakest`](crate::cpu::CacheType::weakest)),
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

/// Makes the methods of [`Hardware`] that wrappers leave to the hardware below. A method that is new in the trait goes here, so that
/// no wrapper falls back to its default.
macro_rules! leave_to_hardware {
    ($below:ty, $self:ident => $hardware:expr) => {
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
