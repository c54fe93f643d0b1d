//! A platform: everything that the library is given, and one that is put together from parts.

use crate::platform::hardware::{Hardware, leave_to_hardware};
use crate::platform::memory::{Frame, Memory, leave_to_memory};
use crate::platform::sharing::{Sharing, leave_to_sharing};

/// Everything that a [`SharedSpace`](crate::SharedSpace) is given: table pages, CPUs, and locks. A [`Space`](crate::Space) has no
/// need of the locks.
pub trait Platform: Memory + Hardware + Sharing {}

impl<P: Memory + Hardware + Sharing> Platform for P {}

/// A platform made from a memory, hardware, and the locks of a third part.
#[derive(Debug)]
pub struct Combined<'a, M, H, S = H> {
    memory: &'a M,
    hardware: &'a H,
    sharing: &'a S,
}

impl<'a, M: Memory, H: Hardware> Combined<'a, M, H> {
    /// Combines a memory and hardware, with the locks of the hardware if it has any.
    ///
    /// # Safety
    ///
    /// The locks of `hardware`, if it has any, are the only locks for all live tables of `memory`: nothing changes or reads them under
    /// another lock.
    pub const unsafe fn new(memory: &'a M, hardware: &'a H) -> Self {
        Self { memory, hardware, sharing: hardware }
    }
}

impl<'a, M: Memory, H: Hardware, S> Combined<'a, M, H, S> {
    /// Returns the platform with other locks and readers.
    ///
    /// # Safety
    ///
    /// As for [`new`](Self::new), of the locks of `sharing`.
    pub const unsafe fn with_sharing<T: Sharing>(self, sharing: &'a T) -> Combined<'a, M, H, T> {
        Combined { memory: self.memory, hardware: self.hardware, sharing }
    }
}

// SAFETY: every method is the memory's own, which keeps its promises.
unsafe impl<M: Memory, H, S> Memory for Combined<'_, M, H, S> {
    leave_to_memory!(M, self => self.memory);

    #[inline]
    fn take(&self) -> Option<Frame> {
        self.memory.take()
    }

    #[inline]
    fn give(&self, frame: Frame) {
        self.memory.give(frame);
    }
}

// SAFETY: every method is the hardware's own, which keeps its promises.
unsafe impl<M, H: Hardware, S> Hardware for Combined<'_, M, H, S> {
    leave_to_hardware!(H, self => self.hardware);
}

// SAFETY: every item is that of the part with the locks, which keeps its promises.
unsafe impl<M, H, S: Sharing> Sharing for Combined<'_, M, H, S> {
    leave_to_sharing!(S, self => self.sharing);

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.sharing.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        self.sharing.retire(memory, frame);
    }
}
