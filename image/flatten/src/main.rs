//! `flatten IN.elf OUT.img`: turns the kernel's ELF into the raw Image that boot loaders start.
//!
//! The image is memory as the ELF's loadable segments describe it, from the lowest physical address
//! to the last byte that is in the file. Gaps are zeroes. A .bss at the end is left out: the size in
//! the Image's own header covers it. An ELF with the symbol `efi_entry` makes an EFI application as well (`pe`).
//!
//! `flatten --sizes IN.elf` prints, for each segment by address, its bytes in the file and those that only
//! memory has.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod pe;
mod segments;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use segments::{Segment, segments};

/// The largest image: more than any kernel has. A larger span means that a segment's address is wrong.
const MAX_IMAGE: u64 = 256 << 20;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match args.as_slice() {
        [mode, input] if mode == "--sizes" => print_sizes(input.as_ref()),
        [input, output] => run(input.as_ref(), output.as_ref()),
        _ => {
            eprintln!("usage: flatten IN.elf OUT.img\n       flatten --sizes IN.elf");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flatten: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(input: &Path, output: &Path) -> Result<(), String> {
    let elf = fs::read(input).map_err(|e| format!("{}: {e}", input.display()))?;
    let image = flatten(&elf).map_err(|e| format!("{}: {e}", input.display()))?;
    replace(output, &image).map_err(|e| format!("{}: {e}", output.display()))
}

fn print_sizes(input: &Path) -> Result<(), String> {
    let name = |e: String| format!("{}: {e}", input.display());
    let elf = fs::read(input).map_err(|e| name(e.to_string()))?;
    for Segment { start, end, bytes, .. } in segments(&elf).map_err(name)? {
        println!("{} {}", bytes.len(), end - start - bytes.len() as u64);
    }
    Ok(())
}

/// Writes a temporary file and renames it to `path`, so that a reader finds the old file or the whole new one.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn flatten(elf: &[u8]) -> Result<Vec<u8>, String> {
    let segments = segments(elf)?;
    let first = segments.first().ok_or("no loadable segment; is the linker script in use?")?.start;
    if let Some(pair) = segments.windows(2).find(|pair| pair[0].end > pair[1].start) {
        return Err(format!(
            "the segments at physical {:#x}..{:#x} and {:#x}..{:#x} overlap",
            pair[0].start, pair[0].end, pair[1].start, pair[1].end
        ));
    }

    // The addresses ascend, so each segment begins at or after the end of what is already there.
    let mut image = Vec::new();
    for segment in segments.iter().filter(|segment| !segment.bytes.is_empty()) {
        let offset = segment.start - first;
        let size = offset + segment.bytes.len() as u64;
        if size > MAX_IMAGE {
            return Err(format!(
                "the segment at physical {:#x} would make an image of {size:#x} bytes, {MAX_IMAGE:#x} at most: \
                 physical addresses (AT in the linker script) must lie close together",
                segment.start
            ));
        }
        image.resize(offset as usize, 0);
        image.extend_from_slice(segment.bytes);
    }
    pe::dress(elf, &segments, &mut image)?;
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: u32 = 1;
    const NOTE: u32 = 4;

    /// A program header: type, physical address, bytes in the file, size in memory.
    struct Phdr(u32, u64, &'static [u8], u64);

    /// An ELF file, field by field as the specification lays it out.
    fn elf(machine: u16, phdrs: &[Phdr]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(); // 64-bit, little-endian, version 1
        file.extend(2u16.to_le_bytes()); // executable
        file.extend(machine.to_le_bytes());
        file.extend(1u32.to_le_bytes()); // version
        file.extend(0u64.to_le_bytes()); // entry
        file.extend(64u64.to_le_bytes()); // program headers follow this header
        file.extend(0u64.to_le_bytes()); // no section headers
        file.extend(0u32.to_le_bytes()); // flags
        for half in [64, 56, phdrs.len() as u16, 0, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        let mut offset = 64 + 56 * phdrs.len() as u64;
        for Phdr(kind, physical, bytes, memory) in phdrs {
            file.extend(kind.to_le_bytes());
            file.extend(7u32.to_le_bytes()); // read, write, execute
            let virt = 0xffff_0000_0000_0000 | physical;
            for word in [offset, virt, *physical, bytes.len() as u64, *memory, 0x1_0000] {
                file.extend(word.to_le_bytes());
            }
            offset += bytes.len() as u64;
        }
        for Phdr(_, _, bytes, _) in phdrs {
            file.extend(*bytes);
        }
        file
    }

    fn flat(phdrs: &[Phdr]) -> Result<Vec<u8>, String> {
        flatten(&elf(183, phdrs))
    }

    #[track_caller]
    fn refused(phdrs: &[Phdr], because: &str) {
        let message = flat(phdrs).unwrap_err();
        assert!(message.contains(because), "{message}");
    }

    #[test]
    fn segments_lie_at_their_distance_from_the_lowest() {
        let image = flat(&[Phdr(LOAD, 0x4008_0000, b"code", 4), Phdr(LOAD, 0x4008_0008, b"data", 4)]);
        assert_eq!(image.unwrap(), b"code\0\0\0\0data");
    }

    #[test]
    fn order_in_the_file_does_not_matter() {
        let image = flat(&[Phdr(LOAD, 0x1008, b"data", 4), Phdr(LOAD, 0x1000, b"code", 4)]);
        assert_eq!(image.unwrap(), b"code\0\0\0\0data");
    }

    #[test]
    fn bss_is_zeroes_in_a_gap_and_nothing_at_the_end() {
        let image = flat(&[
            Phdr(LOAD, 0x1000, b"ab", 4),
            Phdr(LOAD, 0x1004, b"cd", 0x1000),
            Phdr(LOAD, 0x8000, b"", 0x4000_0000),
        ]);
        assert_eq!(image.unwrap(), b"ab\0\0cd");
    }

    #[test]
    fn an_image_that_starts_with_bss_starts_with_zeroes() {
        assert_eq!(flat(&[Phdr(LOAD, 0x1000, b"", 2), Phdr(LOAD, 0x1002, b"a", 1)]).unwrap(), b"\0\0a");
    }

    #[test]
    fn only_loadable_segments_with_memory_count() {
        let image =
            flat(&[Phdr(NOTE, 0, b"note", 4), Phdr(LOAD, 0x10, b"", 0), Phdr(LOAD, 0x1000, b"code", 4)]);
        assert_eq!(image.unwrap(), b"code");
    }

    #[test]
    fn neighbours_may_touch_but_not_overlap() {
        assert!(flat(&[Phdr(LOAD, 0x1000, b"ab", 2), Phdr(LOAD, 0x1002, b"cd", 2)]).is_ok());
        refused(&[Phdr(LOAD, 0x1000, b"ab", 2), Phdr(LOAD, 0x1001, b"cd", 2)], "overlap");
        // A .bss counts: the boot loader's copy of the next segment would lie inside it.
        refused(&[Phdr(LOAD, 0x1000, b"ab", 0x10), Phdr(LOAD, 0x1008, b"cd", 2)], "overlap");
    }

    #[test]
    fn the_size_limit_is_exact() {
        let base = 0x4000_0000;
        let last = base + MAX_IMAGE - 1;
        assert!(flat(&[Phdr(LOAD, base, b"a", 1), Phdr(LOAD, last, b"b", 1)]).is_ok());
        refused(&[Phdr(LOAD, base, b"a", 1), Phdr(LOAD, last + 1, b"b", 1)], "0x10000001 bytes");
        refused(&[Phdr(LOAD, 0, b"a", 1), Phdr(LOAD, u64::MAX - 1, b"b", 1)], "at most");
    }

    #[test]
    fn what_is_malformed_is_refused() {
        refused(&[], "no loadable segment");
        refused(&[Phdr(NOTE, 0x1000, b"note", 4)], "no loadable segment");
        refused(&[Phdr(LOAD, 0x1000, b"abc", 2)], "larger in the file");
        refused(&[Phdr(LOAD, u64::MAX, b"a", 2)], "past the last address");
    }

    #[test]
    fn only_little_endian_64_bit_aarch64_will_do() {
        let good = elf(183, &[Phdr(LOAD, 0x1000, b"code", 4)]);
        let with = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            flatten(&bad).unwrap_err()
        };
        assert!(flatten(&good).is_ok());
        assert!(with(0, b'?').contains("not a 64-bit ELF"), "{}", with(0, b'?'));
        assert!(with(4, 1).contains("not a 64-bit ELF"), "{}", with(4, 1));
        assert!(with(5, 2).contains("not a little-endian ELF"), "{}", with(5, 2));
        assert!(with(18, 62).contains("machine 62, not AArch64"), "{}", with(18, 62));
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let good = elf(183, &[Phdr(LOAD, 0x1000, b"code", 4), Phdr(LOAD, 0x2000, b"data", 4)]);
        for length in 0..good.len() {
            assert!(flatten(&good[..length]).is_err(), "cut to {length} bytes");
        }
    }

    #[test]
    fn a_failed_run_leaves_the_old_image_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("flatten-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (input, output) = (dir.join("in.elf"), dir.join("out.img"));

        fs::write(&input, elf(183, &[Phdr(LOAD, 0x1000, b"code", 4)])).unwrap();
        run(&input, &output).unwrap();
        fs::write(&input, b"not an ELF").unwrap();
        assert!(run(&input, &output).unwrap_err().contains("in.elf"));
        assert_eq!(fs::read(&output).unwrap(), b"code");

        // A directory cannot be replaced by a file: the write fails at its last step.
        assert!(replace(&dir, b"").unwrap_err().to_string().contains("directory"));
        let beside = fs::read_dir(dir.parent().unwrap()).unwrap();
        let left = format!("flatten-{}.", std::process::id());
        let left = beside.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with(&left));
        assert_eq!(left.count(), 0);
        fs::remove_dir_all(&dir).unwrap();
    }
}
