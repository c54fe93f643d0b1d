//! The hand-over from the EFI stub to the kernel: one area of memory that begins with a [`Handover`].
//!
//! The stub copies into the area whatever the kernel reads before it has a map of its own, so that nothing else of the firmware's
//! memory has to be mapped. All addresses are physical and lie in the area, except that of the RSDP.

/// The first word of a [`Handover`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"linmapEF");

/// The alignment of the area, in bytes: it starts where a block of the entry code's map does.
pub const ALIGN: u64 = 2 << 20;

/// The most bytes of the area: what the entry code maps for it.
pub const MOST: u64 = 4 << 20;

/// A part of the area; empty if there is nothing to hand on.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// The physical address of its first byte.
    pub address: u64,
    /// Its length in bytes; 0 if there is none.
    pub bytes: u64,
}

/// The beginning of the area.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Handover {
    /// [`MAGIC`].
    pub magic: u64,
    /// The bytes of the area that are in use, this structure included; at most [`MOST`].
    pub bytes: u64,
    /// The device tree, at a multiple of 8, if the firmware has one.
    pub device_tree: Span,
    /// The physical address of the RSDP of ACPI in the firmware's memory; 0 if there is none. The kernel does not need
    /// it to read the tables, which are in `acpi`.
    pub rsdp: u64,
    /// Copies of the ACPI tables that are used, one after the other.
    pub acpi: Span,
    /// The memory map of the firmware as it was at the exit of boot services, at a multiple of 8.
    pub memory_map: Span,
    /// The bytes from one descriptor of the memory map to the next.
    pub descriptor_bytes: u64,
    /// The command line, in UTF-8.
    pub command_line: Span,
    /// The virtual counter (CNTVCT_EL0) when the firmware called the image.
    pub entered_at: u64,
}

/// The bytes of the structure itself.
pub const HEADER: usize = size_of::<Handover>();

impl Handover {
    /// Returns true if the structure can be one that a stub left: its first word, and its length.
    pub const fn is_plausible(&self) -> bool {
        self.magic == MAGIC && self.bytes >= HEADER as u64 && self.bytes <= MOST
    }

    /// Returns a part of the area `area`, which starts at the physical address `start`; none if it is empty or not all of it
    /// is in the area.
    pub fn part<'a>(&self, span: Span, start: u64, area: &'a [u8]) -> Option<&'a [u8]> {
        let from = usize::try_from(span.address.checked_sub(start)?).ok()?;
        let to = from.checked_add(usize::try_from(span.bytes).ok()?)?;
        area.get(from..to).filter(|part| !part.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_in_the_area_or_there_is_none() {
        let (handover, area) = (Handover::default(), [1, 2, 3, 4]);
        let part = |address, bytes| handover.part(Span { address, bytes }, 0x1000, &area);
        assert_eq!(part(0x1001, 3), Some(&area[1..]));
        assert_eq!(part(0x1000, 4), Some(&area[..]));
        for (address, bytes) in
            [(0x1001, 4), (0xfff, 2), (0, 0), (0x1002, 0), (0x1001, u64::MAX), (u64::MAX, 1)]
        {
            assert_eq!(part(address, bytes), None, "{address:#x} {bytes:#x}");
        }
    }

    #[test]
    fn a_structure_with_another_length_is_none() {
        let right = Handover { magic: MAGIC, bytes: HEADER as u64, ..Handover::default() };
        assert!(right.is_plausible() && Handover { bytes: MOST, ..right }.is_plausible());
        for wrong in [
            Handover { magic: 0, ..right },
            Handover { bytes: HEADER as u64 - 1, ..right },
            Handover { bytes: MOST + 1, ..right },
        ] {
            assert!(!wrong.is_plausible(), "{wrong:?}");
        }
    }
}
