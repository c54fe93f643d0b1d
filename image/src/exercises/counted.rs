//! Work that is counted by the calls of the library in it.

use super::traffic;
use crate::counters::Window;
use crate::hardware::HARDWARE;
use crate::interrupts;
use crate::system::System;
use crate::warning::warn;

/// Does something and counts what happens meanwhile, without ticks. Other CPUs have traffic before.
#[inline(always)]
pub(super) fn counted<R>(system: &System<'_>, work: impl FnOnce() -> R) -> (R, Window) {
    traffic::pass(system);
    interrupts::masked(|| system.counters.window(&HARDWARE.cpu, work))
}

/// Returns true if more than so many bytes of RAM are free; otherwise warns of what is left out.
pub(super) fn has_room(system: &System<'_>, bytes: u64, what: &str) -> bool {
    let free = system.frames.free_bytes();
    if free <= bytes {
        warn(format_args!(
            "{what}: not counted, as that takes {} KiB of RAM, and {} are free",
            bytes >> 10u32,
            free >> 10u32
        ));
    }
    free > bytes
}
