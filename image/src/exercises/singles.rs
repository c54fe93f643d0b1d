//! The costs of one page that is mapped where its table is there, and unmapped, as by vmap and by drivers.
//!
//! A page beside it stays mapped, so that the table stays.

use linmap::{Attributes, Frame, Memory, Pa, Va};

use super::counted::counted;
use super::scratch::unused_gigabyte;
use super::tally::Tally;
use super::traffic;
use crate::report;
use crate::system::System;

/// The number of the gigabyte that the pages are in: the first after those of `traffic`.
const GIGABYTE: u64 = traffic::CPUS as u64;

/// Counts this after it was done once, so that nothing is done for the first time.
pub(crate) fn count(tally: &Tally<'_>, system: &System<'_>) {
    let Some(frame) = tally.done(system.frames.take().ok_or("out of RAM"), "no page") else { return };
    let first = unused_gigabyte(system, GIGABYTE);
    let second = Va(first.0 + system.geometry.page_size());
    if map(tally, system, first, &frame) {
        count_beside(tally, system, second, &frame);
        unmap(tally, system, first);
    }
    // A page that may still be mapped is not given to others.
    if tally.wrong() == 0 {
        system.frames.give(frame);
    }
}

fn count_beside(tally: &Tally<'_>, system: &System<'_>, va: Va, frame: &Frame) {
    for counts in [false, true] {
        let (mapped, mapping) = counted(system, || map(tally, system, va, frame));
        let (unmapped, unmapping) = counted(system, || unmap(tally, system, va));
        if counts && mapped && unmapped {
            report::window("map_page", &mapping, &[]);
            report::window("unmap_page", &unmapping, &[]);
        }
    }
}

#[inline]
fn map(tally: &Tally<'_>, system: &System<'_>, va: Va, frame: &Frame) -> bool {
    let pa: Pa = frame.pa();
    // SAFETY: the addresses are this exercise's, which accesses nothing through them. The attributes are those of the linear map.
    let mapped = unsafe { system.space.on(&system.platform()).map(va, 1, pa, Attributes::RAM) };
    tally.done(mapped, "a page cannot be mapped").is_some()
}

#[inline]
fn unmap(tally: &Tally<'_>, system: &System<'_>, va: Va) -> bool {
    // SAFETY: nothing uses the address.
    let unmapped = unsafe { system.space.on(&system.platform()).unmap(va, 1) };
    tally.done(unmapped, "a page cannot be unmapped").is_some()
}
