//! A workload's memory: areas of pages, each somewhere in RAM, accessed through the linear map in two ways at
//! once: mapped in pages and in large leaves.

use super::unit::Unit;

/// What an access is: everything within one of these counts once.
const LINE_SHIFT: u32 = 6;

/// Pages in a row, as the workload sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    first: u64,
    pub(crate) bytes: u64,
}

/// How areas are made: one behind the other.
pub(crate) struct Areas {
    page_shift: u32,
    pages: u64,
}

impl Areas {
    pub(crate) const fn new(page_shift: u32) -> Self {
        Self { page_shift, pages: 0 }
    }

    /// The size of a page.
    pub(crate) const fn page(&self) -> u64 {
        1 << self.page_shift
    }

    /// An area of so many bytes, in whole pages.
    pub(crate) fn area(&mut self, bytes: u64) -> Area {
        let pages = bytes.div_ceil(self.page()).max(1);
        let first = self.pages;
        self.pages += pages;
        Area { first, bytes: pages << self.page_shift }
    }

    /// An area of so many objects of one size, none of which crosses a page unless it is larger than one.
    pub(crate) fn slab(&mut self, objects: u64, size: u64) -> Slab {
        let a_page = (self.page() / size).max(1);
        let stride = size.next_multiple_of(self.page());
        let area = self.area(objects.div_ceil(a_page).max(1) * stride);
        Slab { area, size, a_page, stride, objects: objects.max(1) }
    }

    /// The pages of all areas.
    pub(crate) const fn pages(&self) -> u64 {
        self.pages
    }
}

/// Objects of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slab {
    area: Area,
    pub(crate) size: u64,
    a_page: u64,
    stride: u64,
    pub(crate) objects: u64,
}

impl Slab {
    #[inline]
    fn offset(&self, object: u64) -> u64 {
        let object = object % self.objects;
        object / self.a_page * self.stride + object % self.a_page * self.size
    }
}

/// Two TLBs that see the same accesses, and where the pages are.
pub(crate) struct Memory {
    /// By page of the areas: the page's number in the linear map.
    frames: Vec<u32>,
    page_shift: u32,
    /// Mapped in pages, and in large leaves.
    pub(crate) units: [Unit; 2],
}

impl Memory {
    pub(crate) const fn new(frames: Vec<u32>, page_shift: u32, units: [Unit; 2]) -> Self {
        Self { frames, page_shift, units }
    }

    /// How many accesses were made since the last restart.
    #[inline]
    pub(crate) const fn accesses(&self) -> u64 {
        self.units[0].counts.accesses
    }

    /// Accesses each line of a part of an area.
    #[inline]
    pub(crate) fn touch(&mut self, area: Area, offset: u64, bytes: u64) {
        let mut offset = if offset < area.bytes { offset } else { offset % area.bytes };
        let mut left = bytes.min(area.bytes);
        let page = 1u64 << self.page_shift;
        while left > 0 {
            let within = offset & (page - 1);
            let part = left.min(page - within);
            let address = self.address(area, offset);
            let lines = ((address + part - 1) >> LINE_SHIFT) - (address >> LINE_SHIFT) + 1;
            self.at(address, lines);
            left -= part;
            offset += part;
            if offset == area.bytes {
                offset = 0;
            }
        }
    }

    /// The address in the linear map of a byte of an area.
    #[inline]
    pub(crate) fn address(&self, area: Area, offset: u64) -> u64 {
        let frame = u64::from(self.frames[(area.first + (offset >> self.page_shift)) as usize]);
        frame << self.page_shift | offset & ((1 << self.page_shift) - 1)
    }

    /// Accesses an address of the linear map.
    #[inline]
    pub(crate) fn at(&mut self, address: u64, lines: u64) {
        for unit in &mut self.units {
            unit.access(address, lines);
        }
    }

    /// Accesses the first bytes of an object.
    #[inline]
    pub(crate) fn object(&mut self, slab: &Slab, object: u64, bytes: u64) {
        self.touch(slab.area, slab.offset(object), bytes.min(slab.size));
    }

    /// Accesses a page of an area by its number: the frame that it has, or none if there are no more.
    #[inline]
    pub(crate) fn frame(&self, page: u64) -> Option<u64> {
        self.frames.get(usize::try_from(page).ok()?).map(|frame| u64::from(*frame) << self.page_shift)
    }

    /// Counts from here on.
    pub(crate) fn restart(&mut self) {
        self.units.iter_mut().for_each(Unit::restart);
    }
}
