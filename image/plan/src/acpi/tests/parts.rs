//! Each part of a machine, from tables made for it.

use std::string::{String, ToString};
use std::vec::Vec;

use linmap::Pa;

use super::build::{Cpu, VIRT, cpu, dbg2, fadt, gas, gicc, gicd, gicr, gtdt, its, madt, seal, spcr, srat};
use crate::acpi::{FromLoader, Tables};
use crate::cpus::MAX;
use crate::gic::InterruptController;
use crate::machine::{Conduit, Machine, Source};
use crate::ranges::Ranges;
use crate::serial::{Kind, Uart, Width};
use crate::uart::Consoles;

/// Makes a machine of tables and a gigabyte.
fn machine(file: &[u8]) -> (Machine, Vec<String>) {
    let (mut notes, mut ram) = (Vec::new(), Ranges::new());
    ram.add(Pa(1 << 30)..Pa(2 << 30)).unwrap();
    let mut note = |note: crate::note::Note<'_>| notes.push(note.to_string());
    let given = FromLoader { bootargs: b"run=dump", ram, ..FromLoader::default() };
    let machine = Tables::in_file(file, &mut note).machine(given, &mut note);
    (machine, notes)
}

/// The same of tables without a console, whose absence is not the subject.
fn quiet(tables: &[Vec<u8>]) -> (Machine, Vec<String>) {
    let (machine, mut notes) = machine(&tables.concat());
    notes.retain(|note| !note.starts_with("no console") && !note.ends_with("is missing"));
    (machine, notes)
}

#[test]
fn qemu_s_machine_is_read_without_a_note() {
    let (machine, notes) = machine(VIRT);
    assert_eq!(notes, Vec::<String>::new());
    assert_eq!(
        (&*machine.model, &*machine.bootargs, machine.source),
        ("BOCHS BXPC", "run=dump", Source::Acpi)
    );
    assert_eq!(machine.ram.bytes(), 1 << 30);
    assert_eq!((machine.uart, machine.timer), (Some(Uart::pl011(Pa(0x900_0000))), Some(27)));
    assert_eq!((machine.conduit, machine.cpus.present), (Some(Conduit::Hvc), 3));
    let order = machine.cpus.order(1, None, &mut |note| panic!("{note}"));
    assert_eq!(order[..], [1, 0, 2]);
    let Some(InterruptController::V3 { distributor, redistributors, stride, joined }) = machine.interrupts
    else {
        panic!("QEMU's GICv3")
    };
    assert_eq!(distributor, Pa(0x800_0000)..Pa(0x801_0000));
    assert_eq!((&redistributors[..], stride, joined), (&[Pa(0x80a_0000)..Pa(0x900_0000)][..], None, false));
    assert_eq!(machine.translation_services[..], [Pa(0x808_0000)]);
}

#[test]
fn translation_services_are_listed_once_each() {
    let services = |parts: &[Vec<u8>]| {
        let (machine, notes) =
            quiet(&[madt(&[&[gicd(0x1000, 3), gicr(0x80a_0000, 0x2_0000)], parts].concat())]);
        (machine.translation_services.to_vec(), notes)
    };
    let both = [its(0, 0x808_0000), its(1, 0x1_0808_0000), its(0, 0x808_0000)];
    assert_eq!(services(&both), (Vec::from([Pa(0x808_0000), Pa(0x1_0808_0000)]), Vec::new()));
    let many: Vec<_> = (0..17).map(|n| its(n, u64::from(n) << 20)).collect();
    let (kept, notes) = services(&many);
    assert_eq!(
        (kept.len(), &*notes[0]),
        (16, "the ACPI table APIC has more than 16 ranges; the others are left out")
    );
    let mut short = its(0, 0x808_0000)[..12].to_vec();
    short[1] = 12;
    let (kept, notes) = services(&[short]);
    assert!(kept.is_empty() && notes[0].contains("has a structure of type 15 and 12 bytes"), "{notes:?}");
}

#[test]
fn a_machine_without_tables_has_one_cpu_and_no_more() {
    let (machine, notes) = machine(&[]);
    assert_eq!((machine.uart, machine.conduit, machine.timer), (None, None, None));
    assert_eq!((machine.interrupts, &*machine.model), (None, "unknown machine"));
    assert_eq!(machine.cpus.order(7, None, &mut |note| panic!("{note}"))[..], [7]);
    assert_eq!(notes[1..], ["FACP", "APIC", "GTDT"].map(|t| std::format!("the ACPI table {t} is missing")));
}

#[test]
fn the_conduit_is_the_one_that_the_firmware_names() {
    for (flags, conduit) in [(0, None), (1, Some(Conduit::Smc)), (2, None), (3, Some(Conduit::Hvc))] {
        assert_eq!(quiet(&[fadt(flags)]).0.conduit, conduit, "{flags}");
    }
    let short = quiet(&[seal(fadt(1)[..130].to_vec())]);
    assert_eq!(short.0.conduit, None);
    assert_eq!(short.1, ["the ACPI table FACP has 130 bytes; 131 are the least"]);
}

#[test]
fn the_virtual_timer_is_private() {
    assert_eq!(quiet(&[gtdt(31)]).0.timer, Some(31));
    for intid in [0, 15, 32, u32::MAX] {
        let (machine, notes) = quiet(&[gtdt(intid)]);
        assert!(machine.timer.is_none() && notes[0].contains("16 to 31 are right"), "{notes:?}");
    }
}

#[test]
fn cpus_that_are_not_enabled_or_make_no_sense_are_left_out() {
    let off = |mpidr, flags| Cpu { flags, ..cpu(mpidr) };
    let cpus = [cpu(0x100), off(1, 0), cpu(0x1_00ff_0203), off(2, 8), cpu(0x100), cpu(1 << 31)];
    let parts: Vec<_> = (7..).zip(cpus).map(|(uid, cpu)| gicc(uid, cpu)).collect();
    let (machine, notes) = quiet(&[fadt(1), madt(&parts)]);
    assert_eq!(machine.cpus.present, 4);
    assert_eq!(machine.cpus.order(0x100, None, &mut |n| panic!("{n}"))[..], [0x100, 0x1_00ff_0203]);
    assert_eq!(
        notes,
        [
            "the ACPI table APIC has no distributor",
            "the CPU with UID 11: another CPU has MPIDR 0x100 too; left out",
            "the CPU with UID 12: 0x80000000 is no MPIDR: only Aff3 to Aff0 belong in it; left out",
            "the ACPI table APIC has 2 CPUs that are not enabled; left out",
        ]
    );
    let mut notes = Vec::new();
    let (machine, _) = quiet(&[madt(&parts)]);
    let order = machine.cpus.order(0x100, None, &mut |n| notes.push(n.to_string()));
    assert_eq!(
        (&order[..], &notes[0][..]),
        (
            &[0x100][..],
            "the CPU with MPIDR 0x100ff0203 is not started: not by PSCI, and no spin table has its release address"
        )
    );
}

/// Returns the controller of a distributor and these parts, and the notes.
fn controller(version: u8, parts: &[Vec<u8>]) -> (Option<InterruptController>, Vec<String>) {
    let (machine, notes) = quiet(&[madt(&[&[gicd(0x800_0000, version)], parts].concat())]);
    (machine.interrupts, notes)
}

fn redistributors(version: u8, parts: &[Vec<u8>]) -> (Vec<(u64, u64)>, Option<u64>, bool) {
    let (controller, notes) = controller(version, parts);
    let Some(InterruptController::V3 { redistributors, stride, joined, .. }) = controller else {
        panic!("{controller:?} {notes:?}")
    };
    let bytes = redistributors.iter().map(|r| (r.start.0, r.end.0 - r.start.0)).collect();
    (bytes, stride, joined)
}

#[test]
fn a_gicv2_has_one_cpu_interface_for_all() {
    let cpus = [0, 1].map(|n| gicc(n, Cpu { cpu_interface: 0x801_0000, ..cpu(n.into()) }));
    for version in [0, 1, 2] {
        let expected = InterruptController::V2 {
            distributor: Pa(0x800_0000)..Pa(0x800_1000),
            cpu_interface: Pa(0x801_0000)..Pa(0x801_2000),
        };
        assert_eq!(controller(version, &cpus), (Some(expected), Vec::new()));
    }
    let (none, notes) = controller(2, &[gicc(0, cpu(0))]);
    assert_eq!(none, None);
    assert_eq!(notes, ["the ACPI table APIC names registers that are not those of a GIC"]);
}

/// Single redistributors become few ranges, whatever order they come in.
#[test]
fn redistributors_of_cpus_are_joined() {
    let at = |n: u32, redistributor| gicc(n, Cpu { redistributor, ..cpu(n.into()) });
    let row =
        |stride: u64| -> Vec<_> { (0..300).map(|n| at(n, (1 << 32) + u64::from(n ^ 5) * stride)).collect() };
    // CPU numbers with two bits turned make a row with gaps at its end.
    let (ranges, stride, joined) = redistributors(3, &row(0x2_0000));
    assert_eq!((stride, joined), (Some(0x2_0000), true));
    assert!(ranges.len() <= 2 && ranges[0].0 == 1 << 32, "{ranges:x?}");
    assert_eq!(ranges.iter().map(|r| r.1).sum::<u64>(), 300 * 0x2_0000);
    let (ranges, stride, _) = redistributors(4, &row(0x4_0000));
    assert_eq!((stride, ranges.iter().map(|r| r.1).sum::<u64>()), (Some(0x4_0000), 300 * 0x4_0000));
    // A GICv3 whose redistributors are farther apart than they are long.
    assert_eq!(redistributors(3, &[at(0, 0x1000_0000), at(1, 0x1010_0000)]).0.len(), 2);
    // One alone has as many frames as the version says; two CPUs with the same are one.
    assert_eq!(redistributors(4, &[at(0, 0x1000_0000)]).0, [(0x1000_0000, 0x4_0000)]);
    assert_eq!(redistributors(3, &[at(0, 0x1000_0000), at(1, 0x1000_0000)]).0, [(0x1000_0000, 0x2_0000)]);
}

#[test]
fn ranges_of_redistributors_go_before_single_ones() {
    let single = gicc(0, Cpu { redistributor: 0x1000_0000, ..cpu(0) });
    let parts = [single, gicr(0x80a_0000, 0xf6_0000), gicr(1 << 38, 0x400_0000)];
    for version in [0, 3, 4] {
        let expected = ([(0x80a_0000, 0xf6_0000), (1 << 38, 0x400_0000)].into(), None, false);
        assert_eq!(redistributors(version, &parts), expected);
    }
}

#[test]
fn what_makes_no_sense_in_a_controller_is_named() {
    let (_, notes) = controller(3, &[gicd(0x1000, 3), gicr(0x80a_0000, 0x2_0000)]);
    assert_eq!(notes, ["the ACPI table APIC has several distributors; the first is used"]);
    let (none, notes) = controller(3, &[gicr(u64::MAX - 0xfff, 0x2_0000)]);
    assert!(none.is_none() && notes[0].ends_with("which is beyond all addresses; left out"), "{notes:?}");
    let (none, notes) = controller(3, &[gicr(0x80a_0000, 0x1000)]);
    assert!(none.is_none() && notes[0].contains("not those of a GIC"), "{notes:?}");
    let many: Vec<_> = (0..20).map(|n| gicr(n << 32, 0x2_0000)).collect();
    let (some, notes) = controller(3, &many);
    assert!(some.is_some() && notes[0].contains("has more than 8 ranges"), "{notes:?}");
    // A structure that is cut short, and one of no length, after which nothing can be read.
    let mut short = gicr(0x80a_0000, 0x2_0000)[..12].to_vec();
    short[1] = 12;
    let (_, notes) = controller(3, &[short]);
    assert!(notes[0].ends_with("type 14 and 12 bytes at 0x44; 16 are the least; left out"), "{notes:?}");
    let (_, notes) = controller(3, &[std::vec![0x77, 0], gicr(0x80a_0000, 0x2_0000)]);
    assert!(notes[0].contains("a structure of type 119 and "), "{notes:?}");
}

#[test]
fn more_cpus_than_are_used_are_named() {
    let all: Vec<_> =
        (0..MAX as u32 + 3).map(|n| gicc(n, cpu(u64::from(n >> 4) << 8 | u64::from(n & 15)))).collect();
    let (machine, notes) = quiet(&[fadt(1), madt(&all)]);
    assert_eq!(machine.cpus.present, MAX as u32 + 3);
    assert_eq!(machine.cpus.order(0, None, &mut |n| panic!("{n}")).len(), MAX);
    assert_eq!(notes[1], "3 CPUs left out: 512 are the most that are used");
}

#[test]
fn consoles_of_every_kind() {
    let (byte, word) = (Width::Byte, Width::Word);
    let at = |kind| Some(Uart { kind, registers: Pa(0x900_0000) });
    let port = |shift, width| at(Kind::Ns16550 { shift, width });
    for (kind, bits, access, expected) in [
        (3, 32, 3, at(Kind::Pl011)),
        (0xd, 32, 3, at(Kind::Generic)),
        (0xe, 32, 0, at(Kind::Generic)),
        (0, 8, 1, port(0, byte)),
        (0x12, 8, 0, port(0, byte)),
        (1, 32, 3, port(2, word)),
        (0x12, 32, 1, port(2, byte)),
        (0x12, 32, 0, port(2, word)),
        (0x12, 8, 3, port(2, word)),
        (0x12, 64, 1, None),
        (0x12, 32, 4, None),
        (0x10, 32, 3, None),
    ] {
        let (machine, notes) = machine(&spcr(kind, gas(0, bits, access, 0x900_0000)));
        assert_eq!(machine.uart, expected, "{kind} {bits} {access}");
        assert_eq!(
            notes[0].starts_with("the ACPI table SPCR names no console"),
            expected.is_none(),
            "{notes:?}"
        );
    }
    // Ports of a bus of x86, and no port at all, which is no fault.
    assert_eq!(machine(&spcr(0, gas(1, 8, 1, 0x3f8))).0.uart, None);
    let (machine, notes) = machine(&spcr(3, gas(0, 32, 3, 0)));
    assert!(machine.uart.is_none() && notes[0].starts_with("no console is named"), "{notes:?}");
}

/// A port at any other address than those that tables name is not known.
#[test]
fn no_console_is_tried_that_no_table_names() {
    let consoles = |file: &[u8]| Consoles::new(&machine(file).0, 40, &mut |note| panic!("{note}"));
    assert_eq!(consoles(&[]), Consoles { named: None, fallback: None });
    let named = Some(Uart::pl011(Pa(0x900_0000)));
    assert_eq!(consoles(VIRT), Consoles { named, fallback: None });
}

#[test]
fn without_a_console_the_debug_port_is_one() {
    let ports = [
        (0x8003, 0, gas(0, 32, 3, 0x1000)),
        (0x8000, 0x10, gas(0, 32, 3, 0x2000)),
        (0x8000, 3, gas(0, 32, 3, 0x3000)),
    ];
    let (found, notes) = machine(&dbg2(&ports));
    assert_eq!(found.uart, Some(Uart::pl011(Pa(0x3000))));
    assert_eq!(notes[0], "the ACPI table DBG2 names no console that can be used: a port of type 0x10");
    let both = [dbg2(&ports), spcr(3, gas(0, 32, 3, 0x900_0000))].concat();
    assert_eq!(machine(&both).0.uart, Some(Uart::pl011(Pa(0x900_0000))));
    // Devices that go on for ever.
    let mut endless = dbg2(&ports[..1]);
    endless[40..44].fill(0xff);
    endless[45..47].fill(0);
    assert_eq!(machine(&seal(endless)).0.uart, None);
}

#[test]
fn memory_has_a_node() {
    let gib = 1u64 << 30;
    let ranges =
        [(0, gib, gib, 1), (1, 4 * gib, 8 * gib, 3), (2, 0, gib, 0), (3, u64::MAX, 2, 1), (4, 0, 0, 1)];
    let (machine, notes) = quiet(&[srat(&ranges)]);
    let nodes: Vec<_> = machine.nodes.iter().map(|n| (n.node, n.range.start.0, n.hot_pluggable)).collect();
    assert_eq!(nodes, [(0, gib, false), (1, 4 * gib, true)]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    let many: Vec<_> = (0..70).map(|n| (n, u64::from(n) * gib, gib, 1)).collect();
    let (machine, notes) = quiet(&[srat(&many)]);
    assert_eq!(machine.nodes.len(), 64);
    assert_eq!(notes, ["the ACPI table SRAT has more than 64 ranges; the others are left out"]);
}
