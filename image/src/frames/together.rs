//! Table pages that go back all at once, without a walk through the tables that they were: those of the temporary 1:1 map.

use core::cell::RefCell;

use arrayvec::ArrayVec;
use linmap::{Access, Frame, Memory, Pa};

use super::Frames;

/// Pages taken from the frame source, which are noted.
pub(crate) struct Together<'f> {
    frames: &'f Frames,
    taken: RefCell<ArrayVec<Pa, 32>>,
}

impl<'f> Together<'f> {
    /// Returns a source that has taken no page.
    pub(crate) fn of(frames: &'f Frames) -> Self {
        Self { frames, taken: RefCell::default() }
    }

    /// Gives all pages back that were taken.
    ///
    /// # Safety
    ///
    /// Nothing uses them: no walker reaches the tables that they were, and no `Frame` of them is given back later.
    pub(crate) unsafe fn give_all(&self) {
        for page in self.taken.borrow_mut().drain(..) {
            // SAFETY: a page of the source that was taken, and that nothing uses by the caller's promise.
            self.frames.give(unsafe { Frame::from_pa(page) });
        }
    }
}

// SAFETY: all pages are those of the frame source, which keeps its promises. One that there is no room to note is not handed
// out.
unsafe impl Memory for Together<'_> {
    const ACCESS: Access = Access::Plain;

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.frames.words(table) }
    }

    fn page_size(&self) -> u64 {
        self.frames.page_size()
    }

    #[inline]
    fn take(&self) -> Option<Frame> {
        let mut taken = self.taken.borrow_mut();
        if taken.is_full() {
            return None;
        }
        let frame = self.frames.take()?;
        taken.push(frame.pa());
        Some(frame)
    }

    fn give(&self, frame: Frame) {
        self.taken.borrow_mut().retain(|page| *page != frame.pa());
        self.frames.give(frame);
    }
}
