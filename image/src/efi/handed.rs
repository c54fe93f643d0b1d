//! The area that the stub handed on, read by the kernel before it has a map of its own.

use core::ops::Range;
use core::ptr;

use kernel_plan::efi::handover::Handover;
use kernel_plan::efi::memory_map::{BadStride, MemoryMap};
use linmap::{Layout, Pa};

/// The area that the stub handed on.
#[derive(Clone, Copy)]
pub(crate) struct HandedOver {
    handover: Handover,
    start: u64,
    area: &'static [u8],
}

impl HandedOver {
    /// Returns the area at a physical address, or none at 0 or if it is none of the stub's.
    ///
    /// # Safety
    ///
    /// It is 0, or the entry code has mapped 4 MiB from there, and nothing writes to the area.
    pub(crate) unsafe fn at(start: u64) -> Option<Self> {
        if start == 0 {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { Self::read(start, start) }
    }

    /// Returns the area that is at a physical address, read at a virtual one.
    ///
    /// # Safety
    ///
    /// As for [`at`](Self::at), at the virtual address.
    unsafe fn read(start: u64, va: u64) -> Option<Self> {
        let area: *const u8 = ptr::with_exposed_provenance(va as usize);
        // SAFETY: mapped, as the caller promises, and at a multiple of 2 MiB.
        let handover = unsafe { area.cast::<Handover>().read() };
        handover.is_plausible().then(|| {
            // SAFETY: it is plausible, so its length is at most what is mapped.
            let area = unsafe { core::slice::from_raw_parts(area, handover.bytes as usize) };
            Self { handover, start, area }
        })
    }

    /// Returns the area as the linear map has it, and the free memory behind it.
    ///
    /// # Safety
    ///
    /// The linear map is live, and nothing else uses [`range_with_room`](Self::range_with_room). It is called once.
    pub(crate) unsafe fn in_linear_map(&self, layout: &Layout<'_>) -> Option<(Self, &'static mut [u8])> {
        let room = self.handover.room;
        let last = Pa(room.address.checked_add(room.bytes)?.checked_sub(1)?);
        let (area, room_at) = (layout.va(Pa(self.start))?, layout.va(Pa(room.address))?);
        layout.va(last)?;
        let start: *mut u8 = ptr::with_exposed_provenance_mut(room_at.0 as usize);
        // SAFETY: mapped with the RAM that it is in, and this program's own, as the caller promises. Any bytes are bytes.
        unsafe {
            Some((
                Self::read(self.start, area.0)?,
                core::slice::from_raw_parts_mut(start, room.bytes as usize),
            ))
        }
    }

    /// Returns the device tree, if the firmware has one.
    pub(crate) fn device_tree(&self) -> Option<&'static [u8]> {
        self.handover.part(self.handover.device_tree, self.start, self.area)
    }

    /// Returns the ACPI tables that are used, one after the other, if the firmware has any.
    pub(crate) fn acpi(&self) -> Option<&'static [u8]> {
        self.handover.part(self.handover.acpi, self.start, self.area)
    }

    /// Returns the command line, if there is one.
    pub(crate) fn command_line(&self) -> Option<&'static str> {
        let line = self.handover.part(self.handover.command_line, self.start, self.area)?;
        core::str::from_utf8(line).ok()
    }

    /// Returns the memory map of the firmware.
    ///
    /// # Errors
    ///
    /// Its descriptors have an impossible length.
    pub(crate) fn memory_map(&self) -> Result<MemoryMap<'static>, BadStride> {
        let map = self.handover.part(self.handover.memory_map, self.start, self.area);
        MemoryMap::new(map.unwrap_or_default(), self.handover.descriptor_bytes)
    }

    /// Returns where the area is.
    pub(crate) fn range(&self) -> Range<Pa> {
        Pa(self.start)..Pa(self.start + self.area.len() as u64)
    }

    /// Returns where the area and the free memory behind it are.
    pub(crate) fn range_with_room(&self) -> Range<Pa> {
        let room = self.handover.room;
        Pa(self.start)..Pa((self.start + self.area.len() as u64).max(room.address.saturating_add(room.bytes)))
    }

    /// Returns the physical address of the table of runtime services; 0 if they have no variables.
    pub(crate) const fn runtime(&self) -> u64 {
        self.handover.runtime
    }

    /// Returns true if this start has written the document of an earlier run to a file.
    pub(crate) const fn has_collected(&self) -> bool {
        self.handover.collected != 0
    }

    /// Returns the virtual counter when the firmware called the image.
    pub(crate) const fn entered_at(&self) -> u64 {
        self.handover.entered_at
    }
}
