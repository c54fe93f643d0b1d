//! The interrupt handler: what a CPU does when another one has interrupted it.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use linmap::Va;

use crate::interrupts::{self, Sgi};
use crate::probe::try_read;
use crate::{parking, smp};

/// Makes the next wake-ups read an address that is not mapped: a test that handlers survive probes.
pub(crate) static PROBE_AT_WAKE: AtomicBool = AtomicBool::new(false);

/// The vectors come here with an interrupt of EL1. Takes it and returns.
#[unsafe(no_mangle)]
extern "C" fn interrupt() {
    interrupts::take(|sgi| match sgi {
        Sgi::Wake if PROBE_AT_WAKE.load(Relaxed) => {
            // The lower half is empty.
            _ = try_read(Va(0));
        }
        Sgi::Wake => {}
        Sgi::Park => parking::answer(),
        Sgi::Hold => smp::hold(),
    });
}
