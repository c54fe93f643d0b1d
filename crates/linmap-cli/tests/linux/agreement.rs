//! All SOURCEs agree with each other and with QEMU, at every place of the kernel and on every CPU.

use crate::guest::{Guest, Machine, PLAIN, at_hand_16k, named};
use crate::sources::{Read, document, read_by_all};

const SMALL: Machine<'static> = Machine { arguments: "", ram: "1G", ..PLAIN };

fn agree(machine: Machine<'_>) -> Read {
    let mut guest = Guest::boot(machine);
    read_by_all(&mut guest, 1000)
}

#[test]
fn kaslr_6_1() {
    agree(Machine { kernel: "6.1", ..SMALL });
}

#[test]
fn kaslr_6_12_with_a_gdbstub_from_the_start() {
    agree(Machine { stub: true, ..SMALL });
}

#[test]
fn a_kernel_at_el2() {
    agree(Machine { machine: "virt,gic-version=3,virtualization=on", ..SMALL });
}

#[test]
fn a_cpu_without_lpa2_under_a_kernel_for_52_bits() {
    let read = agree(Machine { cpu: "max,pauth-impdef=on,lpa2=off", ..SMALL });
    assert_eq!(read.dump["geometry"]["va_bits"], 48);
}

/// With 16K pages, everything is right, and walks in both directions meet.
#[test]
fn pages_of_16k() {
    for kernel in at_hand_16k() {
        let mut guest = Guest::boot(Machine { kernel, ..SMALL });
        let read = read_by_all(&mut guest, 1000);
        assert_eq!(read.dump["geometry"]["granule"], "16K", "{kernel}: {:#}", read.dump["geometry"]);
        let source = named("qemu:", &guest.qmp());
        assert_eq!(document(&["check", "--json", &source])["count"], 0, "{kernel}");
        let rows = read.dump["rows"].as_array().expect("rows").iter();
        for row in rows.filter(|row| row["region"] == "linear" && row["valid"] == true).step_by(8) {
            let (va, pa) = (row["va"].as_str().expect("va"), row["pa"].as_str().expect("pa"));
            assert_eq!(document(&["walk", "--json", &source, va])["translation"]["pa"], pa, "{kernel}: {va}");
            let found = document(&["walk", "--json", &source, "--pa", pa]);
            let mappings = found["mappings"].as_array().expect("mappings");
            assert!(mappings.iter().any(|mapping| mapping["va"] == va), "{kernel}: {va}: {found:#}");
        }
    }
}

#[test]
fn ram_in_a_shared_file() {
    let more = [
        "-object",
        "memory-backend-file,id=mem,size=1G,mem-path=RAM,share=on",
        "-machine",
        "memory-backend=mem",
    ];
    let read = agree(Machine { more: &more, ..SMALL });
    assert!(
        read.stat["source"].as_str().is_some_and(|source| source.contains("shared file")),
        "{:#}",
        read.stat
    );
}

#[test]
fn ram_in_shared_memory_without_a_name() {
    let more = ["-object", "memory-backend-memfd,id=mem,size=1G,share=on", "-machine", "memory-backend=mem"];
    let read = agree(Machine { kernel: "6.1", more: &more, ..SMALL });
    assert!(
        read.stat["source"].as_str().is_some_and(|source| source.contains("shared file")),
        "{:#}",
        read.stat
    );
}

/// With page-table isolation a CPU in user space has a root of its own in TTBR1.
#[test]
fn cpus_in_user_space_with_isolated_tables() {
    let machine = Machine { kernel: "6.1", arguments: "kpti=on", cpu: "cortex-a72", ..SMALL };
    let mut guest = Guest::boot(machine);
    guest.shell("(while :; do :; done) & (while :; do :; done) &");
    for _ in 0..10 {
        let read = document(&["stat", "--json", &named("qemu:", &guest.qmp())]);
        assert_eq!(read["linear"]["bytes"].as_u64(), Some(1 << 30), "{:#}", read["linear"]);
    }
    guest.shell("kill $!; kill %1");
}
