//! Code that comes and goes while the system runs, as a module's does: written into pages of the vmalloc area, which
//! then become read-only and executable at all their addresses.

use kernel::instructions::UDF;
use linmap::Va;

use crate::area::{Area, Error, Permission};
use crate::cpus::HARDWARE;

/// Pages of code, ready to run.
#[must_use = "code stays until it is unloaded"]
pub(crate) struct Code<'a> {
    area: Area<'a>,
    start: Va,
}

impl<'a> Code<'a> {
    /// Loads a function into so many pages: its instructions, and an undefined one after them.
    ///
    /// # Errors
    ///
    /// Out of memory or addresses, or the library refuses; nothing is left of it.
    ///
    /// # Safety
    ///
    /// The instructions are a C function of one number, which returns one, and depend on no address. They fit, with
    /// one more.
    pub(crate) unsafe fn load(area: Area<'a>, pages: u64, function: &[u32]) -> Result<Self, Error> {
        let code = Self { area, start: area.allocate(pages)? };
        let start: *mut u32 = core::ptr::with_exposed_provenance_mut(code.start.0 as usize);
        // SAFETY: just allocated, writable, and this function's alone.
        unsafe {
            start.copy_from_nonoverlapping(function.as_ptr(), function.len());
            start.add(function.len()).write(UDF);
        }
        match area.change(code.start, pages, Permission::Code) {
            Ok(()) => Ok(code),
            Err(e) => {
                code.unload();
                Err(e)
            }
        }
    }

    /// Calls the function, on any CPU.
    pub(crate) fn call(&self, number: u64) -> u64 {
        // Drops what this CPU has fetched of earlier contents.
        HARDWARE.cpu.isb();
        // SAFETY: by the promise of `load`; the code stays, since it is borrowed.
        let function: extern "C" fn(u64) -> u64 = unsafe { core::mem::transmute(self.start.0 as usize) };
        function(number)
    }

    /// Returns its address.
    pub(crate) const fn start(&self) -> Va {
        self.start
    }

    /// Unmaps it. No CPU executes it, as no caller borrows it.
    pub(crate) fn unload(self) {
        self.area.free(self.start);
    }
}
