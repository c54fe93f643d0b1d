//! The image as firmware starts it: from a disk that `linmap image` writes, and as a file that it is given.

use std::path::Path;

use dtoolkit::model::DeviceTreeProperty;
use tempfile::TempDir;

use crate::disk::{Disk, EDK2, QEMU};
use crate::guest::{Booted, boot_with};
use crate::loader::Loader;

/// U-Boot, which has the services of UEFI that the stub takes.
const U_BOOT: &str = "/usr/lib/u-boot/qemu_arm64/u-boot.bin";

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
    let booted = Disk::new("run=selftest,dump pagesize=16k")
        .boot(EDK2, "acpi=off,virtualization=on", &["--cpus", "2"])
        .expect_well("a disk, at EL2");
    assert_eq!((booted.number("/page_size"), booted.number("/cpus")), (16384, 2));
    expect_firmwares_map(&booted);
    assert_eq!(booted.at("/tests/selftest/ok"), true);
    // The hole that the firmware keeps is one in the map.
    let dump = booted.dump();
    assert!(dump.lines().filter(|line| line.contains("MEM/NORMAL")).count() > 2, "{dump}");
}

/// On CPUs whose HCR_EL2.E2H is always 1. QEMU has none, so the bit is set before the image, which does not clear it here:
/// its write is left out.
#[test]
fn where_e2h_stays_one() {
    const WRITE: [u32; 2] = [0xd2b0_0000, 0xd51c_1100]; // mov x0, #(1 << 31); msr hcr_el2, x0
    const SET: [u32; 4] = [WRITE[0], 0xf2c0_0080, WRITE[1], 0xd503_3fdf]; // the same with movk x0, #4, lsl #32; isb
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let built = Path::new(env!("CARGO_BIN_EXE_linmap")).ancestors().nth(2).expect("a target directory");
    let mut image = std::fs::read(built.join("linmap.img")).expect("the image is built");
    let write = words(&WRITE);
    let at: Vec<usize> = (0..image.len() - 8).filter(|at| image[*at..].starts_with(&write)).collect();
    assert_eq!(at.len(), 1, "all CPUs leave EL2 in one place");
    image[at[0] + 4..at[0] + 8].copy_from_slice(&words(&[0xd503_201f])); // nop
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let patched = directory.path().join("image");
    std::fs::write(&patched, &image).expect("a file");
    let options =
        ["--image", patched.to_str().expect("a plain path"), "--machine", "virtualization=on", "--cpus", "1"];
    let loader = Loader::new().first(&SET).bootargs("run=selftest").tree(|tree| {
        // The tree is that of a machine that starts at EL1.
        let psci = tree.find_node_mut("/psci").expect("QEMU's tree has PSCI");
        psci.add_property(DeviceTreeProperty::new("method", b"smc\0".as_slice()).expect("a property"));
    });
    loader.boot_with(&options).expect_well("with E2H");
}

/// The document of a measurement is on the console: without a device tree, with the stub's data at pages of 64K, on a CPU that may
/// abort.
#[test]
fn a_measurement_from_a_disk() {
    let booted = Disk::new("run=measure:quick pagesize=64k end=reset")
        .boot(EDK2, "gic-version=3", &["--cpus", "1", "--cpu", "neoverse-n1"])
        .expect_well("a measurement");
    let arguments = "linmap starts with the boot arguments `run=measure:quick pagesize=64k end=reset`";
    assert!(booted.says(arguments), "{}", booted.console);
    assert_eq!((booted.text("/described_by"), booted.number("/page_size")), ("ACPI", 65536));
    // Both maps are measured.
    assert_eq!(booted.text("/policy"), "park");
    let cells = booted.at("/measure/cells").as_object().expect("cells");
    assert!(
        !cells.is_empty()
            && cells.values().all(|cell| cell["pages"].is_object() && cell["large"].is_object())
    );
}

/// U-Boot finds the application as well. It starts with other regions, and leaves the MMU to the application as it likes.
#[test]
fn by_u_boot() {
    let booted =
        Disk::new("run=selftest").boot(U_BOOT, "virtualization=on", &[]).expect_well("U-Boot, at EL2");
    expect_firmwares_map(&booted);
}

/// U-Boot's `booti` starts the file as it starts Linux, at either level: without services of UEFI, and with all of RAM.
#[test]
fn by_booti() {
    for machine in ["virtualization=off", "virtualization=on"] {
        let options = ["--qemu", QEMU, "--ram", "1G", "--machine", machine, "--run", "selftest"];
        let booted = boot_with(&options, &[("LINMAP_FIRMWARE", U_BOOT)]).expect_well(machine);
        assert!(booted.document.get("efi").is_none(), "{:#}", booted.document);
        assert_eq!(booted.number("/linear/bytes"), 1 << 30);
    }
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

/// Boots a machine without a device tree, as servers are: CPUs, interrupts, console and PSCI are those of the ACPI tables.
fn by_acpi(machine: &str, more: &str) -> Booted {
    let options =
        ["--qemu", QEMU, "--ram", "1G", "--machine", machine, "--cpus", "3", "--run", "cpus,interrupts"];
    let booted = boot_with(&options, &[("LINMAP_MORE", more)]).expect_well(machine);
    assert_eq!((booted.text("/described_by"), booted.text("/machine")), ("ACPI", "BOCHS BXPC"));
    assert_eq!((booted.number("/cpus"), booted.number("/cpus_present")), (3, 3));
    assert!(!booted.says("the ACPI table"), "{}", booted.console);
    expect_firmwares_map(&booted);
    booted
}

#[test]
fn a_machine_with_acpi_alone() {
    assert_eq!(by_acpi("gic-version=2", "").number("/tests/interrupts/gic"), 2);
}

/// RAM of two nodes, and room for more of the second.
#[test]
fn nodes_of_memory_are_those_of_acpi() {
    let nodes = "-m slots=1,maxmem=2G -object memory-backend-ram,id=a,size=512M -numa node,memdev=a,cpus=0 \
                 -object memory-backend-ram,id=b,size=512M -numa node,memdev=b,cpus=1-2";
    let booted = by_acpi("gic-version=3,virtualization=on", nodes);
    assert_eq!(booted.number("/tests/interrupts/gic"), 3);
    assert_eq!(booted.text("/translation_services/0"), "0x8080000");
    let memory =
        |n: usize| (booted.number(&format!("/nodes/{n}/node")), booted.text(&format!("/nodes/{n}/range/0")));
    assert_eq!([memory(0), memory(1)], [(0, "0x40000000"), (1, "0x60000000")]);
    let last = booted.at("/nodes/2");
    assert_eq!((&last["node"], &last["hot_pluggable"]), (&1.into(), &true.into()), "{last}");
}
