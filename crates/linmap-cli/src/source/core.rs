//! Cores: ELF files whose segments are physical memory, from QEMU's `dump-guest-memory` or from kdump.
//!
//! This file reads the header, the segments and VMCOREINFO, and trusts none of them. `/proc/kcore` is such a file,
//! too; its segments refer to memory of the running kernel.

use std::ops::Range;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::NoteIterator;
use object::{LittleEndian, pod};

use super::bytes::{Bytes, PartError};
use super::memory::Piece;
use super::vmcoreinfo::VmcoreInfo;

type Header = FileHeader64<LittleEndian>;
type Segment = ProgramHeader64<LittleEndian>;

/// The first bytes of an ELF file.
pub(super) const MAGIC: [u8; 4] = elf::ELFMAG;

/// More segments than any core has.
const MAX_SEGMENTS: usize = 1 << 16;
/// The most bytes of notes: enough for a hundred thousand CPUs.
const MAX_NOTES: u64 = 64 << 20;

/// Why an ELF file is not a core that can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreError {
    #[error(transparent)]
    Part(#[from] PartError),
    #[error("it is a 32-bit ELF file; a core of an arm64 kernel has 64")]
    Bits32,
    #[error("it is a big-endian ELF file; only little-endian kernels can be read")]
    BigEndian,
    #[error("it is an ELF file of {}; a core of an arm64 kernel is of machine 183", machine_name(*.0))]
    Machine(u16),
    #[error("it is an ELF file of type {0}, not a core (type 4){hint}", hint = kind_hint(*.0))]
    NotACore(u16),
    #[error("its ELF header is damaged: {0}")]
    Damaged(&'static str),
    #[error("no segment of it is physical memory; a core of a process is not one of a kernel")]
    NoMemory,
}

fn machine_name(machine: u16) -> String {
    let name = match elf::Machine(machine) {
        elf::EM_X86_64 => " (x86-64)",
        elf::EM_ARM => " (32-bit Arm)",
        elf::EM_RISCV => " (RISC-V)",
        elf::EM_PPC64 => " (POWER)",
        elf::EM_S390 => " (S/390)",
        _ => "",
    };
    format!("machine {machine}{name}")
}

fn kind_hint(kind: u16) -> &'static str {
    match elf::FileType(kind) {
        elf::ET_EXEC | elf::ET_DYN => "; is it a kernel or a program, rather than its memory?",
        _ => "",
    }
}

/// The headers of a core.
#[derive(Debug)]
pub(super) struct Core {
    /// Its segments of physical memory.
    pub(super) pieces: Vec<Piece>,
    /// VMCOREINFO from its note, if there is one.
    pub(super) info: Option<VmcoreInfo>,
}

impl Core {
    /// Reads the headers of a file. All segments must be in it.
    pub(super) fn read(bytes: &Bytes) -> Result<Self, CoreError> {
        let core = Self::read_headers(bytes)?;
        for piece in &core.pieces {
            bytes.has("a segment", piece.offset, piece.stored)?;
        }
        if core.pieces.is_empty() { Err(CoreError::NoMemory) } else { Ok(core) }
    }

    /// Reads the headers; segments can reach beyond the end of the file.
    pub(super) fn read_headers(bytes: &Bytes) -> Result<Self, CoreError> {
        let header = bytes.part("the ELF header", 0, size_of::<Header>() as u64)?;
        let (header, _) = pod::from_bytes::<Header>(&header).map_err(|()| CoreError::Damaged("its size"))?;
        let table = segment_table(header)?;
        let table = bytes.part("the list of segments", table.start, table.end - table.start)?;
        let segments = pod::slice_from_all_bytes::<Segment>(&table);
        let segments = segments.map_err(|()| CoreError::Damaged("the list of segments"))?;
        let of_type = |wanted| segments.iter().filter(move |s| s.p_type.get(LittleEndian) == wanted);
        let pieces = of_type(elf::PT_LOAD).filter_map(piece).collect();
        let mut info = None;
        for segment in of_type(elf::PT_NOTE) {
            let offset = segment.p_offset.get(LittleEndian);
            let length = segment.p_filesz.get(LittleEndian);
            if length > MAX_NOTES {
                return Err(CoreError::Damaged("its notes are longer than those of any machine"));
            }
            let notes = bytes.part("the notes", offset, length)?;
            info = info.or_else(|| vmcoreinfo(&notes));
        }
        Ok(Self { pieces, info })
    }
}

/// Returns the place of the list of segments, or an error if this header cannot have one.
fn segment_table(header: &Header) -> Result<Range<u64>, CoreError> {
    let ident = &header.e_ident;
    if ident.magic != MAGIC {
        return Err(CoreError::Damaged("it does not begin with ELF's four bytes"));
    }
    if ident.class == elf::ELFCLASS32 {
        return Err(CoreError::Bits32);
    }
    if ident.data == elf::ELFDATA2MSB {
        return Err(CoreError::BigEndian);
    }
    if (ident.class, ident.data) != (elf::ELFCLASS64, elf::ELFDATA2LSB) {
        return Err(CoreError::Damaged("its class or byte order is none that there is"));
    }
    let (kind, machine) = (header.e_type.get(LittleEndian), header.e_machine.get(LittleEndian));
    if machine != elf::EM_AARCH64 {
        return Err(CoreError::Machine(machine.0));
    }
    if kind != elf::ET_CORE {
        return Err(CoreError::NotACore(kind.0));
    }
    let count = usize::from(header.e_phnum.get(LittleEndian));
    if usize::from(header.e_phentsize.get(LittleEndian)) != size_of::<Segment>() {
        return Err(CoreError::Damaged("its segments are described in another size than 56 bytes"));
    }
    if count == 0 || count >= MAX_SEGMENTS - 1 {
        return Err(CoreError::Damaged("it has no segments, or more than there can be"));
    }
    let start = header.e_phoff.get(LittleEndian);
    let end = start.checked_add((count * size_of::<Segment>()) as u64);
    Ok(start..end.ok_or(CoreError::Damaged("its segments are beyond any file"))?)
}

/// Returns a segment as physical memory, or `None` for one of virtual memory alone, whose address is -1.
fn piece(segment: &Segment) -> Option<Piece> {
    let pa = segment.p_paddr.get(LittleEndian);
    let piece = Piece {
        pa,
        bytes: segment.p_memsz.get(LittleEndian),
        stored: segment.p_filesz.get(LittleEndian),
        offset: segment.p_offset.get(LittleEndian),
    };
    (pa != u64::MAX && piece.bytes != 0).then_some(piece)
}

/// Returns the kernel's lines from the note that has them.
fn vmcoreinfo(notes: &[u8]) -> Option<VmcoreInfo> {
    let mut notes = NoteIterator::<Header>::new(LittleEndian, 4u32.into(), notes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"VMCOREINFO" {
            return Some(VmcoreInfo::parse(note.desc()));
        }
    }
    None
}
