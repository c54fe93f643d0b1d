//! Table pages that an operation takes before its first store, so that it cannot run out of them half way, and tables
//! that it gives back after its last invalidation, when no walker can reach them.

use core::cell::RefCell;

use crate::build::{OutOfFrames, give_back};
use crate::format::{Descriptor, Level, Pa};
use crate::live::locked::Locked;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::{Frame, Memory, Platform, Slot};

/// Frames, linked through their first entry: no allocation, no limit.
pub(crate) struct ReservedPages<'m, M: Memory> {
    memory: &'m M,
    head: RefCell<Option<Frame>>,
}

impl<'m, M: Memory> ReservedPages<'m, M> {
    /// Takes `count` frames.
    ///
    /// # Errors
    ///
    /// There are not that many. None is taken then.
    pub(crate) fn take(memory: &'m M, count: u64) -> Result<Self, OutOfFrames> {
        let reserve = Self { memory, head: RefCell::new(None) };
        for taken in 0..count {
            let Some(frame) = memory.take() else { return Err(OutOfFrames(taken)) };
            reserve.push(frame);
        }
        Ok(reserve)
    }

    #[inline]
    fn push(&self, mut frame: Frame) {
        let head = &mut *self.head.borrow_mut();
        // No frame is at the highest address, so it marks the end.
        self.memory.slots(&mut frame)[0] = head.take().map_or(u64::MAX, |next| next.into_pa().0);
        *head = Some(frame);
    }
}

/// Gives back the frames that were not used.
impl<M: Memory> Drop for ReservedPages<'_, M> {
    fn drop(&mut self) {
        while let Some(frame) = Memory::take(self) {
            self.memory.give(frame);
        }
    }
}

// SAFETY: pages and slots are those of the memory below. A page is either in the list or handed out.
unsafe impl<M: Memory> Memory for ReservedPages<'_, M> {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        let head = &mut *self.head.borrow_mut();
        let mut frame = head.take()?;
        let next = self.memory.slots(&mut frame)[0];
        // SAFETY: the list owned the frame, whose address was stored only in another frame of the list.
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

/// Tables that are given back once TLBs and walk caches have dropped them.
pub(crate) struct DeferredTables {
    tables: [(Pa, Level); Self::ROOM],
    used: usize,
}

impl DeferredTables {
    /// The number of tables that wait for one batch of invalidations.
    const ROOM: usize = 8;

    /// Returns an empty list.
    pub(crate) const fn new() -> Self {
        Self { tables: [(Pa(0), Level::PAGE); Self::ROOM], used: 0 }
    }

    /// Adds a table at `level`, which no entry points to any more, and all tables below it. The batch already contains
    /// the addresses that it translated. A full list is given back at once.
    pub(crate) fn add<P: Platform>(
        &mut self,
        (table, level): (Pa, Level),
        batch: &mut TlbBatch,
        locked: &Locked<'_, P>,
    ) {
        batch.with_tables();
        self.tables[self.used] = (table, level);
        self.used += 1;
        if self.used == Self::ROOM {
            batch.finish(locked);
            *batch = TlbBatch::new();
            self.give(locked);
        }
    }

    /// Gives all of them back. The batch that they were in must be finished.
    pub(crate) fn give<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        for (table, level) in &self.tables[..core::mem::take(&mut self.used)] {
            // SAFETY: no entry points to the table, and no walker or walk cache leads to it, because the batch is
            // finished. The tree that contained it owned it.
            let frame = unsafe { Frame::from_pa(*table) };
            give_back(locked.platform, locked.geometry, *level, frame, &mut |_, _| {});
        }
    }
}
