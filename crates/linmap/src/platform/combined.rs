//! A platform: everything that the library is given, and one that is put together from parts.

use crate::platform::hardware::{Hardware, leave_to_hardware};
use crate::platform::memory::{Frame, Memory, leave_to_memory};
use crate::platform::sharing::{Sharing, leave_to_sharing};

/// Everything that a [`SharedSpace`](crate::SharedSpace) is given: table pages, CPUs, and locks. A [`Space`](crate::Space) has no
/// need of the locks.
pub trait Platform: Memory + Hardware + Sharing {}

impl<P: Memory + Hardware + Sharing> Platform for P {}

/// A platform made from a memory and hardware, with the locks of the hardware if it has any.
#[derive(Debug)]
pub struct Combined<'a, M, H>(&'a M, &'a H);

impl<'a, M: Memory, H: Hardware> Combined<'a, M, H> {
    /// Combines a memory and hardware.
    ///
    /// # Safety
    ///
    /// The locks of `hardware`, if it has any, are the only locks for all live tables of `memory`: nothing changes or reads them under
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
}

// SAFETY: every item is the hardware's own, which keeps its promises.
unsafe impl<M, H: Sharing> Sharing for Combined<'_, M, H> {
    leave_to_sharing!(H, self => self.1);

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.1.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        self.1.retire(memory, frame);
    }
}
