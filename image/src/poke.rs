//! Pokes: one instruction of code in use is replaced by another.
//!
//! It is written through a second mapping of its page, for as long as that takes; the code itself stays read-only. Few
//! instructions may be replaced while another CPU executes them (Arm ARM B2.2.5), so all others are held.

use core::fmt;

use linmap::{Hardware, Pa, Va};

use crate::area::{Area, Error};
use crate::hardware::HARDWARE;
use crate::smp;

/// The reason why code was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Nothing is mapped there.
    Nowhere,
    /// Another instruction is there than was expected.
    Other(u32),
    /// Its page cannot be mapped a second time.
    Map(Error),
    /// A CPU cannot be held.
    Busy,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("nothing is mapped there"),
            Self::Other(found) => write!(f, "another instruction is there, {found:#010x}"),
            Self::Map(e) => e.fmt(f),
            Self::Busy => f.write_str("a CPU does not come to be held"),
        }
    }
}

/// Replaces an instruction by another.
///
/// # Errors
///
/// Nothing was changed.
///
/// # Safety
///
/// CPUs that execute it expect either of them.
pub(crate) unsafe fn poke(area: &Area<'_>, at: Va, old: u32, new: u32) -> Result<(), Refusal> {
    let page = area.system.geometry.page_size();
    let Pa(pa) = area.backing(at).ok_or(Refusal::Nowhere)?;
    let window = area.open(Pa(pa & !(page - 1))).map_err(Refusal::Map)?;
    let word: *mut u32 = core::ptr::with_exposed_provenance_mut((window.0 + pa % page) as usize);
    let done = smp::while_others_wait(|| {
        // SAFETY: `open` has mapped it, readable and writable, and nothing else writes to code: other CPUs are held.
        let found = unsafe { word.read_volatile() };
        if found != old {
            return Err(Refusal::Other(found));
        }
        // SAFETY: as above.
        unsafe { word.write_volatile(new) };
        // Data caches are indexed by physical addresses, so this mapping does as well.
        HARDWARE.sync_code(at, 4);
        Ok(())
    });
    area.close(window);
    done.unwrap_or(Err(Refusal::Busy))
}
