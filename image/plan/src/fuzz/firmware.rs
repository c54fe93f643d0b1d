//! Boots with the memory map of UEFI firmware: usual, long, in pieces, contradictory, random.

use std::string::{String, ToString};
use std::vec::Vec;

use test_support::prelude::*;

use super::boot::{End, GIB, Setting, VIRT, boot_machine};
use crate::efi::memory_map::MemoryMap;
use crate::machine::Machine;

const ACPI: &[u8] = include_bytes!("../../tests/data/virt.acpi");
const PAGE: u64 = 4096;
const WRITE_BACK: u64 = 0xf;
const RUNTIME: u64 = 1 << 63 | WRITE_BACK;

/// A descriptor: type, start, pages, attributes.
type Descriptor = (u32, u64, u64, u64);

fn bytes(descriptors: &[Descriptor]) -> Vec<u8> {
    let words = |d: &Descriptor| [u64::from(d.0), d.1, 0, d.2, d.3, 0];
    descriptors.iter().flat_map(words).flat_map(u64::to_le_bytes).collect()
}

/// Boots as far as the plan, on a machine that is described by its device tree or by ACPI. Each note is one line.
fn boot(map: &[u8], acpi: bool, line: &str) -> (End, Vec<String>) {
    let map = MemoryMap::new(map, 48).expect("a length");
    let mut notes = Vec::new();
    let mut note = |note: crate::note::Note<'_>| notes.push(note.to_string());
    let machine = if acpi {
        Machine::read_acpi(ACPI, map, &mut note)
    } else {
        Machine::read_with(VIRT, Some(map), &mut note)
    };
    let mut machine = match machine {
        Ok(machine) => machine,
        Err(e) => return (End::Unreadable, [e.to_string()].into()),
    };
    machine.bootargs.clear();
    machine.bootargs.push_str(line);
    let end = boot_machine(&machine, VIRT.len() as u64, &Setting::usual(), &mut notes);
    for text in &notes {
        assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
    }
    (end, notes)
}

#[test]
fn a_usual_map_is_planned_without_a_note() {
    // 4 GiB; runtime services and ACPI tables in the last of them.
    let end = 5 * GIB;
    let all = [
        (7, GIB, 3 * GIB / PAGE, WRITE_BACK),
        (4, 4 * GIB, (GIB - 0x80_0000) / PAGE, WRITE_BACK),
        (6, end - 0x80_0000, 0x400, RUNTIME),
        (9, end - 0x40_0000, 0x10, WRITE_BACK),
        (3, end - 0x3f_0000, 0x3f0, WRITE_BACK),
        (11, 0x900_0000, 1, 1 << 63 | 1),
    ];
    for acpi in [false, true] {
        let (planned, notes) = boot(&bytes(&all), acpi, "");
        assert_eq!(notes, Vec::<String>::new());
        // Not free: the runtime services, ACPI's tables, the image, the pages that the tree touches.
        let tree = (VIRT.len() as u64).next_multiple_of(PAGE);
        let free = 4 * GIB - 0x40_0000 - 0x1_0000 - 0x20_0000 - tree;
        assert_eq!(planned, End::Planned { free, crash: None }, "ACPI: {acpi}");
    }
}

#[test]
fn two_thousand_descriptors_of_one_range_are_one() {
    let kinds = [1, 2, 3, 4, 7];
    let all: Vec<Descriptor> =
        (0..2000).map(|i| (kinds[i as usize % 5], GIB + i * 0x20_0000, 0x200, WRITE_BACK)).collect();
    let (end, notes) = boot(&bytes(&all), true, "");
    assert!(matches!(end, End::Planned { free, .. } if free > 2000 * 0x20_0000 - 0x40_0000), "{end:?}");
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn ram_in_a_hundred_pieces_is_used_whole() {
    let pieces = |count: u64| -> Vec<Descriptor> {
        let piece = |i| {
            [
                (7, GIB + i * 0x200_0000, 0x1f00, WRITE_BACK),
                (6, GIB + i * 0x200_0000 + 0x1f0_0000, 0x100, RUNTIME),
            ]
        };
        (0..count).flat_map(piece).collect()
    };
    let (end, notes) = boot(&bytes(&pieces(100)), true, "");
    assert!(matches!(end, End::Planned { free, .. } if free > 100 * 0x1f0_0000 - 0x40_0000), "{end:?}");
    assert_eq!(notes, Vec::<String>::new());
    // Of more than can be kept apart the others are used, and the rest is named.
    let (end, notes) = boot(&bytes(&pieces(1000)), true, "");
    assert!(matches!(end, End::Planned { free, .. } if free > 100 * 0x1f0_0000), "{end:?}");
    assert!(notes.iter().any(|note| note.starts_with("memory left out")), "{notes:?}");
}

#[test]
fn a_map_without_ram_is_an_error() {
    for acpi in [false, true] {
        let (end, notes) = boot(&bytes(&[(7, GIB, 16, 1), (6, 2 * GIB, 16, RUNTIME)]), acpi, "");
        assert_eq!(end, End::Unreadable);
        assert_eq!(notes, ["the memory map of the firmware has no RAM that may be cached"]);
    }
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    let kind = prop_oneof![3 => Just(7_u32), 2 => 1..5_u32, 1 => any::<u32>(), 2 => 0..17_u32];
    let start = prop_oneof![8 => (0..0x600_u64).prop_map(|block| block * 0x40_0000), 1 => (0..0x100_0000_u64).prop_map(|page| page * PAGE), 1 => any::<u64>()];
    let pages = prop_oneof![8 => 1..0x4_0000_u64, 1 => 0..4_u64, 1 => any::<u64>()];
    let attributes = prop_oneof![6 => Just(WRITE_BACK), 2 => Just(RUNTIME), 1 => any::<u64>()];
    (kind, start, pages, attributes)
}

proptest! {
    /// Any map: no panic, and a plan keeps its promises, which `boot_machine` judges.
    #[test]
    fn any_map(
        all in prop::collection::vec(descriptor(), 0..60),
        cut in 0..48_usize,
        acpi in any::<bool>(),
        line in prop::sample::select(std::vec!["", "crashkernel=64M", "pagesize=64k run=selftest", "rodata=off"]),
    ) {
        let mut map = bytes(&all);
        map.truncate(map.len().saturating_sub(cut));
        let (end, _) = boot(&map, acpi, line);
        if let End::Planned { free, .. } = end {
            prop_assert!(free > 0);
        }
    }
}
