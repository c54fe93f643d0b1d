//! Small cores, whole and damaged, through the front door.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::Duration;

use linmap::arch::Entry;
use linmap::{Geometry, Granule, OaFormat, Pa, Va};
use tempfile::NamedTempFile;
use test_support::prelude::*;

use super::memory::Unreadable;
use super::*;

#[path = "../../tests/common/kdump.rs"]
mod kdump;

/// Nothing is halted here.
const PAUSE: Pause = Pause { most: Duration::ZERO, resume: false };
/// The start of the RAM of all machines here.
const RAM: u64 = 0x4000_0000;
/// The address of the symbol.
const SYMBOL: u64 = 0xffff_8000_0800_1000;
const ROOT: u64 = RAM + 0x1000;

/// A machine of 64 KiB, with four tables and a text.
struct Machine {
    ram: Vec<u8>,
    note: bool,
}

impl Machine {
    /// Tables of 48 bits that map the first page of RAM in the linear map, and the symbol.
    fn new(note: bool) -> Self {
        let mut machine = Self { ram: vec![0; 0x1_0000], note };
        let [l1, l2, l3] = [2, 3, 4].map(|page| RAM + page * 0x1000);
        machine.put(ROOT, 256, l1 | 3);
        machine.put(ROOT, 0, (RAM + 0x5000) | 3);
        machine.put(l1, 0, l2 | 3);
        machine.put(l2, 64, l3 | 3);
        machine.put(l3, 1, ROOT | 0x0060_0000_0000_0783);
        // The linear map: one block.
        machine.put(RAM + 0x5000, 0, RAM | 0x0060_0000_0000_0705);
        let text = machine.text();
        if !note {
            machine.ram[0x8000..0x8000 + text.len()].copy_from_slice(text.as_bytes());
        }
        machine
    }

    fn put(&mut self, table: u64, index: usize, descriptor: u64) {
        let at = (table - RAM) as usize + index * 8;
        self.ram[at..at + 8].copy_from_slice(&descriptor.to_le_bytes());
    }

    fn text(&self) -> String {
        let offset = SYMBOL - ROOT;
        format!(
            "OSRELEASE=6.1.0\nPAGESIZE=4096\nSYMBOL(swapper_pg_dir)={SYMBOL:x}\nNUMBER(VA_BITS)=48\n\
             NUMBER(kimage_voffset)={offset:#x}\nNUMBER(TCR_EL1_T1SZ)=0x10\nNUMBER(PHYS_OFFSET)={RAM:#x}\n"
        )
    }

    /// Returns it as a kdump-compressed core.
    fn kdump(&self, method: u32) -> Vec<u8> {
        let first = RAM / 4096;
        let pages =
            self.ram.chunks(4096).enumerate().map(|(page, bytes)| (first + page as u64, bytes.to_vec()));
        let pages = pages.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)).collect();
        let text = self.text();
        let info = self.note.then_some(text.as_str());
        let ram = first..first + self.ram.len() as u64 / 4096;
        kdump::Dump { block: 4096, ram, pages: &pages, info, method, level: 1, version: 6, split: None }
            .file()
    }

    /// Returns it as an ELF core.
    fn core(&self) -> Vec<u8> {
        let text = if self.note { self.text() } else { String::new() };
        let mut note: Vec<u8> = [11, text.len() as u32, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
        note.extend(b"VMCOREINFO\0\0");
        note.extend(text.bytes());
        note.resize(note.len().next_multiple_of(4), 0);
        let mut core = b"\x7fELF\x02\x01\x01".to_vec();
        core.resize(16, 0);
        core.extend([4u16, 183].iter().flat_map(|n| n.to_le_bytes()));
        core.extend(1u32.to_le_bytes());
        core.extend([0u64, 64, 0].iter().flat_map(|n| n.to_le_bytes()));
        core.extend(0u32.to_le_bytes());
        core.extend([64u16, 56, 2, 64, 0, 0].iter().flat_map(|n| n.to_le_bytes()));
        let (notes, ram) = (note.len() as u64, self.ram.len() as u64);
        for (kind, offset, pa, bytes) in [(4u32, 176, 0, notes), (1, 176 + notes, RAM, ram)] {
            core.extend([kind, 4].iter().flat_map(|n| n.to_le_bytes()));
            core.extend([offset, pa, pa, bytes, bytes, 0].iter().flat_map(|n| n.to_le_bytes()));
        }
        core.extend(note);
        core.extend(&self.ram);
        core
    }
}

fn opened(bytes: &[u8]) -> Result<Opened, SourceError> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    open(&Source::File(file.path().into()), Request { wanted: Wanted::All, progress: &|_| () }, PAUSE)
}

fn tables(bytes: &[u8]) -> Box<Tables> {
    match opened(bytes) {
        Ok(Opened::Tables(tables)) => tables,
        other => panic!("{other:?}"),
    }
}

fn refusal(bytes: &[u8]) -> String {
    opened(bytes).expect_err("it is no SOURCE").why.to_string()
}

/// Walks all of it, as commands do. Whatever was read, this ends, and fails only with an error.
fn walk(tables: &Tables) -> Result<u64, Unread> {
    let mut leaves = 0;
    let bounded = linmap::read::Bounded::new(&tables.snapshot, 1 << 20);
    let walked = linmap::read::visit(
        &bounded,
        tables.geometry,
        tables.root,
        (Va(tables.geometry.base(linmap::Half::Upper)), Va(u64::MAX)),
        |&linmap::read::Visited { entry, .. }| {
            leaves += u64::from(matches!(entry, Entry::Leaf(_)));
            ControlFlow::Continue(())
        },
    );
    match walked {
        Err(linmap::read::BoundedError::Read(unread)) => Err(unread),
        _ => Ok(leaves),
    }
}

#[test]
fn a_core_is_read_with_a_note_and_without() {
    for note in [true, false] {
        let tables = tables(&Machine::new(note).core());
        let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        assert_eq!((tables.root, tables.geometry), (Pa(ROOT), geometry), "note: {note}");
        assert_eq!((tables.snapshot.tables(), walk(&tables)), (5, Ok(2)));
        assert_eq!(
            tables.kernel.linear_offset(tables.geometry),
            Some(0xffff_0000_0000_0000_u64.wrapping_sub(RAM))
        );
        assert_eq!(tables.kernel.image_offset(), Some(SYMBOL - ROOT));
        assert_eq!(
            [RAM - 1, RAM, RAM + 0xffff, RAM + 0x1_0000]
                .map(|pa| tables.memory.is_ram(Pa(pa)).expect("it is known")),
            [false, true, true, false]
        );
        assert_eq!(
            tables.memory.from().read(Pa(RAM + 0xffff), &mut [0; 2]),
            Err(Unreadable::NoRam(Pa(RAM + 0x1_0000)))
        );
    }
}

#[test]
fn only_what_is_wanted_is_read() {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(&Machine::new(true).core()).expect("room for it");
    let source = Source::File(file.path().into());
    let read = |wanted| match open(&source, Request { wanted, progress: &|_| () }, PAUSE) {
        Ok(Opened::Tables(tables)) => (tables.snapshot.tables(), walk(&tables).is_ok()),
        other => panic!("{other:?}"),
    };
    let linear =
        linmap::layout::linear_range(Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry"));
    assert_eq!(read(Wanted::Range(linear.0, linear.1)), (2, false));
    assert_eq!(read(Wanted::Range(Va(SYMBOL), Va(SYMBOL))), (4, false));
    assert_eq!(read(Wanted::Range(Va(0), Va(0))), (0, false));
}

#[test]
fn tables_that_are_not_there_are_said_to_be_missing() {
    let mut machine = Machine::new(true);
    machine.put(ROOT, 5, 0x9000_0003);
    let tables = tables(&machine.core());
    let unread = walk(&tables).expect_err("a table is missing");
    assert_eq!(
        unread.to_string(),
        "the level 1 table at 0x90000000, which translates from 0xffff028000000000 on, cannot be read: there is no RAM at 0x90000000 in it"
    );
    assert_eq!(tables.snapshot.unread(), [&unread]);
}

#[test]
fn tables_that_point_to_themselves_are_read_once() {
    let mut machine = Machine::new(true);
    for index in (0..512).filter(|index| *index != 256) {
        machine.put(ROOT, index, ROOT | 3);
    }
    let tables = tables(&machine.core());
    assert!(tables.snapshot.tables() < 10, "{}", tables.snapshot.tables());
    let _ = walk(&tables);
}

#[test]
fn each_thing_that_is_no_source_is_told_from_the_others() {
    let core = Machine::new(true).core();
    let changed = |at: usize, byte: u8| {
        let mut core = core.clone();
        core[at] = byte;
        refusal(&core)
    };
    assert!(changed(4, 1).contains("32-bit"));
    assert!(changed(5, 2).contains("big-endian"));
    assert!(changed(18, 62).contains("machine 62 (x86-64)"));
    assert!(changed(16, 2).contains("type 2, not a core"));
    assert!(changed(54, 55).contains("another size than 56"));
    assert!(changed(56, 0).contains("no segments"));
    assert!(changed(64 + 56, 7).contains("no segment of it is physical memory"));
    assert!(refusal(&core[..core.len() - 1]).contains("it is not whole: a segment should end at byte"));
    assert!(refusal(&core[..50]).contains("it is not whole: the ELF header"));
    assert!(refusal(&[]).contains("empty"));
    assert!(refusal(b"\xde\xad\xbe\xef\0\x01").contains("it begins with"));
    assert!(refusal(b"root:x:0:0\nbin").contains("it begins with `root:x:0:0`"));
    assert!(refusal(b"KDUMP   \x06").contains("it is not whole: its header should end at byte 464"));
    assert!(refusal(b"{}").contains("missing field"));
    assert!(refusal(b"0x1 and so on").starts_with("it begins as a text of kernel_page_tables"));
}

#[test]
fn what_vmcoreinfo_says_is_proved() {
    let text = |from: &str, to: &str| {
        let mut machine = Machine::new(false);
        let text = machine.text().replace(from, to);
        machine.ram[0x8000..0x9000].fill(0);
        machine.ram[0x8000..0x8000 + text.len()].copy_from_slice(text.as_bytes());
        refusal(&machine.core())
    };
    assert!(text("PAGESIZE=4096", "PAGESIZE=4097").contains("no page size of arm64"));
    assert!(text("PAGESIZE=4096", "PAGE").contains("no usable `PAGESIZE`"));
    assert!(text("T1SZ)=0x10", "T1SZ)=0x1f").contains("33 VA bits"));
    assert!(text("PAGESIZE=4096", "PAGESIZE=65536").contains("damaged, or VMCOREINFO is another kernel's"));
    assert!(text("=ffff800008001000", "=ffff800108001000").contains("there is no RAM at 0x140001000"));
    assert!(text("OSRELEASE", "OSRELEASF").contains("it has no VMCOREINFO"));
    let mut machine = Machine::new(true);
    machine.put(RAM + 0x4000, 1, (ROOT + 0x1000) | 0x0060_0000_0000_0783);
    assert!(refusal(&machine.core()).contains("does not map swapper_pg_dir (0xffff800008001000)"));
}

/// Shareability bits that are address bits in LPA2: without LPA2 the same tables have them as such.
#[test]
fn the_format_follows_from_the_leaf_that_maps_the_root() {
    let mut machine = Machine::new(true);
    machine.put(RAM + 0x4000, 1, ROOT | 0x0060_0000_0000_0483);
    assert_eq!(tables(&machine.core()).geometry.oa_format(), OaFormat::Lpa2);
}

/// Checks that each entry of a table is the word that is in memory.
fn is_read_as_it_is(tables: &Tables, table: Pa, level: linmap::arch::Level) -> bool {
    use linmap::read::ReadTables;
    (0..512).all(|index| {
        let mut word = [0; 8];
        let read = tables.memory.from().read(Pa(table.0 + index as u64 * 8), &mut word);
        let entry = tables.snapshot.entry(linmap::Slot { table, index }, level);
        read.is_ok() && entry.is_ok_and(|entry| entry.0 == u64::from_le_bytes(word))
    })
}

fn is_one_line(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_control)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Headers, notes, tables and texts are damaged at several places at once.
    #[test]
    fn a_damaged_core_is_read_as_it_is_or_refused_on_one_line(note: bool, damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..6),
        end in prop::option::of(any::<prop::sample::Index>())) {
        let mut core = Machine::new(note).core();
        for (at, bytes) in damage {
            // The important bytes are in the first seven pages, and in the eighth after them.
            let at = at.index(0x9000 - 8);
            core[at..at + 8].copy_from_slice(&bytes.to_le_bytes());
        }
        if let Some(end) = end {
            core.truncate(end.index(core.len()));
        }
        match opened(&core) {
            Ok(Opened::Tables(tables)) => {
                prop_assert!(is_read_as_it_is(&tables, tables.root, tables.geometry.root()));
                // What a walk misses, the snapshot lacks.
                let missed = walk(&tables).err();
                prop_assert!(missed.is_none_or(|unread| tables.snapshot.unread().contains(&&unread)));
            }
            Ok(_) => prop_assert!(false, "no dump is a core"),
            Err(error) => prop_assert!(is_one_line(&error.to_string()), "{error}"),
        }
    }

    /// Headers, bitmaps, page descriptors and pages are damaged, under a flattened form or not.
    #[test]
    fn a_damaged_compressed_core_is_read_or_refused_on_one_line(note: bool, method in prop::sample::select(kdump::METHODS.to_vec()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), any::<bool>()), 1..6),
        end in prop::option::of(any::<prop::sample::Index>()), is_flattened: bool) {
        let mut core = Machine::new(note).kdump(method.0);
        // The bitmaps are mostly empty: what is damaged is outside of them, or in their places for RAM.
        let places: Vec<usize> = (0..core.len() - 8).filter(|at| *at < 600 || core[*at..*at + 8].iter().any(|byte| *byte != 0)).collect();
        for (at, bytes, is_small) in damage {
            let at = places[at.index(places.len())];
            core[at..at + 8].copy_from_slice(&if is_small { bytes % 64 } else { bytes }.to_le_bytes());
        }
        if let Some(end) = end {
            core.truncate(end.index(core.len()));
        }
        let core = if is_flattened { kdump::flattened(&core, 3000) } else { core };
        match opened(&core) {
            Ok(Opened::Tables(tables)) => {
                let missed = walk(&tables).err();
                prop_assert!(missed.is_none_or(|unread| tables.snapshot.unread().contains(&&unread)));
            }
            Ok(_) => prop_assert!(false, "no dump is a core"),
            Err(error) => prop_assert!(is_one_line(&error.to_string()), "{error}"),
        }
    }

    #[test]
    fn a_random_file_is_refused_for_what_it_begins_as(mut bytes in any::<Vec<u8>>(), kind in 0..4usize) {
        let beginning: &[u8] = [&b"\x7fELF"[..], b"{", b"0x", b""][kind];
        bytes.splice(..0, beginning.iter().copied());
        let why = refusal(&bytes);
        prop_assert!(is_one_line(&why), "{why:?}");
        let expected = ["it", "it is no JSON document", "it begins as a text of kernel_page_tables", "it"][kind];
        prop_assert!(why.starts_with(expected), "{why:?}");
    }

    /// Every table entry is random, except the root's own mapping.
    #[test]
    fn random_tables_are_read_as_they_are(words in prop::collection::vec((0u64..6, 0..512usize, any::<u64>(), 0u64..16), 0..300)) {
        let mut machine = Machine::new(true);
        let kept = [(1, 256), (2, 0), (3, 64), (4, 1)];
        for (page, index, bits, target) in words {
            if page != 0 && !kept.contains(&(page, index)) {
                let descriptor = bits & !0x0000_ffff_ffff_f000 | (RAM + target * 0x1000);
                machine.put(RAM + page * 0x1000, index, descriptor);
            }
        }
        let tables = tables(&machine.core());
        for (page, level) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
            prop_assert!(is_read_as_it_is(&tables, Pa(RAM + page * 0x1000), linmap::arch::Level::new(level)));
        }
        // All that they point to is RAM.
        prop_assert!(walk(&tables).is_ok());
    }
}
