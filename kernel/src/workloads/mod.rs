//! Workloads: what is done to be counted, run by name (`run=NAME`).

pub(crate) mod bench;
mod churn;
mod copies;
pub(crate) mod costs;
pub(crate) mod micro;
mod walks;

use crate::counters::Window;
use crate::hardware::HARDWARE;
use crate::{System, interrupts, warn};

/// What happens while something is done. No tick is counted.
#[inline(always)]
fn counted<R>(system: &System<'_>, work: impl FnOnce() -> R) -> (R, Window) {
    interrupts::masked(|| system.counters.window(&HARDWARE.cpu, work))
}

/// Whether more than so many bytes of RAM are free; if not, something is left out, which is said.
fn has_room(system: &System<'_>, bytes: u64, what: &str) -> bool {
    let free = system.frames.free_bytes();
    if free <= bytes {
        warn(format_args!(
            "{what}: not counted, as that takes {} KiB of RAM, and {} are free",
            bytes >> 10,
            free >> 10
        ));
    }
    free > bytes
}
