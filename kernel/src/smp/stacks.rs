//! The stacks of the other CPUs: mapped between the linear map and the image, each above a guard.

use arrayvec::ArrayVec;
use linmap::{Attributes, Error, Frame, Geometry, Memory, Va};

use crate::System;
use crate::boot::KERNEL_VA;
use crate::cpu;

/// Where they are, in the part of the upper half where areas are mapped at will, at its upper end.
pub(crate) const AREA: u64 = KERNEL_VA - (1 << 30);

/// Stacks are this long, or a page.
const STACK: u64 = 64 << 10;

/// The most pages that takes.
const PAGES: usize = (STACK >> 12) as usize;

/// The stack of one CPU.
pub(super) struct Stack {
    start: Va,
    frames: ArrayVec<Frame, PAGES>,
}

fn bytes(geometry: Geometry) -> u64 {
    STACK.max(geometry.page_size())
}

/// Where a CPU's stack starts: below it, as much as it takes is not mapped.
fn start(index: usize, geometry: Geometry) -> Va {
    Va(AREA + (2 * index as u64 + 1) * bytes(geometry))
}

/// The page below the stack of a CPU other than the first, which is not mapped.
pub(crate) fn guard(index: usize, geometry: Geometry) -> Va {
    Va(start(index, geometry).0 - geometry.page_size())
}

/// Whether an address is in the page below one of these stacks.
pub(crate) fn is_guard(va: Va, geometry: Geometry) -> bool {
    let page = Va(va.0 & !(geometry.page_size() - 1));
    (1..cpu::MAX).any(|index| guard(index, geometry) == page)
}

impl Stack {
    /// A stack for a CPU, mapped.
    ///
    /// # Errors
    ///
    /// Out of frames; nothing has changed.
    pub(super) fn new(system: &System<'_>, index: usize) -> Result<Self, Error> {
        let geometry = system.geometry;
        let pages = (bytes(geometry) >> geometry.page_shift()) as usize;
        let mut stack = Self { start: start(index, geometry), frames: ArrayVec::new() };
        for mapped in 0..pages {
            if let Err(e) = stack.map_another(system) {
                stack.unmap(system, mapped);
                return Err(e);
            }
        }
        Ok(stack)
    }

    /// Maps one page more, above the others.
    fn map_another(&mut self, system: &System<'_>) -> Result<(), Error> {
        let Some(frame) = system.frames.take() else {
            return Err(Error::OutOfFrames { taken: 0 });
        };
        let va = Va(self.start.0 + ((self.frames.len() as u64) << system.geometry.page_shift()));
        let oa = frame.pa();
        self.frames.push(frame);
        // SAFETY: the frame is this stack's, and nothing but the linear map reaches it, which is of the same
        // memory type; nobody writes to it by that.
        unsafe { system.space.map(&system.platform(), va, 1, oa, Attributes::KERNEL_DATA) }
    }

    /// Unmaps the first pages and gives all memory back.
    fn unmap(self, system: &System<'_>, mapped: usize) {
        if mapped != 0 {
            // SAFETY: no CPU uses this stack.
            let unmapped = unsafe { system.space.unmap(&system.platform(), self.start, mapped as u64) };
            if unmapped.is_err() {
                // Never: the pages are whole leaves. If they stay mapped, their memory stays theirs.
                return;
            }
        }
        self.frames.into_iter().for_each(|frame| system.frames.give(frame));
    }

    /// Gives it up; no CPU uses it.
    pub(super) fn give_back(self, system: &System<'_>) {
        let pages = self.frames.len();
        self.unmap(system, pages);
    }

    /// How many pages it has.
    pub(super) fn pages(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Where it ends, which is where it is used from.
    pub(super) fn top(&self, geometry: Geometry) -> Va {
        Va(self.start.0 + bytes(geometry))
    }
}
