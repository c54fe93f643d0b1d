//! The image as an EFI application: a PE header behind the header of the Image, and base relocations at the end of the file.
//!
//! An ELF without the symbol `efi_entry` stays a plain Image. The sections of the PE file are the segments of the ELF, and lie
//! in the file where they are in memory, so that loaders of plain Images see no difference. Behind them are the base relocations,
//! which a plain loader puts at the beginning of the .bss. The linked address of the ELF is the base of the PE file, as the
//! words that hold addresses hold that one.

use object::LittleEndian;
use object::elf::{
    FileHeader64, PF_W, PF_X, R_AARCH64_ABS16, R_AARCH64_ABS32, R_AARCH64_ABS64, R_AARCH64_ADR_GOT_PAGE,
    R_AARCH64_MOVW_UABS_G0, R_AARCH64_MOVW_UABS_G3, SHF_ALLOC,
};
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};

use crate::segments::Segment;

/// The alignment of sections in memory and in the file.
const PAGE: u64 = 4096;
const FILE: u64 = 512;
/// The offsets of the word that says where the PE header is, and the least for that header: behind the Image's.
const PE_AT: usize = 0x3c;
const IMAGE_HEADER: usize = 64;

/// The part of the ELF that an EFI application takes: the linked addresses of its start and its entry, and the words to relocate.
struct Efi {
    base: u64,
    entry: u64,
    words: Vec<u64>,
}

/// Makes an EFI application of a flat image, if its ELF has the symbol `efi_entry`.
pub(crate) fn dress(elf: &[u8], segments: &[Segment<'_>], image: &mut Vec<u8>) -> Result<(), String> {
    let Some(efi) = read(elf, segments, image)? else { return Ok(()) };
    let end = segments.last().map_or(0, |last| last.end) - segments[0].start;
    let relocations = relocations(&efi.words);
    let relocations_at = end.next_multiple_of(PAGE);
    image.resize(image.len().next_multiple_of(FILE as usize), 0);
    let in_file = image.len() as u64;
    let bytes = (relocations.len() as u64).next_multiple_of(FILE);
    if in_file + bytes > end {
        return Err(format!("{bytes:#x} bytes of relocations are more than the .bss has room for"));
    }
    let mut sections = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let next = segments.get(index + 1).map(|next| next.start - segments[0].start);
        sections.push(Section::of(segment, segments[0].start, next.unwrap_or(in_file))?);
    }
    let table = relocations.len() as u64;
    sections.push(Section {
        name: *b".reloc\0\0",
        at: relocations_at,
        bytes: table,
        file: in_file,
        in_file: bytes,
        kind: READ_ONLY,
    });
    let header = header(&efi, &sections, (relocations_at, table));
    let at = room(image, header.len())?;
    image[at..at + header.len()].copy_from_slice(&header);
    image.extend(relocations);
    image.resize((in_file + bytes) as usize, 0);
    Ok(())
}

/// Returns where the image has room for a header of so many bytes, as the word in its own header says.
fn room(image: &[u8], bytes: usize) -> Result<usize, String> {
    let word = image.get(PE_AT..PE_AT + 4).and_then(|word| word.try_into().ok());
    let at = word.map_or(0, u32::from_le_bytes) as usize;
    let is_free = |room: &[u8]| room.iter().all(|byte| *byte == 0);
    if at < IMAGE_HEADER || at + bytes > PAGE as usize || !image.get(at..at + bytes).is_some_and(is_free) {
        return Err(format!(
            "no room for a PE header of {bytes:#x} bytes at {at:#x}, as the word at 0x3c has it"
        ));
    }
    if !image.starts_with(b"MZ") {
        return Err("the image does not begin with MZ, the first instruction of an EFI application".into());
    }
    Ok(at)
}

fn read(elf: &[u8], segments: &[Segment<'_>], image: &[u8]) -> Result<Option<Efi>, String> {
    let fail = |e| format!("sections: {e}");
    let header = FileHeader64::<LittleEndian>::parse(elf).map_err(fail)?;
    let endian = header.endian().map_err(fail)?;
    let sections = header.sections(endian, elf).map_err(fail)?;
    let symbols = sections.symbols(endian, elf, object::elf::SHT_SYMTAB).map_err(fail)?;
    let value_of = |name: &[u8]| {
        let named = symbols.iter().find(|symbol| symbol.name(endian, symbols.strings()) == Ok(name));
        named.map(|symbol| symbol.st_value(endian))
    };
    let Some(entry) = value_of(b"efi_entry") else { return Ok(None) };
    let (base, start) = (segments[0].linked, segments[0].start);
    let end = base.wrapping_add(segments.last().map_or(0, |last| last.end) - start);
    let got = value_of(b"got_start").zip(value_of(b"got_end"));
    let mut words = Vec::new();
    for section in sections.iter() {
        let Some((relocations, _)) = section.rela(endian, elf).map_err(fail)? else { continue };
        let of = sections.section(object::SectionIndex(section.sh_info(endian) as usize)).map_err(fail)?;
        if of.sh_flags(endian).0 & SHF_ALLOC.0 == 0 {
            continue;
        }
        for relocation in relocations {
            let at = relocation.r_offset(endian).wrapping_sub(base);
            match relocation.r_type(endian, false) {
                R_AARCH64_ABS64 => words.push(at),
                R_AARCH64_ADR_GOT_PAGE if got.is_some() => {}
                kind @ (R_AARCH64_ABS16 | R_AARCH64_ABS32 | R_AARCH64_ADR_GOT_PAGE) => {
                    return Err(unsupported(at, kind.0));
                }
                kind if (R_AARCH64_MOVW_UABS_G0.0..=R_AARCH64_MOVW_UABS_G3.0).contains(&kind.0) => {
                    return Err(unsupported(at, kind.0));
                }
                _ => {}
            }
        }
    }
    // The linker makes the GOT, and no relocations of its words.
    if let Some((first, after)) = got {
        words.extend((first.wrapping_sub(base)..after.wrapping_sub(base)).step_by(8));
    }
    words.sort_unstable();
    words.dedup();
    let mut addresses = Vec::new();
    for at in words {
        let bytes = image.get(at as usize..).and_then(|rest| rest.first_chunk());
        let word = bytes.map(|bytes| u64::from_le_bytes(*bytes));
        // Numbers that the linker has made of two addresses stay as they are.
        if (base..=end).contains(&word.ok_or(format!("a relocation at {at:#x} is not in the file"))?) {
            addresses.push(at);
        }
    }
    Ok(Some(Efi { base, entry: entry.wrapping_sub(base), words: addresses }))
}

fn unsupported(at: u64, kind: u32) -> String {
    format!("the relocation at {at:#x} is of type {kind}, which a PE file does not have")
}

/// Base relocations of words of 64 bits: a block for each page, of 4 bytes its address, 4 bytes the block's length, and 2 bytes a
/// word, filled up to a multiple of 4.
fn relocations(words: &[u64]) -> Vec<u8> {
    const DIR64: u16 = 10 << 12;
    let mut table = Vec::new();
    for page in words.chunk_by(|a, b| a / PAGE == b / PAGE) {
        let mut entries: Vec<u16> = page.iter().map(|word| DIR64 | (word % PAGE) as u16).collect();
        entries.resize(entries.len().next_multiple_of(2), 0);
        table.extend(((page[0] / PAGE * PAGE) as u32).to_le_bytes());
        table.extend((8 + 2 * entries.len() as u32).to_le_bytes());
        table.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
    }
    table
}

/// Characteristics of sections: contents, and permissions. None is both writable and executable.
const CODE: u32 = 0x6000_0020;
const READ_ONLY: u32 = 0x4000_0040;
const DATA: u32 = 0xc000_0040;

struct Section {
    name: [u8; 8],
    /// The place and size in memory.
    at: u64,
    bytes: u64,
    /// The place and size in the file.
    file: u64,
    in_file: u64,
    kind: u32,
}

impl Section {
    /// Returns a segment as a section, whose bytes in the file end at `file_end`. The first begins behind the headers.
    fn of(segment: &Segment<'_>, first: u64, file_end: u64) -> Result<Self, String> {
        let (name, kind) = match (segment.flags & PF_X.0 != 0, segment.flags & PF_W.0 != 0) {
            (true, true) => {
                return Err(format!("the segment at {:#x} is writable and executable", segment.start));
            }
            (true, false) => (*b".text\0\0\0", CODE),
            (false, true) => (*b".data\0\0\0", DATA),
            (false, false) => (*b".rodata\0", READ_ONLY),
        };
        let at = (segment.start - first).max(PAGE);
        let end = segment.end - first;
        if !at.is_multiple_of(PAGE) || end <= at || file_end < at {
            return Err(format!(
                "the segment at {:#x} does not begin at a page, or has no more than one",
                segment.start
            ));
        }
        Ok(Self { name, at, bytes: end - at, file: at, in_file: file_end - at, kind })
    }
}

/// Returns the PE header: its signature, the file header, the optional header of 64 bits and the table of sections.
fn header(efi: &Efi, sections: &[Section], relocations: (u64, u64)) -> Vec<u8> {
    const OPTIONAL: u16 = 112 + 6 * 8;
    let mut h = b"PE\0\0".to_vec();
    let word =
        |h: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|v| h.extend((*v as u32).to_le_bytes()));
    let half = |h: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|v| h.extend(v.to_le_bytes()));
    let of_kind = |kind| sections.iter().filter(move |s| s.kind == kind).map(|s| s.in_file).sum();
    let end = sections.last().map_or(0, |last| (last.at + last.bytes).next_multiple_of(PAGE));
    half(&mut h, &[0xaa64, sections.len() as u16]); // AArch64
    word(&mut h, &[0, 0, 0]); // no time, no symbols
    half(&mut h, &[OPTIONAL, 0x22e]); // executable, nothing but relocations to strip, large addresses
    half(&mut h, &[0x20b, 0]); // 64 bits; no linker's version
    word(&mut h, &[of_kind(CODE), of_kind(DATA) + of_kind(READ_ONLY), 0, efi.entry, PAGE]);
    h.extend(efi.base.to_le_bytes());
    word(&mut h, &[PAGE, FILE]);
    half(&mut h, &[0; 6]); // versions of the system, the image and the subsystem
    word(&mut h, &[0, end, PAGE, 0]); // reserved, size of image and headers, no checksum
    half(&mut h, &[10, 0x100]); // an EFI application; no memory has to be writable and executable
    word(&mut h, &[0; 9]); // sizes of stack and heap, each of 64 bits, and flags
    word(&mut h, &[6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, relocations.0, relocations.1]);
    for s in sections {
        h.extend(s.name);
        word(&mut h, &[s.bytes, s.at, s.in_file, s.file, 0, 0, 0, u64::from(s.kind)]);
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::{PF_R, R_AARCH64_PREL64};
    use object::pe::ImageNtHeaders64;
    use object::read::pe::PeFile;
    use object::write::{
        Object as Writer, Relocation, RelocationFlags, StandardSegment, Symbol, SymbolSection,
    };
    use object::{Architecture, BinaryFormat, Endianness, Object as _, ObjectSection as _, SectionKind};
    use object::{SymbolFlags, SymbolKind, SymbolScope};

    /// The bytes of code and of data in the file, and of all.
    const TEXT: usize = 0x3000;
    const DATA: usize = 0x1200;
    const ALL: u64 = 0x8000;

    /// Code with the header of an Image, three words from 0x1008 on, and data.
    fn image() -> Vec<u8> {
        let mut image = vec![0; TEXT + DATA];
        image[..2].copy_from_slice(b"MZ");
        image[PE_AT] = 0x40;
        for (at, word) in [(0x1008, 0x10), (0x1010, ALL + 1), (0x1018, ALL), (0x2ff8, 0x1000)] {
            image[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        image
    }

    /// An ELF with relocations of these types at these offsets, and a symbol of this name at 0x1000.
    fn elf(symbol: &str, relocations: &[(u64, object::elf::RelocationType)]) -> Vec<u8> {
        elf_of(&[(symbol, 0x1000)], relocations)
    }

    /// An ELF with these symbols. Its relocations refer to the first one.
    fn elf_of(symbols: &[(&str, u64)], relocations: &[(u64, object::elf::RelocationType)]) -> Vec<u8> {
        let mut elf = Writer::new(BinaryFormat::Elf, Architecture::Aarch64, Endianness::Little);
        let segment = elf.segment_name(StandardSegment::Text).to_vec();
        let text = elf.add_section(segment.clone(), b".text".to_vec(), SectionKind::Text);
        elf.append_section_data(text, &image()[..TEXT], 8);
        let other = elf.add_section(Vec::new(), b".debug".to_vec(), SectionKind::Debug);
        elf.append_section_data(other, &[0; 64], 8);
        let (section, flags) = (SymbolSection::Section(text), SymbolFlags::None);
        let (kind, scope) = (SymbolKind::Text, SymbolScope::Linkage);
        let mut add = |(name, value): &(&str, u64)| {
            let (name, value) = (name.as_bytes().to_vec(), *value);
            elf.add_symbol(Symbol { name, value, size: 0, kind, scope, weak: false, section, flags })
        };
        let symbol = symbols.iter().map(&mut add).collect::<Vec<_>>()[0];
        for (offset, r_type) in relocations {
            let flags = RelocationFlags::Elf { r_type: *r_type };
            elf.add_relocation(text, Relocation { offset: *offset, symbol, addend: 0, flags }).unwrap();
        }
        let flags = RelocationFlags::Elf { r_type: R_AARCH64_ABS32 };
        elf.add_relocation(other, Relocation { offset: 0, symbol, addend: 0, flags }).unwrap();
        elf.write().unwrap()
    }

    fn segments(image: &[u8], text: u32) -> [Segment<'_>; 2] {
        let (code, data) = image.split_at(TEXT);
        [
            Segment { start: 0, end: 0x3000, linked: 0, flags: text, bytes: code },
            Segment { start: 0x3000, end: ALL, linked: 0x3000, flags: PF_R.0 | PF_W.0, bytes: data },
        ]
    }

    fn dressed(elf: &[u8], mut image: Vec<u8>) -> Result<Vec<u8>, String> {
        let plain = image.clone();
        dress(elf, &segments(&plain, PF_R.0 | PF_X.0), &mut image)?;
        Ok(image)
    }

    #[test]
    fn an_application_as_a_reader_of_its_own_sees_it() {
        let words = [(0x1008, R_AARCH64_ABS64), (0x1010, R_AARCH64_ABS64), (0x2000, R_AARCH64_PREL64)];
        let more = [(0x2ff8, R_AARCH64_ABS64), (0x1018, R_AARCH64_ABS64)];
        let made = dressed(&elf("efi_entry", &[&words[..], &more].concat()), image()).unwrap();
        let pe = PeFile::<ImageNtHeaders64>::parse(&*made).unwrap();
        assert_eq!((pe.architecture(), pe.entry()), (Architecture::Aarch64, 0x1000));
        let found: Vec<_> =
            pe.sections().map(|s| (s.name().unwrap().to_owned(), s.address(), s.size())).collect();
        let section = |name: &str, at, bytes| (name.to_owned(), at, bytes);
        let table = found[2].2;
        assert_eq!(
            found,
            [
                section(".text", 0x1000, 0x2000),
                section(".data", 0x3000, ALL - 0x3000),
                section(".reloc", ALL, table)
            ]
        );
        assert_eq!(
            relocated(&made),
            [(0x1008, 10), (0x1018, 10), (0x2ff8, 10)],
            "not the number behind the end"
        );
        // All but the header is as it was, up to the end of the data.
        let plain = image();
        assert_eq!((&made[0x1000..plain.len()], &made[..0x40]), (&plain[0x1000..], &plain[..0x40]));
        assert!(made.len().is_multiple_of(512));
    }

    /// The words that an application says are relocated, and how.
    fn relocated(made: &[u8]) -> Vec<(u32, u16)> {
        let pe = PeFile::<ImageNtHeaders64>::parse(made).unwrap();
        let mut blocks = pe.data_directories().relocation_blocks(made, &pe.section_table()).unwrap().unwrap();
        let mut relocated = Vec::new();
        while let Some(block) = blocks.next().unwrap() {
            relocated.extend(block.filter(|r| r.typ.0 != 0).map(|r| (r.virtual_address, r.typ.0)));
        }
        relocated
    }

    /// The linker fills the GOT, and makes no relocations of its words.
    #[test]
    fn words_of_the_got_are_relocated() {
        let symbols = [("efi_entry", 0x1000), ("got_start", 0x1008), ("got_end", 0x1020)];
        let made = dressed(&elf_of(&symbols, &[(0x2000, R_AARCH64_ADR_GOT_PAGE)]), image()).unwrap();
        assert_eq!(relocated(&made), [(0x1008, 10), (0x1018, 10)], "0x1010 has no address of the image");
    }

    #[test]
    fn without_an_entry_it_stays_an_image() {
        assert_eq!(dressed(&elf("start", &[(0x1008, R_AARCH64_ABS64)]), image()).unwrap(), image());
    }

    #[test]
    fn what_cannot_be_relocated_is_refused() {
        for kind in [R_AARCH64_ABS32, R_AARCH64_ABS16, R_AARCH64_ADR_GOT_PAGE, R_AARCH64_MOVW_UABS_G0] {
            let refused = dressed(&elf("efi_entry", &[(0x1008, kind)]), image()).unwrap_err();
            assert!(refused.contains("0x1008 is of type"), "{refused}");
        }
        let outside = dressed(&elf("efi_entry", &[(ALL, R_AARCH64_ABS64)]), image()).unwrap_err();
        assert!(outside.contains("not in the file"), "{outside}");
    }

    #[test]
    fn a_header_without_room_is_refused() {
        let good = elf("efi_entry", &[]);
        let change = |at: usize, value: u8| {
            let mut image = image();
            image[at] = value;
            dressed(&good, image).unwrap_err()
        };
        assert!(change(0, b'X').contains("MZ"));
        for (at, value) in [(PE_AT, 0), (PE_AT + 1, 0x0f), (PE_AT + 3, 0xff), (0x50, 1)] {
            assert!(change(at, value).contains("no room for a PE header"), "{at:#x}");
        }
    }

    #[test]
    fn a_segment_to_write_and_execute_is_refused() {
        let mut made = image();
        let plain = made.clone();
        let all = segments(&plain, PF_R.0 | PF_W.0 | PF_X.0);
        let refused = dress(&elf("efi_entry", &[]), &all, &mut made).unwrap_err();
        assert!(refused.contains("writable and executable"), "{refused}");
    }
}
