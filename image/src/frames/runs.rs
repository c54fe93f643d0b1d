//! Runs: pages that are adjacent in memory, taken and given back as one.
//!
//! They are not for tables; their owners may make them read-only at all their addresses. So none of them is in the
//! image, which has addresses of its own.

use core::ops::Range;

use kernel_plan::ranges::CAPACITY;
use linmap::arch::Descriptor;
use linmap::{Memory, Pa, Slot};

use super::Frames;

/// A run of at least so many pages stays a range when it is given back.
const LONG: u64 = 16;
/// The number of separate ranges left to other uses.
const SPARE: usize = 32;

impl Frames {
    /// Takes up to so many adjacent pages, as many as are at hand. The caller owns them.
    pub(crate) fn take_run(&self, most: u64) -> Option<Range<Pa>> {
        if most == 0 {
            return None;
        }
        let _taken = self.lock();
        let run = self.cut_run(most).or_else(|| self.chained_run(most))?;
        Some(Pa(run.start)..Pa(run.end))
    }

    /// Takes back pages.
    ///
    /// # Safety
    ///
    /// They are from [`take_run`](Self::take_run), nothing else uses them, and they are writable where this source
    /// reaches memory.
    pub(crate) unsafe fn give_run(&self, run: Range<Pa>) {
        let _taken = self.lock();
        if run.end.0 == self.cut.get() {
            return self.cut.set(run.start.0);
        }
        let is_long = run.end.0 - run.start.0 >= LONG * self.page_size;
        let mut waiting = self.waiting.borrow_mut();
        if is_long && waiting.as_slice().len() + SPARE < CAPACITY && waiting.add(run.clone()).is_ok() {
            return;
        }
        // The last one first, so that they come off the free list in ascending order.
        let mut page = run.end.0;
        while page != run.start.0 {
            page -= self.page_size;
            // SAFETY: the caller's page, which nothing uses.
            unsafe { self.store(Slot { table: Pa(page), index: 0 }, Descriptor(self.first_chained())) };
            self.chain_from(page);
        }
    }

    fn is_in_image(&self, page: u64) -> bool {
        let Range { start, end } = self.image();
        (start.0..end.0).contains(&page)
    }

    /// Takes pages that were never taken, or were given back as a run.
    fn cut_run(&self, most: u64) -> Option<Range<u64>> {
        let (cut, end) = (self.cut.get(), self.cut_end.get());
        if cut == end || self.is_in_image(cut) {
            let mut waiting = self.waiting.borrow_mut();
            // A range at its end may begin in the image.
            let outside = waiting.without(core::iter::once(self.image()));
            let next = outside.max_by_key(|range| range.end.0 - range.start.0)?;
            waiting.add(Pa(cut)..Pa(end)).ok()?;
            self.cut.set(end);
            waiting.remove(&next).ok()?;
            self.cut.set(next.start.0);
            self.cut_end.set(next.end.0);
        }
        let cut = self.cut.get();
        let pages = most.min((self.cut_end.get() - cut) / self.page_size);
        self.cut.set(cut + pages * self.page_size);
        Some(cut..self.cut.get())
    }

    /// Takes adjacent pages from the free list.
    fn chained_run(&self, most: u64) -> Option<Range<u64>> {
        // SAFETY: a page on the free list is this source's, reachable, and not in use.
        let behind = |page| unsafe { self.load(Slot { table: Pa(page), index: 0 }) }.0;
        let (mut before, mut first) = (None, self.first_chained());
        while first != 0 && self.is_in_image(first) {
            (before, first) = (Some(first), behind(first));
        }
        if first == 0 {
            return None;
        }
        let (mut end, mut next) = (first + self.page_size, behind(first));
        while next == end && end - first < most.saturating_mul(self.page_size) && !self.is_in_image(next) {
            (end, next) = (end + self.page_size, behind(next));
        }
        match before {
            // SAFETY: as above.
            Some(page) => unsafe { self.store(Slot { table: Pa(page), index: 0 }, Descriptor(next)) },
            None => self.chain_from(next),
        }
        Some(first..end)
    }
}
