//! The state of a map in memory of the kernel.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use linmap::{Geometry, Hold, Live, Reason, SharedSpace};

use crate::errno::Invalid;
use crate::platform::Kernel;
use crate::types::{LINMAP_ALIGN, LINMAP_ATOMIC, LINMAP_BY, LINMAP_LOCKS, LINMAP_SIZE, Linmap};

/// The contents of a `struct linmap` once it is initialised.
#[repr(C)]
pub(crate) struct Map {
    /// [`READY`], or anything else before.
    pub(crate) ready: AtomicU32,
    pub(crate) promise: AtomicU32,
    pub(crate) offset: AtomicU64,
    pub(crate) space: Shared,
}

/// The map itself, with the state of as many locks as the kernel has.
pub(crate) type Shared = SharedSpace<LINMAP_LOCKS>;

const _: () = assert!(size_of::<Map>() <= LINMAP_SIZE && align_of::<Map>() <= LINMAP_ALIGN);
const _: () = assert!(size_of::<Linmap>() == LINMAP_SIZE && align_of::<Linmap>() == LINMAP_ALIGN);

/// The mark of a map that is initialised. Memory that was not written hardly ever has it.
pub(crate) const READY: u32 = u32::from_le_bytes(*b"lmap");

impl Map {
    /// Returns the map in a caller's memory.
    ///
    /// # Errors
    ///
    /// No memory, none that is aligned, or a map that has not been initialised.
    ///
    /// # Safety
    ///
    /// The pointer is null, not aligned, or that of a `struct linmap` that is all zero or was initialised, and stays there.
    #[inline]
    pub(crate) unsafe fn of<'m>(map: *const Linmap) -> Result<&'m Self, Invalid> {
        if !map.is_aligned() {
            return Err(Invalid);
        }
        let map = map.cast::<Self>();
        // SAFETY: the caller's promise. The mark is at the same place before and after initialisation.
        if map.is_null() || unsafe { (*map).ready.load(Acquire) } != READY {
            return Err(Invalid);
        }
        // SAFETY: it was initialised, and is only shared from then on.
        Ok(unsafe { &*map })
    }

    /// Returns the kernel for a call with these flags.
    ///
    /// # Errors
    ///
    /// A flag that no call knows.
    #[inline]
    pub(crate) fn kernel(&self, flags: u32) -> Result<Kernel, Invalid> {
        if flags & !(LINMAP_ATOMIC | LINMAP_BY) != 0 {
            return Err(Invalid);
        }
        let may_wait = flags & LINMAP_ATOMIC == 0;
        let kernel =
            Kernel::new(self.geometry(), self.offset.load(Relaxed), self.promise.load(Relaxed), may_wait);
        Ok(kernel.with_reason(reason(flags)))
    }

    /// Returns the operations on the map for a call.
    #[inline]
    pub(crate) const fn on<'a>(&'a self, kernel: &'a Kernel) -> Live<'a, Hold<'a, Kernel, LINMAP_LOCKS>> {
        self.space.on(kernel).because(kernel.reason())
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.space.geometry()
    }
}

/// Returns the reason that flags name.
#[inline]
pub(crate) fn reason(flags: u32) -> Reason {
    Reason::new(((flags & LINMAP_BY) >> LINMAP_BY.trailing_zeros()) as u8).unwrap_or_default()
}
