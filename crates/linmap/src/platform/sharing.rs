//! The interface by which many callers share live tables: their locks, and the readers who hold none.

use crate::platform::memory::{Frame, Memory};

/// How the callers who share live tables keep out of each other's way.
///
/// A [`Space`](crate::Space), whose only caller is known by its borrow, does not ask for it. A
/// [`SharedSpace`](crate::SharedSpace) does.
///
/// # Safety
///
/// - [`lock`](Self::lock) excludes: at most one [`Held`](Self::Held) of a number exists at any time among all CPUs and
///   contexts that share the tables. The next holder sees all that the previous one did before it dropped its own. All
///   callers of a map use platforms with the same locks, and the same [`LOCKS`](Self::LOCKS).
/// - [`retire`](Self::retire) gives a page back after every [`read`](Self::read) that began before has ended.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no locks for callers who share tables",
    note = "a `SharedSpace` asks its platform for `Sharing`; a `Space`, which has one caller at a time, does not"
)]
pub unsafe trait Sharing {
    /// The number of locks, a power of two from 1 to 64. With 1, callers take turns. With more, callers that change
    /// different gigabytes work at the same time: the gigabyte with the number `n` has the lock `n % LOCKS`.
    const LOCKS: usize = 1;

    /// The number of entries that an operation reads or writes at most while it holds a lock, or one table if that has
    /// more. A longer operation lets go of its locks in between.
    const HOLD: usize = HOLD;

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
    /// false if this context cannot wait; the operation then fails with [`Busy`](crate::error::ChangeError::Busy). The default
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
}

/// The number of entries of a hold, where the platform names none.
pub(crate) const HOLD: usize = 2048;

/// Returns a set with all locks: a bit for each.
pub(crate) const fn all_locks<S: Sharing + ?Sized>() -> u64 {
    const { assert!(S::LOCKS.is_power_of_two() && S::LOCKS <= 64, "LOCKS is a power of two from 1 to 64") };
    u64::MAX >> (64 - S::LOCKS)
}

/// Runs `work` while the locks of a set are held, at least one. They are taken in the order of their numbers.
#[inline]
pub(crate) fn with_locks<S: Sharing + ?Sized, R>(sharing: &S, set: u64, work: impl FnOnce() -> R) -> R {
    let _held = sharing.lock(set.trailing_zeros() as usize);
    match set & (set - 1) {
        others if S::LOCKS > 1 && others != 0 => with_more_locks(sharing, others, work),
        _ => work(),
    }
}

/// Runs `work` while the locks of another set are held as well. Each lock takes a frame of the stack, so the frames of `work` are
/// not among them.
#[inline(never)]
pub(crate) fn with_more_locks<S: Sharing + ?Sized, R>(sharing: &S, set: u64, work: impl FnOnce() -> R) -> R {
    let _held = sharing.lock(set.trailing_zeros() as usize);
    match set & (set - 1) {
        0 => apart(work),
        others => with_more_locks(sharing, others, work),
    }
}

/// Runs `work` in a frame of its own.
#[inline(never)]
fn apart<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Makes the items of [`Sharing`] that wrappers leave to the platform below, all but `read` and `retire`. An item that is new in the
/// trait goes here, so that no wrapper falls back to its default.
macro_rules! leave_to_sharing {
    ($below:ty, $self:ident => $sharing:expr) => {
        const LOCKS: usize = <$below>::LOCKS;
        const HOLD: usize = <$below>::HOLD;

        type Held<'h>
            = <$below as $crate::platform::Sharing>::Held<'h>
        where
            Self: 'h;

        #[inline]
        fn lock(&$self, number: usize) -> Self::Held<'_> {
            $sharing.lock(number)
        }

        fn wait(&$self) -> bool {
            $sharing.wait()
        }
    };
}
pub(crate) use leave_to_sharing;
