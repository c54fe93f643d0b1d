//! Table pages in host memory for several threads.

extern crate std;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use super::pages::Pages;
use crate::format::{Geometry, Pa};
use crate::platform::combined::Combined;
use crate::platform::hardware::Hardware;
use crate::platform::memory::{Access, Frame, Memory};

/// A bounded supply of table pages in host memory, for several threads.
///
/// The address space is reserved at once; the host commits pages when they are first written. With
/// [`Threads`](super::Threads) it is a platform whose tables several threads change at the same time.
///
/// ```
/// use linmap::host::{SharedMemory, Threads};
/// use linmap::{SharedSpace, Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Policy, Tree, Va};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let (memory, threads) = (SharedMemory::new(g, 64), Threads::<64>::new());
/// // SAFETY: the threads have no other locks for these tables.
/// let platform = unsafe { memory.platform(&threads) };
/// let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, core::iter::empty())?);
/// space.set_policy(Policy::Live);
/// let gigabyte = |n: u64| Va(g.base(Half::Upper) + (n << 30));
/// std::thread::scope(|scope| {
///     for n in 0..2 {
///         let (space, platform) = (&space, &platform);
///         // SAFETY: no CPU uses these tables.
///         scope.spawn(move || unsafe {
///             space.on(platform).map(gigabyte(n), 16, Pa(n << 30), Attributes::RAM).unwrap();
///             space.on(platform).protect(gigabyte(n), 1, Change::READ_ONLY).unwrap();
///         });
///     }
/// });
/// assert_eq!(space.on(&platform).stats(), space.on(&platform).read(|reader| reader.count((gigabyte(0), gigabyte(2)))));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedMemory {
    pages: Pages,
    free: Mutex<Free>,
}

/// The pages that can be taken.
#[derive(Debug, Default)]
struct Free {
    /// The number of the first page that was never taken. All later ones are also free.
    fresh: usize,
    /// Pages that were returned.
    returned: Vec<Pa>,
}

// SAFETY: the allocation may be used by any thread, and belongs to this value. Its pages are reached by their owners and,
// as tables, word by word through atomic accesses. The list of free pages is behind a lock.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Returns a supply of at most `limit` table pages (at least one) of the geometry's page size.
    ///
    /// # Panics
    ///
    /// The pages are more than an address space holds.
    #[must_use]
    pub fn new(geometry: Geometry, limit: usize) -> Self {
        Self { pages: Pages::new(geometry, limit), free: Mutex::default() }
    }

    /// Returns the number of pages that are taken and not returned.
    pub fn in_use(&self) -> usize {
        let free = self.free();
        free.fresh - free.returned.len()
    }

    /// Combines the memory with hardware into a platform.
    ///
    /// # Safety
    ///
    /// As for [`Combined::new`].
    pub const unsafe fn platform<'m, H: Hardware>(&'m self, hardware: &'m H) -> Combined<'m, Self, H> {
        // SAFETY: the caller's promise.
        unsafe { Combined::new(self, hardware) }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY:
// - pages are numbered, and each number is handed out once until it is returned, so a frame is exclusive; the
//   allocation is page-aligned and never moves;
// - `words` is that one page, plain memory that is initialised (zeroed at first);
// - no two memories share an address, and `Pages::words` refuses the addresses of others.
unsafe impl Memory for SharedMemory {
    const ACCESS: Access = Access::Plain;

    fn page_size(&self) -> u64 {
        self.pages.page_size()
    }

    fn take(&self) -> Option<Frame> {
        let mut free = self.free();
        let pa = free.returned.pop().or_else(|| {
            let pa = self.pages.address(free.fresh)?;
            free.fresh += 1;
            Some(pa)
        })?;
        // SAFETY: the page was never taken, or was returned since; nothing else refers to it.
        Some(unsafe { Frame::from_pa(pa) })
    }

    fn give(&self, frame: Frame) {
        self.pages.words(frame.pa());
        self.free().returned.push(frame.into_pa());
    }

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        self.pages.words(table)
    }
}
