//! Table pages in host memory for one thread, with hardware that does nothing.

extern crate std;

use core::cell::{Cell, RefCell};
use std::vec::Vec;

use super::pages::Pages;
use crate::format::{Geometry, Pa, Tlbi, Va};
use crate::platform::combined::Combined;
use crate::platform::entry_update::EntryUpdate;
use crate::platform::hardware::{CannotPark, Dsb, Hardware, Promise};
use crate::platform::memory::{Access, Frame, Memory};
use crate::platform::sharing::Sharing;

/// A bounded supply of table pages in host memory.
///
/// The address space is reserved at once; the host commits pages when they are first written.
#[derive(Debug)]
pub struct HostMemory {
    pages: Pages,
    /// The number of the first page that was never taken. All later ones are also free.
    fresh: Cell<usize>,
    /// Pages that were returned.
    free: RefCell<Vec<Pa>>,
    hardware: NoHardware,
}

impl HostMemory {
    /// Returns a supply of at most `limit` table pages (at least one) of the geometry's page size.
    pub fn new(geometry: Geometry, limit: usize) -> Self {
        Self {
            pages: Pages::new(geometry, limit),
            fresh: Cell::new(0),
            free: RefCell::default(),
            hardware: NoHardware::default(),
        }
    }

    /// Returns the number of pages that are taken and not returned.
    pub fn in_use(&self) -> usize {
        self.fresh.get() - self.free.borrow().len()
    }
}

// SAFETY:
// - pages are numbered, and each number is handed out once until it is returned, so a frame is exclusive; the
//   allocation is page-aligned and never moves;
// - `words` is that one page, which is plain memory;
// - no two memories share an address, and `Pages::words` refuses the addresses of others.
unsafe impl Memory for HostMemory {
    fn page_size(&self) -> u64 {
        self.pages.page_size()
    }

    #[inline]
    fn take(&self) -> Option<Frame> {
        let pa = self.free.borrow_mut().pop().or_else(|| {
            let fresh = self.fresh.get();
            let pa = self.pages.address(fresh)?;
            self.fresh.set(fresh + 1);
            Some(pa)
        })?;
        // SAFETY: the page was never taken, or was returned since; nothing else refers to it.
        Some(unsafe { Frame::from_pa(pa) })
    }

    fn give(&self, frame: Frame) {
        self.pages.words(frame.pa());
        self.free.borrow_mut().push(frame.into_pa());
    }

    const ACCESS: Access = Access::Plain;

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        self.pages.words(table)
    }
}

/// Hardware for tables that no CPU uses: barriers and invalidations do nothing.
///
/// It belongs to one thread. Its lock panics if it is taken twice.
#[derive(Debug, Default)]
pub struct NoHardware {
    locked: Cell<bool>,
}

/// The held lock of [`NoHardware`].
#[derive(Debug)]
pub struct HostHeld<'h>(&'h Cell<bool>);

impl Drop for HostHeld<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Table pages in host memory that no CPU uses.
pub type Host<'m> = Combined<'m, HostMemory, NoHardware>;

impl HostMemory {
    /// Returns the memory as a platform.
    pub fn platform(&self) -> Host<'_> {
        // SAFETY: the hardware belongs to this memory, and nothing else locks its tables.
        unsafe { Combined::new(self, &self.hardware) }
    }
}

// SAFETY: no walker and no TLB sees the tables, so every access is visible to all of them at once. No other thread has
// this value. There are no CPUs to park.
unsafe impl Hardware for NoHardware {
    fn promise(&self) -> Promise {
        Promise { never_aborts: true, range_tlbi: true, repeat_tlbi: false }
    }

    fn dsb(&self, _: Dsb) {}
    fn isb(&self) {}
    fn tlbi(&self, _: Tlbi, _: Geometry) {}
    fn sync_code(&self, _: Va, _: u64) {}

    unsafe fn park(&self, memory: &impl Memory, _: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        // SAFETY: live tables of this memory, which only this thread has. The operation holds the lock.
        updates.iter().for_each(|r| unsafe { r.carry_out(memory) });
        Ok(())
    }
}

// SAFETY: no other thread has this value, and the lock is taken by one holder at a time. Readers take it as well.
unsafe impl Sharing for NoHardware {
    type Held<'h> = HostHeld<'h>;

    fn lock(&self, _: usize) -> HostHeld<'_> {
        assert!(!self.locked.replace(true), "the lock on live tables is taken already, by this very thread");
        HostHeld(&self.locked)
    }
}
