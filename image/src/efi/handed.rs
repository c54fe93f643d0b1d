//! The area that the stub handed on, read by the kernel before it has a map of its own.

use core::ops::Range;
use core::ptr;

use kernel_plan::efi::handover::Handover;
use kernel_plan::efi::memory_map::{BadStride, MemoryMap};
use linmap::Pa;

/// The area that the stub handed on.
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
        let area: *const u8 = ptr::with_exposed_provenance(start as usize);
        // SAFETY: mapped, as the caller promises, and at a multiple of 2 MiB.
        let handover = unsafe { area.cast::<Handover>().read() };
        handover.is_plausible().then(|| {
            // SAFETY: it is plausible, so its length is at most what is mapped.
            let area = unsafe { core::slice::from_raw_parts(area, handover.bytes as usize) };
            Self { handover, start, area }
        })
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

    /// Returns the virtual counter when the firmware called the image.
    pub(crate) const fn entered_at(&self) -> u64 {
        self.handover.entered_at
    }
}
