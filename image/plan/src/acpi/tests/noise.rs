//! Random tables and damaged ones: no panic, no overflow, each note one line, and a plan that keeps its promises. The code
//! is the image's own.

use std::string::{String, ToString};
use std::vec::Vec;

use linmap::Pa;
use proptest::sample::Index;
use test_support::prelude::*;

use super::build::{
    Cpu, Firmware, VIRT, cpu, dbg2, fadt, gas, gicc, gicd, gicr, gtdt, madt, seal, spcr, srat,
};
use crate::acpi::{FromLoader, Tables};
use crate::fuzz::boot::{Setting, boot_machine};
use crate::gic::{InterruptController, REGIONS};
use crate::ranges::Ranges;

/// Boots tables on a machine of a gigabyte, and judges what was read and planned.
fn boot(tables: &Tables<'_>, mut notes: Vec<String>) {
    let mut ram = Ranges::new();
    ram.add(Pa(1 << 30)..Pa(2 << 30)).expect("room");
    let given = FromLoader { ram, ..FromLoader::default() };
    let machine = tables.machine(given, &mut |note| notes.push(note.to_string()));
    boot_machine(&machine, 0x1000, &Setting::usual(), &mut notes);
    for text in &notes {
        assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
    }
    assert!(machine.timer.is_none_or(|timer| (16..32).contains(&timer)));
    assert!(machine.nodes.iter().all(|node| node.range.start < node.range.end));
    for range in machine.interrupts.iter().flat_map(InterruptController::ranges) {
        assert!(range.start < range.end, "{range:?}");
    }
    if let Some(InterruptController::V3 { redistributors, joined: true, .. }) = &machine.interrupts {
        assert!(redistributors.windows(2).all(|two| two[0].end <= two[1].start), "{redistributors:?}");
        assert!(redistributors.len() <= REGIONS);
    }
}

fn boot_file(file: &[u8]) {
    let mut notes = Vec::new();
    let tables = Tables::in_file(file, &mut |note| notes.push(note.to_string()));
    boot(&tables, notes);
}

fn number() -> impl Strategy<Value = u64> {
    let near = (0u32..64, -2i64..3).prop_map(|(bit, add)| (1u64 << bit).wrapping_add_signed(add));
    prop_oneof![2 => near, 2 => (0u64..0x1000).prop_map(|n| n << 16), 1 => any::<u64>()]
}

fn part() -> impl Strategy<Value = Vec<u8>> {
    let one = (0u64..4, prop_oneof![4 => Just(1u32), 1 => any::<u32>()], number(), number());
    let one = one.prop_map(|(n, flags, cpu_interface, redistributor)| {
        gicc(n as u32, Cpu { flags, cpu_interface, redistributor, ..cpu(n << 8 | n) })
    });
    prop_oneof![
        4 => one,
        2 => (number(), 0u8..6).prop_map(|(base, version)| gicd(base, version)),
        2 => (number(), any::<u32>()).prop_map(|(base, bytes)| gicr(base, bytes)),
        1 => prop::collection::vec(any::<u8>(), 0..90),
    ]
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let port = (0u16..0x14, any::<u8>(), 0u8..6, number(), prop_oneof![Just(8u8), Just(32), any::<u8>()]);
    let port = port.prop_map(|(kind, space, access, at, bits)| (kind, gas(space & 1, bits, access, at)));
    let ports = prop::collection::vec((0x8000u16..0x8002, port), 0..4);
    let parts = prop::collection::vec(part(), 0..12);
    let ranges = prop::collection::vec((0u32..4, number(), number(), 0u32..4), 0..6);
    (any::<u16>(), parts, 0u32..40, ports, ranges).prop_map(|(flags, parts, timer, ports, ranges)| {
        let console = ports.first().map(|(_, (kind, gas))| spcr(*kind as u8, *gas)).unwrap_or_default();
        let ports: Vec<_> = ports.into_iter().map(|(port, (kind, gas))| (port, kind, gas)).collect();
        [fadt(flags), madt(&parts), gtdt(timer), console, dbg2(&ports), srat(&ranges)].concat()
    })
}

/// Changes bytes of tables and makes their checksums right again, so that the damage is read.
fn damaged(file: &[u8], damage: &[(Index, u8)]) -> Vec<u8> {
    let mut tables = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let bytes = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
        tables.push(rest[..bytes].to_vec());
        rest = &rest[bytes..];
    }
    for (at, value) in damage {
        let which = at.index(tables.len());
        let body = tables[which].len() - 36;
        if body != 0 {
            let at = 36 + at.index(usize::MAX) % body;
            tables[which][at] = *value;
        }
    }
    tables.into_iter().flat_map(seal).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Well-made tables of strange machines, whose parts contradict each other.
    #[test]
    fn strange_tables(file in file()) {
        boot_file(&file);
    }

    /// QEMU's tables, and strange ones, with bytes changed.
    #[test]
    fn damaged_tables(strange in file(), damage in prop::collection::vec((any::<Index>(), any::<u8>()), 1..8)) {
        boot_file(&damaged(VIRT, &damage));
        boot_file(&damaged(&strange, &damage));
    }

    /// Bytes of a file changed anywhere, headers and checksums included; and files that are cut.
    #[test]
    fn damaged_files(damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..6), cut in any::<Index>()) {
        let mut file = VIRT.to_vec();
        damage.iter().for_each(|(at, value)| file[at.index(VIRT.len())] = *value);
        boot_file(&file);
        boot_file(&file[..cut.index(file.len())]);
    }

    /// Memory of a firmware changed anywhere, the root included: nothing outside it is read, and a table that is found is
    /// whole.
    #[test]
    fn damaged_memory(
        strange in file(),
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..6),
        front in prop::collection::vec((0usize..0x400, any::<u8>()), 0..3),
        has_rsdt: bool,
    ) {
        let mut firmware = Firmware::with(&[strange], has_rsdt);
        let all = firmware.bytes.len();
        damage.iter().for_each(|(at, value)| firmware.bytes[at.index(all)] = *value);
        front.iter().for_each(|(at, value)| firmware.bytes[*at] = *value);
        let (mut notes, read) = (Vec::new(), |at, bytes| firmware.read(at, bytes));
        match Tables::find(Pa(firmware.start), &read, &mut |note| notes.push(note.to_string())) {
            Ok(tables) => {
                let mut file = std::vec![0; tables.bytes()];
                let copy = tables.copy_to(&mut file).expect("room");
                let again = Tables::in_file(copy, &mut |note| panic!("{note}"));
                prop_assert_eq!(again.bytes(), tables.bytes());
                boot(&tables, notes);
            }
            Err(error) => prop_assert!(error.to_string().contains("ACPI")),
        }
    }
}
