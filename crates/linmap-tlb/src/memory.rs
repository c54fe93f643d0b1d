//! A workload's memory: areas of pages anywhere in RAM, accessed through two linear maps at once, in pages and in large
//! leaves.

use crate::tlb::Tlb;

/// log2 of the bytes in a cache line. Bytes of one line are one access.
const LINE_SHIFT: u32 = 6;

/// Consecutive pages of the workload's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    first: u64,
    pub(crate) bytes: u64,
}

/// Allocates areas, one after the other.
pub(crate) struct Areas {
    page_shift: u32,
    pages: u64,
}

impl Areas {
    pub(crate) const fn new(page_shift: u32) -> Self {
        Self { page_shift, pages: 0 }
    }

    /// Returns the size of a page in bytes.
    pub(crate) const fn page(&self) -> u64 {
        1 << self.page_shift
    }

    /// Allocates so many bytes, rounded up to whole pages.
    pub(crate) fn area(&mut self, bytes: u64) -> Area {
        let pages = bytes.div_ceil(self.page()).max(1);
        let first = self.pages;
        self.pages += pages;
        Area { first, bytes: pages << self.page_shift }
    }

    /// Allocates objects of one size. None crosses a page boundary unless it is larger than a page.
    pub(crate) fn slab(&mut self, objects: u64, size: u64) -> Slab {
        let per_page = (self.page() / size).max(1);
        let stride = size.next_multiple_of(self.page());
        let area = self.area(objects.div_ceil(per_page).max(1) * stride);
        Slab { area, size, per_page, stride, objects: objects.max(1) }
    }

    /// Returns the pages of all areas.
    pub(crate) const fn pages(&self) -> u64 {
        self.pages
    }
}

/// Objects of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slab {
    area: Area,
    pub(crate) size: u64,
    per_page: u64,
    stride: u64,
    pub(crate) objects: u64,
}

impl Slab {
    #[inline]
    fn offset(&self, object: u64) -> u64 {
        let object = object % self.objects;
        object / self.per_page * self.stride + object % self.per_page * self.size
    }
}

/// The pages of all areas, and two TLBs that see the same accesses.
pub(crate) struct Memory {
    /// For each page of the areas its page number in the linear map.
    frames: Vec<u32>,
    page_shift: u32,
    /// Over the map in pages, and over the one in large leaves.
    pub(crate) tlbs: [Tlb; 2],
}

impl Memory {
    pub(crate) const fn new(frames: Vec<u32>, page_shift: u32, tlbs: [Tlb; 2]) -> Self {
        Self { frames, page_shift, tlbs }
    }

    /// Returns the number of accesses since the last restart.
    #[inline]
    pub(crate) const fn accesses(&self) -> u64 {
        self.tlbs[0].counts().accesses
    }

    /// Accesses each line of a part of an area; offsets after its end continue at its start.
    #[inline]
    pub(crate) fn touch(&mut self, area: Area, offset: u64, bytes: u64) {
        let mut offset = if offset < area.bytes { offset } else { offset % area.bytes };
        let mut left = bytes.min(area.bytes);
        let page = 1u64 << self.page_shift;
        while left > 0 {
            let within = offset & (page - 1);
            let part = left.min(page - within);
            let address = self.address(area, offset);
            self.access(address, lines(address, part));
            left -= part;
            offset += part;
            if offset == area.bytes {
                offset = 0;
            }
        }
    }

    /// Returns the address in the linear map of a byte of an area.
    #[inline]
    pub(crate) fn address(&self, area: Area, offset: u64) -> u64 {
        let frame = u64::from(self.frames[(area.first + (offset >> self.page_shift)) as usize]);
        frame << self.page_shift | offset & ((1 << self.page_shift) - 1)
    }

    /// Accesses so many lines of one page, from an address of the linear map on.
    #[inline]
    pub(crate) fn access(&mut self, address: u64, lines: u64) {
        for tlb in &mut self.tlbs {
            tlb.access(address, lines);
        }
    }

    /// Accesses the first bytes of an object.
    #[inline]
    pub(crate) fn object(&mut self, slab: &Slab, object: u64, bytes: u64) {
        self.touch(slab.area, slab.offset(object), bytes.min(slab.size));
    }

    /// Returns the address in the linear map of a page by its number, or `None` if there are fewer pages.
    #[inline]
    pub(crate) fn frame(&self, page: u64) -> Option<u64> {
        self.frames.get(usize::try_from(page).ok()?).map(|frame| u64::from(*frame) << self.page_shift)
    }

    /// Sets all counts to 0; TLB entries stay.
    pub(crate) fn restart(&mut self) {
        self.tlbs.iter_mut().for_each(Tlb::restart);
    }
}

/// Returns the number of cache lines that these bytes lie in; `bytes` is not 0.
#[inline]
pub(crate) const fn lines(address: u64, bytes: u64) -> u64 {
    ((address + bytes - 1) >> LINE_SHIFT) - (address >> LINE_SHIFT) + 1
}
