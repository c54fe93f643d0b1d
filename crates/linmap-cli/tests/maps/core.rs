//! A kernel like Debian's, as an ELF core: RAM in one bank, the image, a module, its linear map, VMCOREINFO.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use linmap::{Attributes, Geometry, Granule, Pa};
use tempfile::TempDir;

use crate::tables::Tables;

pub(crate) const RAM: u64 = 0x4000_0000;
/// The address of the image: text, then constants, then data with the tables in it.
pub(crate) const IMAGE: u64 = RAM + 0x20_0000;
const TEXT: u64 = 0x20_0000;
const RODATA: u64 = 0x20_0000;
const DATA: u64 = 0x100_0000;
/// 256K of code outside of the image.
pub(crate) const MODULE: u64 = RAM + 0x300_0000;
const MODULE_BYTES: u64 = 0x4_0000;
/// The root is in the data; further tables follow it.
pub(crate) const TABLES: u64 = IMAGE + 0x80_0000;

/// The linear map of a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    pub(crate) geometry: Geometry,
    pub(crate) release: &'static str,
    pub(crate) ram: u64,
    /// The level of its leaves, 3 for pages.
    pub(crate) level: i8,
    /// True if read-only memory of modules is so in the linear map, too.
    pub(crate) rodata_full: bool,
}

/// Returns Debian 12 by default, with 256 MiB.
pub(crate) fn debian() -> Kernel {
    Kernel {
        geometry: crate::tables::small(),
        release: "6.1.0-40-arm64",
        ram: 256 << 20,
        level: 3,
        rodata_full: true,
    }
}

impl Kernel {
    fn page_end(self) -> u64 {
        let smallest = match (self.geometry.va_bits(), self.geometry.granule()) {
            (49.., Granule::K16) => 47,
            (bits, _) => bits.min(48),
        };
        u64::MAX << (smallest - 1)
    }

    /// Returns the start of modules; the image follows them.
    pub(crate) fn modules(self) -> u64 {
        self.page_end()
    }

    /// Returns the start of its text: `_stext`.
    pub(crate) fn image(self) -> u64 {
        self.page_end() + (128 << 20) + 0x1_0000
    }

    /// Returns the address of memory in the linear map.
    pub(crate) fn linear(self, pa: u64) -> u64 {
        self.geometry.base(linmap::Half::Upper) + (pa - RAM)
    }

    pub(crate) fn tables(self) -> Tables {
        let mut tables = Tables::new(self.geometry, Pa(TABLES));
        let g = self.geometry;
        let page = g.page_size();
        let size = g.level_size(linmap::arch::Level::new(self.level));
        // Most of it in one size; the first 64M, with the kernel, in pages, as its alias is read-only.
        let special = (64 << 20).min(self.ram);
        for pa in (RAM..RAM + special).step_by(page as usize) {
            let constant = (IMAGE..IMAGE + TEXT + RODATA).contains(&pa);
            let module = self.rodata_full && (MODULE..MODULE + MODULE_BYTES).contains(&pa);
            let attributes = if constant || module { Attributes::KERNEL_RODATA } else { Attributes::RAM };
            tables.map(self.linear(pa), pa, 3, 1, attributes, false);
        }
        let rest = RAM + special;
        tables.map(self.linear(rest), rest, self.level, (self.ram - special) / size, Attributes::RAM, false);
        tables.map(self.image(), IMAGE, 3, TEXT / page, Attributes::KERNEL_TEXT, false);
        tables.map(self.image() + TEXT, IMAGE + TEXT, 3, RODATA / page, Attributes::KERNEL_RODATA, false);
        let data = self.image() + TEXT + RODATA;
        tables.map(data, IMAGE + TEXT + RODATA, 3, DATA / page, Attributes::KERNEL_DATA, false);
        tables.map(self.modules(), MODULE, 3, MODULE_BYTES / page, Attributes::KERNEL_TEXT, false);
        tables
    }

    /// Returns VMCOREINFO as the kernel writes it.
    pub(crate) fn info(self) -> String {
        let g = self.geometry;
        let (bits, page) = (g.va_bits(), g.page_size());
        let voffset = self.image().wrapping_sub(IMAGE);
        let (modules, end) = (self.modules(), self.modules() + (128 << 20));
        format!(
            "OSRELEASE={}\nPAGESIZE={page}\nSYMBOL(swapper_pg_dir)={:x}\nSYMBOL(_stext)={:x}\n\
             NUMBER(VA_BITS)={bits}\nNUMBER(MODULES_VADDR)={modules:#x}\nNUMBER(MODULES_END)={end:#x}\n\
             NUMBER(VMALLOC_START)={end:#x}\nNUMBER(VMALLOC_END)=0xfffffbfff0000000\n\
             NUMBER(VMEMMAP_START)=0xfffffc0000000000\nNUMBER(VMEMMAP_END)=0xfffffe0000000000\n\
             NUMBER(kimage_voffset)={voffset:#x}\nNUMBER(PHYS_OFFSET)={RAM:#x}\n\
             NUMBER(TCR_EL1_T1SZ)={:#x}\n",
            self.release,
            TABLES.wrapping_add(voffset),
            self.image(),
            64 - bits,
        )
    }

    /// Writes a core of this kernel, with its tables changed.
    pub(crate) fn core(self, change: impl FnOnce(&mut Tables)) -> Core {
        let mut tables = self.tables();
        change(&mut tables);
        Core::new(&tables, self.ram, Some(&self.info()))
    }
}

/// A core in a directory of its own.
pub(crate) struct Core {
    directory: TempDir,
}

impl Core {
    pub(crate) fn new(tables: &Tables, ram: u64, info: Option<&str>) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let core = Self { directory };
        write(&core.path(), tables, ram, info);
        core
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.file("vmcore")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs `linmap` with a command, this core, and more arguments.
    pub(crate) fn run(&self, command: &str, more: &[&str]) -> crate::run::Ran {
        let path = self.path();
        let path = path.to_str().expect("a path in UTF-8");
        crate::run::linmap(&[&[command, path], more].concat())
    }
}

/// Writes an ELF core: a note, and a segment for each bank of RAM. All memory but tables is a hole of the file.
pub(crate) fn write(path: &Path, tables: &Tables, ram: u64, info: Option<&str>) {
    let file = File::create(path).expect("a file");
    let note = info.map(note).unwrap_or_default();
    let start = 0x1_0000;
    let mut head = Vec::new();
    head.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    // ET_CORE, EM_AARCH64, version; entry, program headers at 64, no sections.
    for half in [4u16, 183] {
        head.extend(half.to_le_bytes());
    }
    head.extend(1u32.to_le_bytes());
    for word in [0u64, 64, 0] {
        head.extend(word.to_le_bytes());
    }
    head.extend(0u32.to_le_bytes());
    for half in [64u16, 56, 2, 64, 0, 0] {
        head.extend(half.to_le_bytes());
    }
    header(&mut head, 4, (0x1000, 0, 0), (note.len() as u64, 0));
    header(&mut head, 1, (start, 0, RAM), (ram, ram));
    file.write_all_at(&head, 0).expect("room");
    file.write_all_at(&note, 0x1000).expect("room");
    file.set_len(start + ram).expect("room");
    for (table, words) in &tables.pages {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if (RAM..RAM + ram).contains(&table.0) {
            file.write_all_at(&bytes, start + (table.0 - RAM)).expect("room");
        }
    }
}

fn header(head: &mut Vec<u8>, kind: u32, (offset, va, pa): (u64, u64, u64), (file, memory): (u64, u64)) {
    head.extend(kind.to_le_bytes());
    head.extend(6u32.to_le_bytes());
    for word in [offset, va, pa, file, memory, 0] {
        head.extend(word.to_le_bytes());
    }
}

fn note(info: &str) -> Vec<u8> {
    let name = b"VMCOREINFO\0";
    let mut note = Vec::new();
    for word in [name.len() as u32, info.len() as u32, 0] {
        note.extend(word.to_le_bytes());
    }
    for part in [&name[..], info.as_bytes()] {
        note.extend(part);
        note.resize(note.len().next_multiple_of(4), 0);
    }
    note
}
