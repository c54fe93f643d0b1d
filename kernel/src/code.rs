//! Code that comes and goes while the system runs, as a module's does: written into pages of the area, which then
//! become read-only and executable, by every address that they have.

use aarch64_cpu::asm::barrier;
use kernel::instructions::UDF;
use linmap::Va;

use crate::area::{Area, Error, Permission};

/// Pages of code, ready to run.
#[must_use = "code stays until it is unloaded"]
pub(crate) struct Code<'a> {
    area: Area<'a>,
    start: Va,
}

impl<'a> Code<'a> {
    /// Loads a function into so many pages: its instructions at their start, and one behind that is undefined.
    ///
    /// # Errors
    ///
    /// All is as before.
    ///
    /// # Safety
    ///
    /// The instructions are a C function of one number, which returns one, and depend on no address. They fit, with
    /// one more.
    pub(crate) unsafe fn load(area: Area<'a>, pages: u64, function: &[u32]) -> Result<Self, Error> {
        let code = Self { area, start: area.allocate(pages)? };
        let start: *mut u32 = core::ptr::with_exposed_provenance_mut(code.start.0 as usize);
        // SAFETY: just allocated, writable, and nobody else's.
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

    /// Calls the function. Any CPU may.
    pub(crate) fn call(&self, number: u64) -> u64 {
        // What this CPU has fetched of what was here before, it forgets.
        barrier::isb(barrier::SY);
        // SAFETY: by the promise of `load`; the code stays, since it is borrowed.
        let function: extern "C" fn(u64) -> u64 = unsafe { core::mem::transmute(self.start.0 as usize) };
        function(number)
    }

    /// Where it is.
    pub(crate) const fn start(&self) -> Va {
        self.start
    }

    /// Unmaps it. Nobody is in it, as it is nobody else's.
    pub(crate) fn unload(self) {
        self.area.free(self.start);
    }
}
