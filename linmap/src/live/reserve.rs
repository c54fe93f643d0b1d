//! Table pages that an operation has taken before its first store, so that it can not run out half way.

use core::cell::RefCell;

use crate::build::Error;
use crate::format::{Descriptor, Pa};
use crate::platform::{Frame, Memory, Slot};

/// Frames, chained through their first entry: no allocation, no limit.
pub(crate) struct Reserve<'m, M: Memory> {
    memory: &'m M,
    head: RefCell<Option<Frame>>,
}

impl<'m, M: Memory> Reserve<'m, M> {
    /// Takes `count` frames.
    ///
    /// # Errors
    ///
    /// There are not that many; none is taken then.
    pub(crate) fn take(memory: &'m M, count: u64) -> Result<Self, Error> {
        let reserve = Self { memory, head: RefCell::new(None) };
        for taken in 0..count {
            let Some(frame) = memory.take() else { return Err(Error::OutOfFrames { taken }) };
            reserve.push(frame);
        }
        Ok(reserve)
    }

    #[inline]
    fn push(&self, mut frame: Frame) {
        let head = &mut *self.head.borrow_mut();
        // No frame is at the highest address there is.
        self.memory.slots(&mut frame)[0] = head.take().map_or(u64::MAX, |next| next.into_pa().0);
        *head = Some(frame);
    }
}

/// What was not used goes back.
impl<M: Memory> Drop for Reserve<'_, M> {
    fn drop(&mut self) {
        while let Some(frame) = Memory::take(self) {
            self.memory.give(frame);
        }
    }
}

// SAFETY: pages and slots are those of the memory below; a page is in the chain or has been handed out.
unsafe impl<M: Memory> Memory for Reserve<'_, M> {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        let head = &mut *self.head.borrow_mut();
        let mut frame = head.take()?;
        let next = self.memory.slots(&mut frame)[0];
        // SAFETY: the chain owned it: its address was kept in a frame that was the chain's alone.
        *head = (next != u64::MAX).then(|| unsafe { Frame::from_pa(Pa(next)) });
        Some(frame)
    }

    fn give(&self, frame: Frame) {
        self.push(frame);
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
}
