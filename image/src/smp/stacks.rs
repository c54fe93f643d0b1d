//! The stacks of the other CPUs: mapped at the upper end of the vmalloc area, each above a guard.

use arrayvec::ArrayVec;
use linmap::error::ChangeError;
use linmap::{Attributes, Frame, Geometry, Memory, Va};

use crate::system::System;
use crate::virtual_addresses::{STACK, stack_bytes, stack_start};

/// The most pages of a stack.
const PAGES: usize = (STACK >> 12) as usize;

/// The stack of one CPU.
pub(super) struct Stack {
    start: Va,
    frames: ArrayVec<Frame, PAGES>,
}

impl Stack {
    /// Maps a stack for a CPU.
    ///
    /// # Errors
    ///
    /// Out of frames; nothing has changed.
    pub(super) fn new(system: &System<'_>, index: usize) -> Result<Self, ChangeError> {
        let geometry = system.geometry;
        let pages = (stack_bytes(geometry) >> geometry.page_shift()) as usize;
        let mut stack = Self { start: stack_start(index, geometry), frames: ArrayVec::new() };
        for mapped in 0..pages {
            if let Err(e) = stack.map_another(system) {
                stack.unmap(system, mapped);
                return Err(e);
            }
        }
        Ok(stack)
    }

    /// Maps one more page, above the others.
    fn map_another(&mut self, system: &System<'_>) -> Result<(), ChangeError> {
        let Some(frame) = system.frames.take() else {
            return Err(ChangeError::OutOfFrames { taken: 0 });
        };
        let va = Va(self.start.0 + ((self.frames.len() as u64) << system.geometry.page_shift()));
        let oa = frame.pa();
        self.frames.push(frame);
        // SAFETY: the frame is this stack's, and nothing but the linear map reaches it, which has the same
        // memory type; nothing writes through that.
        unsafe { system.space.on(&system.platform()).map(va, 1, oa, Attributes::KERNEL_DATA) }
    }

    /// Unmaps the first pages and gives all memory back.
    fn unmap(self, system: &System<'_>, mapped: usize) {
        if mapped != 0 {
            // SAFETY: no CPU uses this stack.
            let unmapped = unsafe { system.space.on(&system.platform()).unmap(self.start, mapped as u64) };
            if unmapped.is_err() {
                // Never: the pages are whole leaves. If they stay mapped, they keep their memory.
                return;
            }
        }
        self.frames.into_iter().for_each(|frame| system.frames.give(frame));
    }

    /// Unmaps it and gives its memory back; no CPU uses it.
    pub(super) fn give_back(self, system: &System<'_>) {
        let pages = self.frames.len();
        self.unmap(system, pages);
    }

    /// Returns the number of its pages.
    pub(super) fn pages(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Returns its end, where use begins.
    pub(super) fn top(&self, geometry: Geometry) -> Va {
        Va(self.start.0 + stack_bytes(geometry))
    }
}
