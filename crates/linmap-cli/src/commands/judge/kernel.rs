//! The functions that a Linux guest's memory has of itself: VMCOREINFO says where, and how far the image is from its physical addresses.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};

use crate::linux::kallsyms;
use crate::linux::symbols::Symbols;
use crate::source::VmcoreInfo;

/// The first bytes of VMCOREINFO, which begins a page, and the most bytes that it has.
const BEGINNING: &[u8] = b"OSRELEASE=";
const LIMIT: usize = 64 << 10;
const PAGE: u64 = 4096;

/// The functions of a guest.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) symbols: Symbols,
    /// The virtual address of the image less its physical one.
    pub(crate) offset: u64,
}

/// Reads a guest's functions in its RAM, which begins at a physical address.
pub(crate) fn read(ram: &File, base: u64) -> Option<Own> {
    pages(ram).filter(|at| begins(ram, *at)).find_map(|at| {
        let mut text = vec![0; LIMIT];
        let length = ram.read_at(&mut text, at).ok()?;
        let info = VmcoreInfo::parse(&text[..length]);
        let offset = info.number("kimage_voffset")?;
        let read = |va: u64, into: &mut [u8]| {
            let at = va.wrapping_sub(offset).wrapping_sub(base);
            ram.read_exact_at(into, at).is_ok()
        };
        let symbols = kallsyms::read(|name| info.symbol(name), &read).ok()?;
        Some(Own { symbols, offset })
    })
}

/// The offsets of the pages that the guest has used.
fn pages(ram: &File) -> impl Iterator<Item = u64> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let data = seek(ram, SeekFrom::Data(next)).ok()?;
        let end = seek(ram, SeekFrom::Hole(data)).ok()?;
        next = end;
        Some((data / PAGE * PAGE..end).step_by(PAGE as usize))
    })
    .flatten()
}

fn begins(ram: &File, at: u64) -> bool {
    let mut bytes = [0; BEGINNING.len()];
    ram.read_exact_at(&mut bytes, at).is_ok() && bytes == BEGINNING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_without_linux_has_no_functions() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 20).expect("room");
        assert!(read(&file, 0).is_none());
        for text in
            ["OSRELEASE=6.1\n", "OSRELEASE=6.1\nNUMBER(kimage_voffset)=0x10\nSYMBOL(kallsyms_names)=10\n"]
        {
            file.write_all_at(text.as_bytes(), 5 * PAGE).expect("room");
            assert!(pages(&file).any(|at| at == 5 * PAGE) && read(&file, 0).is_none());
        }
    }
}
