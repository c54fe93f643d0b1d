//! The image as firmware starts it: from a disk that `linmap image` writes, and as a file that it is given.

use std::process::Command;

use tempfile::TempDir;

use crate::guest::{Booted, boot_with};

/// Runs QEMU with firmware.
const QEMU: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/image/efi-qemu");

/// Boots from a disk with these boot arguments.
fn from_disk(arguments: &str, machine: &str, more: &[&str]) -> Booted {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let disk = directory.path().join("disk").into_os_string().into_string().expect("a plain path");
    let mut write = Command::new(env!("CARGO_BIN_EXE_linmap"));
    let written = write.args(["image", "--disk", &disk, "--args", arguments]).output().expect("linmap runs");
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let options = ["--qemu", QEMU, "--ram", "1G", "--machine", machine];
    boot_with(&[&options, more].concat(), &[("LINMAP_DISK", &disk)])
}

/// Fails unless RAM is that of the firmware's memory map: some of QEMU's is the firmware's own, and stays unmapped.
#[track_caller]
fn expect_firmwares_map(booted: &Booted) {
    let ram = booted.at("/memory/ram").as_array().expect("ranges");
    let address = |text: &serde_json::Value| {
        let digits = text.as_str().and_then(|text| text.strip_prefix("0x")).expect("an address");
        u64::from_str_radix(digits, 16).expect("an address")
    };
    let ranges: Vec<(u64, u64)> = ram.iter().map(|range| (address(&range[0]), address(&range[1]))).collect();
    let bytes: u64 = ranges.iter().map(|(from, to)| to - from).sum();
    assert!(ranges.len() > 1 && ranges[0].0 == 0x4000_0000, "{ranges:x?}");
    assert!((0x3f00_0000..0x4000_0000).contains(&bytes), "{ranges:x?}");
    assert_eq!(booted.number("/linear/bytes"), bytes);
    assert!(booted.number("/efi/ticks") > 0 && booted.number("/efi/frequency") > 0, "{:#}", booted.document);
}

/// At EL2, with several CPUs: the firmware finds the application on the disk, and the arguments are those of the file.
#[test]
fn from_a_disk_at_el2() {
    let booted = from_disk("run=selftest,dump pagesize=16k", "acpi=off,virtualization=on", &["--cpus", "2"])
        .expect_well("a disk, at EL2");
    assert_eq!((booted.number("/page_size"), booted.number("/cpus")), (16384, 2));
    expect_firmwares_map(&booted);
    assert_eq!(booted.at("/tests/selftest/ok"), true);
    // The hole that the firmware keeps is one in the map.
    let dump = booted.dump();
    assert!(dump.lines().filter(|line| line.contains("MEM/NORMAL")).count() > 2, "{dump}");
}

/// At EL1: the firmware loads the image from QEMU, and the arguments are load options.
#[test]
fn as_a_file_at_el1() {
    let options =
        ["--qemu", QEMU, "--ram", "1G", "--machine", "acpi=off", "--page-size", "64k", "--run", "selftest"];
    let booted = boot_with(&options, &[]).expect_well("a file, at EL1");
    assert_eq!((booted.number("/page_size"), booted.number("/cpus")), (65536, 4));
    expect_firmwares_map(&booted);
}

/// Without a device tree, as servers are: CPUs, interrupts, console and PSCI are those of the ACPI tables.
#[test]
fn a_machine_with_acpi_alone() {
    for (machine, gic) in [("gic-version=3,virtualization=on", 3), ("gic-version=2", 2)] {
        let options =
            ["--qemu", QEMU, "--ram", "1G", "--machine", machine, "--cpus", "3", "--run", "cpus,interrupts"];
        let booted = boot_with(&options, &[]).expect_well(machine);
        assert_eq!((booted.text("/described_by"), booted.text("/machine")), ("ACPI", "BOCHS BXPC"));
        assert_eq!((booted.number("/cpus"), booted.number("/cpus_present")), (3, 3));
        assert_eq!(booted.number("/tests/interrupts/gic"), gic);
        assert!(!booted.says("the ACPI table"), "{}", booted.console);
        expect_firmwares_map(&booted);
    }
}
