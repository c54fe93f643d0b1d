//! Table pages that were taken before any hold, so that an operation can neither run out of them half way nor allocate
//! in one.

use core::cell::Cell;

use crate::build::OutOfFrames;
use crate::format::{Descriptor, Level, Pa};
use crate::platform::{Frame, Memory, Slot};

/// Frames, linked through their first entry: no allocation, no limit. That of the last says nothing.
#[derive(Debug)]
pub(crate) struct Reserve<'m, M: Memory> {
    memory: &'m M,
    /// The first of them, if there is one.
    head: Cell<Pa>,
    count: Cell<u64>,
}

impl<'m, M: Memory> Reserve<'m, M> {
    /// Returns an empty reserve.
    pub(crate) const fn new(memory: &'m M) -> Self {
        Self { memory, head: Cell::new(Pa(0)), count: Cell::new(0) }
    }

    /// Takes frames from the memory until there are at least so many.
    ///
    /// # Errors
    ///
    /// There are not that many. Those that it has stay in the reserve.
    pub(crate) fn fill(&self, least: u64) -> Result<(), OutOfFrames> {
        while self.count.get() < least {
            let Some(frame) = self.memory.take() else { return Err(OutOfFrames(self.count.get())) };
            self.give(frame);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn give_back(&self) {
        while let Some(frame) = Memory::take(self) {
            self.memory.give(frame);
        }
    }

    /// Returns the number of frames in it.
    #[inline]
    pub(crate) const fn count(&self) -> u64 {
        self.count.get()
    }
}

/// Gives back the frames that were not used.
impl<M: Memory> Drop for Reserve<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.count.get() != 0 {
            self.give_back();
        }
    }
}

// SAFETY: pages and slots are those of the memory below. A page is either in the list or handed out.
unsafe impl<M: Memory> Memory for Reserve<'_, M> {
    const PLAIN: bool = M::PLAIN;

    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.memory.words(table) }
    }

    fn take(&self) -> Option<Frame> {
        let left = self.count.get().checked_sub(1)?;
        // SAFETY: the list owns the frame, whose address is stored only here or in another frame of the list.
        let mut frame = unsafe { Frame::from_pa(self.head.get()) };
        if left != 0 {
            self.head.set(Pa(self.memory.slots(&mut frame)[0]));
        }
        self.count.set(left);
        Some(frame)
    }

    #[inline]
    fn give(&self, mut frame: Frame) {
        if self.count.get() != 0 {
            self.memory.slots(&mut frame)[0] = self.head.get().0;
        }
        self.head.set(frame.into_pa());
        self.count.set(self.count.get() + 1);
    }

    #[inline]
    fn slots<'f>(&self, frame: &'f mut Frame) -> &'f mut [u64] {
        self.memory.slots(frame)
    }

    #[inline]
    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.memory.load(slot) }
    }

    #[inline]
    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.store(slot, new) }
    }

    const STORES_ROOT: bool = M::STORES_ROOT;

    #[inline]
    unsafe fn store_root(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.memory.store_root(slot, new) }
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.memory.with_slots(frame, level, work)
    }
}
