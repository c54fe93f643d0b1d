//! Table pages from RAM that is reached at an offset: through a linear map, in the image, or 1:1 with the MMU off.

use core::cell::Cell;
use core::ops::Range;

use lock_api::{GuardNoSend, RawMutex};

use crate::format::{Geometry, Pa};
use crate::platform::{Access, Frame, Memory};

/// A supply of table pages in RAM that is accessible at its physical address plus an offset.
///
/// It has no pages until some are [added](Self::add). Free memory is a list of ranges. Each range stores its list node
/// in its own first page, so the number of ranges is unlimited, and the other pages are not written.
///
/// `L` is a lock for concurrent users, such as `spin::Mutex<()>`. [`Unshared`], for a single CPU, uses no atomic
/// operation, so it works with the MMU off. The pages can be [moved](Self::moved) to another offset and lock, for
/// example once a linear map exists.
///
/// ```
/// use linmap::{Geometry, Granule, Half, Memory, OaFormat, OffsetMemory, Pa, Tree};
///
/// let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// # #[repr(align(4096))]
/// # struct Pool([u64; 2048]);
/// # let mut pool = Box::new(Pool([0; 2048]));
/// # let address = pool.0.as_mut_ptr().expose_provenance() as u64;
/// // A pool of four pages in the image, which is at `address` and at the physical address 0x4000_0000.
/// let ram = Pa(0x4000_0000)..Pa(0x4000_4000);
/// // SAFETY: the pool is reached there, and nothing else uses it.
/// let memory: OffsetMemory = unsafe { OffsetMemory::new(geometry, ram.clone(), address.wrapping_sub(ram.start.0)) };
/// unsafe { memory.add(ram) };
/// let tree = Tree::build(&memory, geometry, Half::Upper, core::iter::empty())?;
/// assert_eq!(memory.free_bytes(), 3 * 4096);
/// tree.discard(&memory);
/// assert_eq!(memory.free_bytes(), 4 * 4096);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OffsetMemory<L = Unshared> {
    lock: L,
    page_shift: u32,
    /// The physical addresses that its pages may have.
    reach: Range<Pa>,
    /// The address of a page less its physical address, wrapping.
    offset: u64,
    /// The start of the first free range, or [`END`]. Used under the lock.
    free: Cell<u64>,
}

/// The end of the list. No page starts there.
const END: u64 = u64::MAX;

// SAFETY: the cell is used under the lock; the rest does not change.
unsafe impl<L: RawMutex + Sync> Sync for OffsetMemory<L> {}

impl<L: RawMutex> OffsetMemory<L> {
    /// Returns a supply without pages, of the geometry's page size. All its pages will be in `reach`, accessible at
    /// their physical address plus `offset`, wrapping.
    ///
    /// # Safety
    ///
    /// All memory that is [added](Self::add) and each page that is given to it is mapped at that offset, writable, as
    /// normal memory, for as long as this value is in use. If there is another memory, none of its pages is in `reach`.
    /// `offset` is a multiple of the page size.
    ///
    /// `L` masks interrupts if a handler may take or give pages, directly or by changing a map; a plain spin lock would wait
    /// for its own CPU then.
    pub const unsafe fn new(geometry: Geometry, reach: Range<Pa>, offset: u64) -> Self {
        Self { lock: L::INIT, page_shift: geometry.page_shift(), reach, offset, free: Cell::new(END) }
    }

    /// Adds RAM: the whole pages of `ram` that are in reach. Returns their size in bytes.
    ///
    /// # Safety
    ///
    /// Nothing else uses these pages, now or later, and they have not been added before.
    pub unsafe fn add(&self, ram: Range<Pa>) -> u64 {
        let within = (1 << self.page_shift) - 1;
        let (first, end) = (ram.start.max(self.reach.start), ram.end.min(self.reach.end));
        let (start, end) = (first.0.saturating_add(within) & !within, end.0 & !within);
        if start >= end {
            return 0;
        }
        self.locked(|| self.link(start, end));
        end - start
    }

    /// Moves all pages, including those in use, to another offset and lock.
    ///
    /// # Safety
    ///
    /// As for [`new`](Self::new), for all pages that were ever added to this memory. They are all in the new `reach`. Free
    /// pages that were used with the MMU off have been discarded from the caches, as they hold the list.
    #[must_use = "a memory that is dropped loses its pages"]
    pub unsafe fn moved<M: RawMutex>(self, reach: Range<Pa>, offset: u64) -> OffsetMemory<M> {
        OffsetMemory { lock: M::INIT, page_shift: self.page_shift, reach, offset, free: self.free }
    }

    /// Returns the number of bytes that can still be taken.
    pub fn free_bytes(&self) -> u64 {
        self.locked(|| {
            let (mut bytes, mut start) = (0, self.free.get());
            while start != END {
                let (next, end) = self.range(start);
                bytes += end - start;
                start = next;
            }
            bytes
        })
    }

    fn locked<T>(&self, of_free: impl FnOnce() -> T) -> T {
        self.lock.lock();
        let result = of_free();
        // SAFETY: taken above. `of_free` is code of this file, which accesses pages of this memory only and does not unwind.
        unsafe { self.lock.unlock() };
        result
    }

    /// Puts a free range at the head of the list. The caller holds the lock.
    fn link(&self, start: u64, end: u64) {
        let note = self.page(Pa(start));
        // SAFETY: the first page of a free range, which is this memory's alone, has room for two words.
        unsafe {
            note.write(self.free.get());
            note.add(1).write(end);
        }
        self.free.set(start);
    }

    /// Returns the start of the free range after this one, and the end of this one. The caller holds the lock.
    fn range(&self, start: u64) -> (u64, u64) {
        let note = self.page(Pa(start));
        // SAFETY: `link` wrote both when the range became free.
        unsafe { (note.read(), note.add(1).read()) }
    }

    /// Returns the address at which a page is accessed.
    #[inline]
    fn page(&self, pa: Pa) -> *mut u64 {
        assert!(self.reach.contains(&pa), "{pa} is not a page of this memory");
        core::ptr::with_exposed_provenance_mut(pa.0.wrapping_add(self.offset) as usize)
    }
}

// SAFETY:
// - pages come from `add`, whose callers hand over whole pages that nothing else uses; each is in one free range until
//   it is taken, and in none until it is given back;
// - `words` is that one page, which is plain memory at the offset that `new` was given. Pages out of reach are refused.
unsafe impl<L: RawMutex> Memory for OffsetMemory<L> {
    const ACCESS: Access = Access::Plain;

    fn page_size(&self) -> u64 {
        1 << self.page_shift
    }

    fn take(&self) -> Option<Frame> {
        let page = self.locked(|| {
            let start = self.free.get();
            if start == END {
                return None;
            }
            let (next, end) = self.range(start);
            self.free.set(next);
            let last = end - (1 << self.page_shift);
            if last != start {
                self.link(start, last);
            }
            Some(last)
        })?;
        // SAFETY: a page of a free range, which it is no longer in.
        Some(unsafe { Frame::from_pa(Pa(page)) })
    }

    fn give(&self, frame: Frame) {
        let page = frame.into_pa().0;
        // Refuses a page of another memory before the lock is taken.
        self.page(Pa(page));
        self.locked(|| self.link(page, page + (1 << self.page_shift)));
    }

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        self.page(table)
    }
}

/// A lock for data of a single CPU. It panics if it is taken twice, and uses no atomic operation.
#[derive(Debug)]
pub struct Unshared(Cell<bool>);

// SAFETY: it is not `Sync`, so only one CPU can try, and the second attempt to take it panics.
unsafe impl RawMutex for Unshared {
    #[allow(clippy::declare_interior_mutable_const, reason = "each lock is one of its own")]
    const INIT: Self = Self(Cell::new(false));
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        assert!(self.try_lock(), "taken twice, by one CPU");
    }

    fn try_lock(&self) -> bool {
        !self.0.replace(true)
    }

    unsafe fn unlock(&self) {
        self.0.set(false);
    }
}
