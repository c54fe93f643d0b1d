//! The loadable segments of an ELF file.

use object::LittleEndian;
use object::elf::{EM_AARCH64, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

/// A loadable segment: its place in memory, and its bytes in the file.
pub(crate) struct Segment<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The address that it is linked at.
    pub(crate) linked: u64,
    /// `PF_X` and its like.
    pub(crate) flags: u32,
    pub(crate) bytes: &'a [u8],
}

/// The segments that occupy memory, by physical address.
pub(crate) fn segments(elf: &[u8]) -> Result<Vec<Segment<'_>>, String> {
    let header =
        FileHeader64::<LittleEndian>::parse(elf).map_err(|e| format!("not a 64-bit ELF file: {e}"))?;
    let endian = header.endian().map_err(|e| format!("not a little-endian ELF file: {e}"))?;
    let machine = header.e_machine(endian);
    if machine != EM_AARCH64 {
        return Err(format!("an ELF file for machine {}, not AArch64 ({})", machine.0, EM_AARCH64.0));
    }

    let mut segments = Vec::new();
    for header in header.program_headers(endian, elf).map_err(|e| format!("program headers: {e}"))? {
        let (start, size) = (header.p_paddr(endian), header.p_memsz(endian));
        if header.p_type(endian) != PT_LOAD || size == 0 {
            continue;
        }
        let end = start
            .checked_add(size)
            .ok_or(format!("the segment at physical {start:#x} ends past the last address"))?;
        let bytes = header.data(endian, elf).map_err(|()| {
            format!("the segment at physical {start:#x} is not all in the file: is it cut short?")
        })?;
        if bytes.len() as u64 > size {
            return Err(format!("the segment at physical {start:#x} is larger in the file than in memory"));
        }
        let (linked, flags) = (header.p_vaddr(endian), header.p_flags(endian).0);
        segments.push(Segment { start, end, linked, flags, bytes });
    }
    segments.sort_by_key(|segment| segment.start);
    Ok(segments)
}
