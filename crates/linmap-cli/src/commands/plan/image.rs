//! The size of a kernel image, and of its code and constants.
//!
//! The header of the raw image has its size in memory. Only its ELF has the size of code and constants; a build
//! leaves the ELF in a directory beside the image. If no image was built, as after `cargo install`, the sizes are
//! those that were last written down ([`Sizes::built_in`]).

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use linmap::Pa;
use object::Endianness;
use object::elf::{FileHeader64, PF_W, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

/// The places where a build leaves the ELF, relative to the image.
const ELF_PLACES: [&str; 2] =
    ["aarch64-unknown-none-softfloat/image/kernel", "aarch64-unknown-linux-gnu/image/kernel"];
/// More bytes than any image has.
const MAX_SIZE: u64 = 256 << 20;
/// The bytes of which each part of an image's maps is a multiple, at every page size.
const SMALLEST_PART: u64 = 16 << 10;

/// The sizes of an image in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// The whole image.
    pub(crate) image: u64,
    /// Code and constants, at its start, in whole pages of 16K: no map of the image has smaller parts.
    pub(crate) read_only: u64,
}

/// The sizes of the image, and of its code and constants; `make figures ARGS=--update` writes them.
const BUILT_IN: &str = include_str!("image-sizes.txt");

impl Sizes {
    /// Returns the sizes of the image that this version builds.
    pub(crate) fn built_in() -> Self {
        let mut words = BUILT_IN.split_whitespace().map(|word| word.parse().unwrap_or(0));
        let (image, read_only) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
        Self { image, read_only }
    }

    /// Returns the range of an image that starts at this address.
    pub(crate) fn image_at(self, start: u64) -> Range<Pa> {
        Pa(start)..Pa(start + self.image)
    }

    /// Returns the range of its code and constants.
    pub(crate) fn read_only_at(self, start: u64) -> Range<Pa> {
        Pa(start)..Pa(start + self.read_only)
    }
}

/// Why the sizes of an image are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("`{}` is no ELF kernel: {reason}; name its code and constants with --kernel START-END", path.display())]
    NotElf { path: PathBuf, reason: String },
}

/// Returns the sizes of an image that a build left at `raw` with its ELF beside it, or `None` if the ELF is missing
/// or of another build.
pub(crate) fn sizes_of(raw: &Path) -> Result<Option<Sizes>, ImageError> {
    let Ok(image) = fs::read(raw) else { return Ok(None) };
    let beside = ELF_PLACES.iter().filter_map(|place| Some(raw.parent()?.join(place)));
    for path in beside.filter(|path| path.is_file()) {
        let not_elf = |reason: String| ImageError::NotElf { path: path.clone(), reason };
        let elf = fs::read(&path).map_err(|error| not_elf(error.to_string()))?;
        let sizes = sizes_in(&elf, &image).map_err(not_elf)?;
        if sizes.is_some() {
            return Ok(sizes);
        }
    }
    Ok(None)
}

/// Returns the sizes from the segments of an ELF, or `None` if the raw image was not made from it.
fn sizes_in(elf: &[u8], raw: &[u8]) -> Result<Option<Sizes>, String> {
    let header = FileHeader64::<Endianness>::parse(elf).map_err(|e| e.to_string())?;
    let endian = header.endian().map_err(|e| e.to_string())?;
    let segments = header.program_headers(endian, elf).map_err(|e| e.to_string())?;
    let loaded = || segments.iter().filter(|s| s.p_type(endian) == PT_LOAD && s.p_memsz(endian) != 0);
    let start = loaded().map(|s| s.p_paddr(endian)).min().ok_or("it has no segment to load")?;
    let end = loaded().filter_map(|s| s.p_paddr(endian).checked_add(s.p_memsz(endian))).max();
    let constant = loaded().filter(|s| !s.p_flags(endian).contains(PF_W));
    let constant =
        constant.filter_map(|s| s.p_paddr(endian).checked_add(s.p_memsz(endian))).max().unwrap_or(start);
    let size = end.unwrap_or(start) - start;
    if size > MAX_SIZE {
        return Err(format!("its segments span {size:#x} bytes; {MAX_SIZE:#x} are the most"));
    }
    for segment in loaded() {
        let bytes = segment.data(endian, elf).map_err(|()| "a segment is not all in the file".to_owned())?;
        let from = (segment.p_paddr(endian) - start) as usize;
        if !raw.get(from..from + bytes.len()).is_some_and(|raw| is_made_of(raw, bytes, from)) {
            return Ok(None);
        }
    }
    Ok(Some(Sizes { image: size, read_only: (constant - start).next_multiple_of(SMALLEST_PART) }))
}

/// Returns true if bytes at an offset of a raw image are those of its ELF. Into the room that the ELF leaves in its first page
/// goes the header of an EFI application.
fn is_made_of(raw: &[u8], elf: &[u8], from: usize) -> bool {
    let room = 4096usize.saturating_sub(from).min(elf.len());
    let same = |(raw, elf): (&u8, &u8)| raw == elf || *elf == 0;
    raw[..room].iter().zip(&elf[..room]).all(same) && raw[room..] == elf[room..]
}
