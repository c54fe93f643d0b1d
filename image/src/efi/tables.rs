//! The ACPI tables that are used, copied out of the firmware's memory while that can still be read.

use core::fmt::Write;

use kernel_plan::acpi::Tables;
use kernel_plan::efi::exit::BootServices;
use kernel_plan::efi::handover::Span;
use kernel_plan::efi::memory_map::MemoryMap;
use linmap::Pa;

use super::firmware::Firmware;

/// The room for all of them, in bytes: those of 512 CPUs take a tenth of it.
pub(super) const ROOM: u64 = 512 << 10;

/// Copies the tables that an RSDP leads to into `room`. Prints each that is left out. `map_room` is memory of the stub's for a
/// memory map, which says what can be read. Returns what was written; empty without tables.
pub(super) fn copy(firmware: &mut Firmware, rsdp: u64, room: Span, map_room: Span) -> Span {
    let none = Span { bytes: 0, ..room };
    let Ok(taken) = firmware.memory_map(map_room) else { return none };
    let at: *const u8 = core::ptr::with_exposed_provenance(map_room.address as usize);
    // SAFETY: the stub's own memory, in which the firmware has just written so many bytes.
    let bytes = unsafe { core::slice::from_raw_parts(at, taken.bytes.min(map_room.bytes) as usize) };
    let Ok(map) = MemoryMap::new(bytes, taken.descriptor_bytes) else { return none };
    let memory = |at: Pa, bytes: usize| {
        let end = at.0.checked_add(bytes as u64)?;
        let start: *const u8 = core::ptr::with_exposed_provenance(at.0 as usize);
        let can_be_read = at.0 != 0 && map.has_memory(&(at..Pa(end)));
        // SAFETY: memory that the firmware's map of addresses has 1:1; tables do not change.
        can_be_read.then(|| unsafe { core::slice::from_raw_parts(start, bytes) })
    };
    let found = Tables::find(Pa(rsdp), &memory, &mut |note| _ = writeln!(firmware, "warning: {note}"));
    let tables = match found {
        Ok(tables) => tables,
        Err(why) => {
            _ = writeln!(firmware, "warning: {why}");
            return none;
        }
    };
    let to: *mut u8 = core::ptr::with_exposed_provenance_mut(room.address as usize);
    // SAFETY: the stub's own memory, which nothing else uses; any bytes of it are bytes.
    let to = unsafe {
        to.write_bytes(0, room.bytes as usize);
        core::slice::from_raw_parts_mut(to, room.bytes as usize)
    };
    match tables.copy_to(to) {
        Some(copy) => Span { bytes: copy.len() as u64, ..room },
        None => {
            _ = writeln!(firmware, "warning: the ACPI tables have {:#x} bytes, too many", tables.bytes());
            none
        }
    }
}
