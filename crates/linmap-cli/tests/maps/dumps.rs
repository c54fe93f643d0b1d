//! Cores as distributions and hypervisors write them: compressed, filtered, split, flattened, packed, through a pipe. Each
//! gives what the plain core of the same memory gives.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use linmap::{Geometry, Granule, OaFormat};

use crate::core::{Core, Kernel, RAM, TABLES, debian};
use crate::kdump::{Dump, METHODS, flattened};
use crate::run::{Ran, linmap, piped};

/// Returns bytes compressed by gzip.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).and_then(|()| packed.finish()).expect("room")
}

/// Returns bytes compressed by zstd.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Returns the pages of a kernel's memory that are not zeros: those of its tables.
pub(crate) fn pages(kernel: Kernel) -> BTreeMap<u64, Vec<u8>> {
    let page = kernel.geometry.page_size();
    let mut pages: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (table, words) in &kernel.tables().pages {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let into = pages.entry(table.0 / page).or_insert_with(|| vec![0; page as usize]);
        let at = (table.0 % page) as usize;
        into[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    pages
}

pub(crate) fn dump<'a>(kernel: Kernel, pages: &'a BTreeMap<u64, Vec<u8>>, info: &'a str) -> Dump<'a> {
    let block = kernel.geometry.page_size();
    let ram = RAM / block..(RAM + kernel.ram) / block;
    Dump { block, ram, pages, info: Some(info), method: 1, level: 31, version: 6, split: None }
}

fn ran(command: &str, path: &Path, more: &[&str]) -> Ran {
    linmap(&[&[command, path.to_str().expect("a path in UTF-8")], more].concat())
}

/// Writes a file beside a core, and checks that every command says of it what it says of the core.
#[track_caller]
fn is_read_as(core: &Core, name: &str, bytes: &[u8]) {
    let path = core.file(name);
    std::fs::write(&path, bytes).expect("room");
    for (command, more) in [("stat", &[][..]), ("dump", &["--json"]), ("check", &["--json"])] {
        let read = ran(command, &path, more);
        let expected = core.run(command, more).stdout().replace("vmcore`", &format!("{name}`"));
        assert_eq!(read.stdout(), expected, "{name}: {}", read.stderr());
    }
}

#[test]
fn a_compressed_core_is_read_by_every_method() {
    let kernel = debian();
    let (core, pages, info) = (kernel.core(|_| {}), pages(kernel), kernel.info());
    for (method, name) in METHODS {
        is_read_as(&core, name, &Dump { method, ..dump(kernel, &pages, &info) }.file());
    }
    // As crash's oldest: no page numbers of 64 bits.
    for version in 3..6 {
        is_read_as(&core, "older", &Dump { version, ..dump(kernel, &pages, &info) }.file());
    }
}

#[test]
fn every_page_size_and_format_is_read() {
    let of = |granule, bits, format| Geometry::new(granule, bits, format).expect("a geometry");
    for geometry in [
        of(Granule::K4, 52, OaFormat::Lpa2),
        of(Granule::K16, 47, OaFormat::Bits48),
        of(Granule::K16, 52, OaFormat::Lpa2),
        of(Granule::K64, 52, OaFormat::Lpa),
    ] {
        let kernel = Kernel { geometry, ram: 1 << 30, ..debian() };
        let (pages, info) = (pages(kernel), kernel.info() + "NUMBER(MAX_PHYSMEM_BITS)=52\n");
        let core = Core::new(&kernel.tables(), kernel.ram, Some(&info));
        is_read_as(&core, "kdump", &dump(kernel, &pages, &info).file());
    }
}

#[test]
fn what_comes_flattened_packed_or_through_a_pipe_is_read() {
    let kernel = debian();
    let (core, pages, info) = (kernel.core(|_| {}), pages(kernel), kernel.info());
    let elf = std::fs::read(core.path()).expect("a core");
    let kdump = dump(kernel, &pages, &info).file();
    let flat = flattened(&kdump, 5000);
    let forms = [
        ("kdump.flat", flat.clone()),
        ("elf.flat", flattened(&elf, 1 << 20)),
        ("elf.gz", gzip(&elf)),
        ("elf.zst", zstd(&elf)),
        ("flat.gz", gzip(&flat)),
    ];
    for (name, bytes) in forms {
        is_read_as(&core, name, &bytes);
    }
    let stat = core.run("stat", &[]).exits(0).stdout();
    for bytes in [&kdump, &flat, &gzip(&kdump), &elf] {
        assert_eq!(piped(&["stat", "-"], bytes).exits(0).stdout(), stat);
    }
    // A saved dump, too.
    let json = gzip(&core.run("dump", &["--json"]).exits(0).0.stdout);
    assert_eq!(piped(&["stat", "-"], &json).exits(0).stdout(), stat);
}

#[test]
fn without_a_note_vmcoreinfo_is_searched_in_the_memory() {
    let kernel = debian();
    let (core, mut pages, info) = (kernel.core(|_| {}), pages(kernel), kernel.info());
    let mut text = info.clone().into_bytes();
    text.resize(4096, 0);
    pages.insert((RAM + 0x500_0000) / 4096, text);
    is_read_as(&core, "searched", &Dump { info: None, ..dump(kernel, &pages, &info) }.file());
    is_read_as(&core, "version 2", &Dump { version: 2, ..dump(kernel, &pages, &info) }.file());
    let flat = flattened(&Dump { info: None, ..dump(kernel, &pages, &info) }.file(), 70_000);
    is_read_as(&core, "flattened", &flat);
}

/// One table is not in the core: of zeros if those are what was left out, and else a table that cannot be read.
#[test]
fn a_page_that_was_filtered_out_is_said() {
    let kernel = debian();
    let (info, whole) = (kernel.info(), pages(kernel));
    let linear = kernel.linear(RAM);
    let hidden = kernel.tables().path(linear)[3];
    let mut left = whole.clone();
    left.remove(&(hidden.0 / 4096)).expect("a table");
    let core = kernel.core(|_| {});
    let path = core.file("filtered");
    let write =
        |level| std::fs::write(&path, Dump { level, ..dump(kernel, &left, &info) }.file()).expect("room");
    write(30);
    let refused = ran("stat", &path, &[]).exits(2);
    refused.says(&format!(
        "the level 3 table at {hidden}, which translates from {linear:#x} on, cannot be read: the page of {hidden} was \
         filtered out of the core (dump level 30 leaves out cache, private cache, user pages, free pages)"
    ));
    write(31);
    let read = ran("stat", &path, &[]).says("1 page was filtered out of the core and taken for zeros");
    // Of the whole one with an empty table in that place.
    let empty = kernel.core(|tables| tables.pages.get_mut(&hidden).expect("a table").fill(0));
    assert_eq!(read.stdout(), empty.run("stat", &[]).stdout());
}

#[test]
fn a_split_core_is_a_directory() {
    let kernel = debian();
    let (core, pages, info) = (kernel.core(|_| {}), pages(kernel), kernel.info());
    let (first, end) = (RAM / 4096, (RAM + kernel.ram) / 4096);
    // In the middle of the tables.
    let middle = TABLES / 4096 + 3;
    let directory = core.file("split");
    std::fs::create_dir(&directory).expect("a directory");
    let part = |split, name: &str| {
        let path = directory.join(name);
        std::fs::write(&path, Dump { split: Some(split), ..dump(kernel, &pages, &info) }.file())
            .expect("room");
        path
    };
    let one = part(first..middle, "dump.1");
    part(middle..end, "dump.2");
    std::fs::write(directory.join("dmesg.txt"), "[    0.0] Booting Linux").expect("room");
    let stat = core.run("stat", &[]).exits(0).stdout();
    assert_eq!(ran("stat", &directory, &[]).exits(0).stdout(), stat);
    ran("stat", &one, &[]).exits(2).says("another part of the split core has the page of 0x40a8");
    std::fs::write(directory.join("other"), dump(kernel, &pages, &info).file()).expect("room");
    ran("stat", &directory, &[])
        .exits(2)
        .says("no parts of one split core: they differ in that one is not split");
    let empty = core.file("empty");
    std::fs::create_dir(&empty).expect("a directory");
    ran("stat", &empty, &[]).exits(2).says("no file in the directory is a kdump-compressed core");
}

#[test]
fn a_core_that_cannot_be_read_is_refused_by_name() {
    let kernel = debian();
    let (core, pages, info) = (kernel.core(|_| {}), pages(kernel), kernel.info());
    let whole = dump(kernel, &pages, &info).file();
    let path = core.file("damaged");
    let refused = |bytes: &[u8], words: &str| {
        std::fs::write(&path, bytes).expect("room");
        let ran = ran("stat", &path, &[]).exits(2).says(words);
        assert_eq!(ran.stdout(), "");
    };
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    refused(&whole[..100], "it is not whole: its header should end at byte 464");
    refused(&whole[..9000], "it is not whole: its bitmaps should end at byte");
    refused(&whole[..whole.len() - 1], "cannot be read");
    refused(&changed(272, b"x86_64\0"), "a kdump-compressed core of x86_64; this reads those of aarch64");
    refused(&changed(428, &[0, 8]), "blocks of 2048 bytes, which is no page size");
    refused(&changed(436, &[1, 0, 0, 0]), "its bitmaps are shorter than its memory");
    refused(&flattened(&whole, 5000)[..20_000], "it is a flattened file that is not whole");
    refused(&flattened(b"some text", 5000), "the file in it is no core");
    let gz = gzip(&whole);
    refused(&gz[..gz.len() - 9], "it is compressed by gzip, and damaged or not whole");
    refused(&gzip(&gz), "it is compressed by gzip; `gzip -d` makes a file of it");
    refused(b"LibvirtQemudSave\x02\0\0\0", "`virsh dump --memory-only`");
}
