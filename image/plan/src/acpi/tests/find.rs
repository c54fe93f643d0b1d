//! Tables are found from their root, whole or not at all, and go through a file unchanged.

use std::string::{String, ToString};
use std::vec::Vec;

use linmap::Pa;

use super::build::{Firmware, VIRT, fadt, gtdt, madt, rsdp, seal};
use crate::acpi::tables::{NoTables, Tables};

fn find(firmware: &Firmware, at: u64) -> (Result<Tables<'_>, NoTables>, Vec<String>) {
    let mut notes = Vec::new();
    let read = |at, bytes| firmware.read(at, bytes);
    let tables = Tables::find(Pa(at), &read, &mut |note| notes.push(note.to_string()));
    (tables, notes)
}

fn two() -> Firmware {
    Firmware::with(&[gtdt(27), fadt(1)], true)
}

/// Returns the bytes of all tables that are found.
fn found(firmware: &Firmware) -> (Result<usize, String>, Vec<String>) {
    let (tables, notes) = find(firmware, firmware.start);
    (tables.map(|tables| tables.bytes()).map_err(|e| e.to_string()), notes)
}

const GTDT: usize = 72;
const BOTH: usize = GTDT + 276;

#[test]
fn tables_are_found_by_either_table_of_tables() {
    assert_eq!(found(&two()), (Ok(BOTH), Vec::new()));
    // Without the XSDT, which is named.
    let mut firmware = two();
    firmware.bytes[0x210] ^= 1;
    let (bytes, notes) = found(&firmware);
    assert_eq!(bytes, Ok(BOTH));
    assert!(notes[0].starts_with("the ACPI table XSDT is damaged: its bytes add up to 0x"), "{notes:?}");
    // ACPI 1.0 has no XSDT.
    let mut firmware = two();
    firmware.bytes[15] = 0;
    firmware.bytes[8] = firmware.bytes[8].wrapping_add(2);
    firmware.bytes[24..32].fill(0xff);
    assert_eq!(found(&firmware), (Ok(BOTH), Vec::new()));
    // There need not be an RSDT, but then the XSDT must be right.
    let mut firmware = Firmware::with(&[gtdt(27)], false);
    assert_eq!(found(&firmware), (Ok(GTDT), Vec::new()));
    firmware.bytes[0x201] = b'Y';
    let (error, _) = found(&firmware);
    assert!(error.unwrap_err().starts_with("the ACPI table XSDT is damaged"));
}

#[test]
fn what_is_no_root_is_named() {
    let firmware = two();
    let error = |at| find(&firmware, at).0.unwrap_err();
    assert_eq!(error(firmware.start + 1), NoTables::NotRoot(Pa(firmware.start + 1)));
    assert_eq!(error(0), NoTables::Unreachable(Pa(0)));
    assert_eq!(error(u64::MAX - 3), NoTables::Unreachable(Pa(u64::MAX - 3)));
    for damaged in [0, 8, 20, 35] {
        let mut firmware = two();
        firmware.bytes[damaged] ^= 0x10;
        let text = found(&firmware).0.unwrap_err();
        assert_eq!(text, "at 0x70000003 is no RSDP of ACPI: its signature or its checksum is wrong");
    }
    let mut nowhere = two();
    nowhere.bytes[..36].copy_from_slice(&rsdp(0, 0x1000));
    assert_eq!(found(&nowhere).0.unwrap_err(), "the ACPI table XSDT cannot be read at 0x1000");
}

#[test]
fn a_damaged_table_is_left_out_and_named() {
    let with = |table: Vec<u8>| found(&Firmware::with(&[table, fadt(1)], true));
    let mut damaged = gtdt(27);
    damaged[64] ^= 3;
    let (bytes, notes) = with(damaged);
    assert_eq!(bytes, Ok(276));
    assert!(notes[0].starts_with("the ACPI table GTDT is damaged: its bytes add up to 0x"), "{notes:?}");
    let mut long = gtdt(27);
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(with(long), (Ok(276), ["the ACPI table GTDT cannot have 4294967295 bytes".into()].into()));
    let mut longer = gtdt(27);
    longer[4..8].copy_from_slice(&0x1000u32.to_le_bytes());
    let (_, notes) = with(longer);
    assert_eq!(notes, ["the ACPI table GTDT cannot be read at 0x70000403"]);
    assert_eq!(
        with(fadt(3)),
        (Ok(276), ["the ACPI table FACP is there twice; the first is used".into()].into())
    );
}

/// Tables that are not used need not even be right.
#[test]
fn other_tables_are_passed_over() {
    let mut other = seal(gtdt(27));
    other[..4].copy_from_slice(b"SSDT");
    assert_eq!(found(&Firmware::with(&[other.clone(), gtdt(27)], true)), (Ok(GTDT), Vec::new()));
    let file = [other, gtdt(27)].concat();
    assert_eq!(Tables::in_file(&file, &mut |note| panic!("{note}")).bytes(), GTDT);
}

#[test]
fn tables_go_through_a_file_unchanged() {
    let (tables, mut file) = (Tables::in_file(VIRT, &mut |note| panic!("{note}")), std::vec![0; 4096]);
    assert_eq!(tables.copy_to(&mut file[..tables.bytes() - 1]), None);
    let copy = tables.copy_to(&mut file).unwrap();
    assert_eq!((copy.len(), tables.bytes()), (VIRT.len(), VIRT.len()));
    let again = Tables::in_file(copy, &mut |note| panic!("{note}"));
    let mut file = std::vec![0; copy.len()];
    assert_eq!(again.copy_to(&mut file), Some(copy));
}

#[test]
fn a_file_that_is_cut_has_the_tables_before_the_cut() {
    let file = [madt(&[]), gtdt(27), fadt(1)].concat();
    let mut notes = Vec::new();
    let tables =
        Tables::in_file(&file[..44 + GTDT + 40], &mut |note| notes.push((note.subject(), note.to_string())));
    assert_eq!(tables.bytes(), 44 + GTDT);
    assert_eq!(
        notes,
        [(crate::note::Subject::Cpus, String::from("the ACPI table FACP cannot have 276 bytes"))]
    );
    let mut damaged = file.clone();
    damaged[44 + 40] ^= 1;
    let mut notes = Vec::new();
    assert_eq!(Tables::in_file(&damaged, &mut |note| notes.push(note.to_string())).bytes(), 44 + 276);
    assert!(notes.len() == 1 && notes[0].contains("GTDT is damaged"), "{notes:?}");
}
