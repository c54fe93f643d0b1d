//! Table pages from RAM: a bump allocator over free ranges, and a free list of pages given back.

mod runs;
mod scarce;
mod together;

use core::cell::{Cell, RefCell};
use core::ops::Range;

use kernel_plan::ranges::Ranges;
use linmap::arch::Descriptor;
use linmap::error::BuildError;
use linmap::{Access, Frame, Geometry, Half, Memory, Pa, Region, Slot, Tree, Va};

use self::scarce::{Scarcity, first, is_marked, marked, with_first};
pub(crate) use self::together::Together;
use crate::image::Image;
use crate::lock::{Lock, Taken};

/// The addresses at which memory is reached: RAM at an offset; the image, if it is apart, through its own map.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// The difference of the address at which RAM is reached to the physical one, wrapping.
    ram_offset: u64,
    /// The image is reached through its own map.
    apart: bool,
    image: (Pa, Pa),
    image_offset: u64,
}

impl Reach {
    /// Returns the address at which memory is reached now. Each access to a live table comes through here.
    #[inline]
    pub(crate) fn va(&self, pa: Pa) -> Va {
        if self.apart { self.va_apart(pa) } else { Va(pa.0.wrapping_add(self.ram_offset)) }
    }

    #[cold]
    fn va_apart(&self, pa: Pa) -> Va {
        let in_image = self.image.0 <= pa && pa < self.image.1;
        let offset = if in_image { self.image_offset } else { self.ram_offset };
        Va(pa.0.wrapping_add(offset))
    }
}

/// The frame source of the kernel. Interrupt handlers do not use it.
pub(crate) struct Frames {
    /// Guards all cells but `reach`.
    lock: Lock,
    reach: Cell<Reach>,
    page_size: u64,
    /// The head of the free list: pages that were given back, linked through their first entry; 0 ends it. The head
    /// has a bit for injected shortage.
    chain: Cell<u64>,
    scarcity: Scarcity,
    /// The range that the next page is cut from.
    cut: Cell<u64>,
    cut_end: Cell<u64>,
    /// Ranges not yet cut from.
    waiting: RefCell<Ranges>,
    /// The bytes ever handed over.
    added: Cell<u64>,
}

// SAFETY: the cells are used by the holder of the lock. `reach` is written while one CPU runs
// ([`reach_ram_at`](Frames::reach_ram_at)), and only read from then on.
unsafe impl Sync for Frames {}

impl Frames {
    /// Makes a source without memory. RAM is reached 1:1 until [`reach_ram_at`](Self::reach_ram_at) is called. CPUs
    /// that wait for its lock call `meanwhile`.
    pub(crate) fn new(image: &Image, page_size: u64, meanwhile: fn()) -> Self {
        let Range { start, end } = image.range();
        let reach = Reach { ram_offset: 0, apart: true, image: (start, end), image_offset: image.offset() };
        Self {
            lock: Lock::new(meanwhile),
            reach: Cell::new(reach),
            page_size,
            chain: Cell::new(0),
            scarcity: Scarcity::default(),
            cut: Cell::new(0),
            cut_end: Cell::new(0),
            waiting: RefCell::default(),
            added: Cell::new(0),
        }
    }

    /// Hands over free memory, in whole pages. Returns a range that is not used, the shortest of all, if there are too
    /// many separate ones.
    ///
    /// # Safety
    ///
    /// The range is RAM that nothing else uses, and is reachable as this source reaches memory.
    pub(crate) unsafe fn add(&self, range: &Range<Pa>) -> Option<Range<Pa>> {
        let start = range.start.0.next_multiple_of(self.page_size);
        let end = range.end.0 & !(self.page_size - 1);
        if start >= end {
            return None;
        }
        let _taken = self.lock();
        let lost = self.waiting.borrow_mut().add_or_lose(Pa(start)..Pa(end));
        let lost_bytes = lost.as_ref().map_or(0, |range| range.end.0 - range.start.0);
        self.added.set(self.added.get() + end - start - lost_bytes);
        lost
    }

    /// Reaches RAM at this offset from now on, and the image as well unless it is `apart`.
    ///
    /// # Safety
    ///
    /// All memory of this source, taken or free, is mapped there, writable; of the image that holds unless
    /// it is apart. No other CPU runs.
    pub(crate) unsafe fn reach_ram_at(&self, offset: u64, apart: bool) {
        self.reach.set(Reach { ram_offset: offset, apart, ..self.reach.get() });
    }

    #[inline(always)]
    fn lock(&self) -> Taken<'_> {
        self.lock.lock()
    }

    /// Returns the bytes that can still be taken.
    pub(crate) fn free_bytes(&self) -> u64 {
        let _taken = self.lock();
        let (mut chained, mut page) = (0, self.first_chained());
        while page != 0 {
            chained += self.page_size;
            // SAFETY: a page on the free list is this source's, reachable, and not in use.
            page = unsafe { self.load(Slot { table: Pa(page), index: 0 }) }.0;
        }
        chained + self.cut_end.get() - self.cut.get() + self.waiting.borrow().bytes()
    }

    /// Returns the number of pages that are taken and not given back.
    pub(crate) fn in_use(&self) -> u64 {
        let free = self.free_bytes();
        (self.added.get() - free) / self.page_size
    }

    /// Returns the image's memory. A part of it may belong to this source.
    fn image(&self) -> Range<Pa> {
        let (start, end) = self.reach.get().image;
        start..end
    }

    /// Returns the addresses at which memory is reached now.
    pub(crate) fn reach(&self) -> Reach {
        self.reach.get()
    }

    /// Returns the address at which a page is reached now.
    #[inline]
    fn page(&self, pa: Pa) -> *mut u64 {
        core::ptr::with_exposed_provenance_mut(self.reach.get().va(pa).0 as usize)
    }

    #[inline]
    fn cut_page(&self) -> Option<Pa> {
        if self.cut.get() == self.cut_end.get() {
            self.next_range()?;
        }
        let page = self.cut.get();
        self.cut.set(page + self.page_size);
        Some(Pa(page))
    }

    #[cold]
    fn next_range(&self) -> Option<()> {
        let mut waiting = self.waiting.borrow_mut();
        let next = waiting.longest();
        if next.is_empty() {
            return None;
        }
        self.cut.set(next.start.0);
        self.cut_end.set(next.end.0);
        waiting.remove(&next).ok()
    }
}

impl Frames {
    /// Builds a tree of regions from any iterator, so that the image has one copy of the code for several.
    ///
    /// # Errors
    ///
    /// As for [`Tree::build_regions`].
    pub(crate) fn tree(
        &self,
        geometry: Geometry,
        half: Half,
        regions: &mut dyn Iterator<Item = Region>,
    ) -> Result<Tree, BuildError> {
        Tree::build_regions(self, geometry, half, regions)
    }

    /// Refuses pages at random from now on, as `seed` decides.
    pub(crate) fn refuse_at_random(&self, seed: u64) {
        let _taken = self.lock();
        self.scarcity.restart(seed);
        self.chain.set(marked(first(self.chain.get())));
    }

    /// Refuses no page from now on while there is one. Returns how many were refused.
    pub(crate) fn refuse_none(&self) -> u64 {
        let _taken = self.lock();
        self.chain.set(first(self.chain.get()));
        self.scarcity.refused()
    }

    /// Returns the first page of the free list, 0 if it is empty. Under the lock.
    fn first_chained(&self) -> u64 {
        first(self.chain.get())
    }

    /// Makes the free list start with this page; the bit for shortage stays. Under the lock.
    fn chain_from(&self, page: u64) {
        self.chain.set(with_first(self.chain.get(), page));
    }

    /// Takes a page in times of shortage, from the free list with this head. Under the lock.
    #[cold]
    fn take_scarce(&self, head: u64) -> Option<Pa> {
        if self.scarcity.refuses() {
            return None;
        }
        let page = first(head);
        if page == 0 {
            return self.cut_page();
        }
        // SAFETY: as in `free_bytes`.
        let next = unsafe { self.load(Slot { table: Pa(page), index: 0 }) }.0;
        self.chain.set(marked(next));
        Some(Pa(page))
    }

    /// Puts a page before the free list with this head, in times of shortage. Under the lock.
    #[cold]
    fn give_scarce(&self, head: u64, page: Pa) {
        // SAFETY: the page was a frame until now, so nothing else refers to it.
        unsafe { self.store(Slot { table: page, index: 0 }, Descriptor(first(head))) };
        self.chain.set(marked(page.0));
    }
}

// SAFETY:
// - `add`'s callers hand over memory that nothing else uses, in whole pages, reachable; each page is cut
//   off once, or comes back through `give`;
// - `words` is that one page, plain memory, through the only mapping in use;
// - it is the only memory of the image.
unsafe impl Memory for Frames {
    fn page_size(&self) -> u64 {
        self.page_size
    }

    const ACCESS: Access = Access::Plain;

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        self.page(table)
    }

    #[inline]
    fn take(&self) -> Option<Frame> {
        let _taken = self.lock();
        let head = self.chain.get();
        let page = if head == 0 {
            self.cut_page()?
        } else if is_marked(head) {
            self.take_scarce(head)?
        } else {
            // SAFETY: as in `free_bytes`.
            self.chain.set(unsafe { self.load(Slot { table: Pa(head), index: 0 }) }.0);
            Pa(head)
        };
        // SAFETY: just cut from free memory or taken off the free list, so nothing else refers to it.
        Some(unsafe { Frame::from_pa(page) })
    }

    fn give(&self, frame: Frame) {
        let page = frame.into_pa();
        let _taken = self.lock();
        let head = self.chain.get();
        if is_marked(head) {
            return self.give_scarce(head, page);
        }
        // SAFETY: the page was a frame until now, so nothing else refers to it.
        unsafe { self.store(Slot { table: page, index: 0 }, Descriptor(head)) };
        self.chain.set(page.0);
    }
}
