//! Several CPUs: all usable ones run, the others are named, and their promises decide mode and policy.

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use linmap::Granule;
use serde_json::json;

use crate::guest::{AMPERE_ONE, Booted, MAX, boot};
use crate::loader::{Loader, reserved};
use crate::matrix::{boot_and_compare, page_size};

/// Fails unless all CPUs ran and worked.
fn expect_all(booted: &Booted, cpus: u64, what: &str) {
    let running = (booted.number("/cpus"), booted.number("/cpus_present"));
    assert_eq!(running, (cpus, cpus), "{what}");
    assert_eq!(booted.at("/refused"), &json!([]), "{what}");
    assert_eq!((booted.number("/tests/cpus/cpus"), booted.number("/tests/cpus/wrong")), (cpus, 0), "{what}");
    for cpu in 0..cpus {
        let said = booted.console.matches(&format!("cpus: CPU {cpu} has MPIDR 0x")).count();
        assert_eq!(said, 1, "{what}: {}", booted.console);
    }
}

/// At every page size, from either exception level, under either controller.
#[test]
fn all_cpus_work() {
    for granule in Granule::ALL {
        for machine in ["gic-version=2", "gic-version=3", "gic-version=3,virtualization=on"] {
            for cpus in [1, 2, 4] {
                let what = format!("{granule} pages, {machine}, {cpus} CPUs");
                let number = cpus.to_string();
                let fixed = ["--ram", "1G", "--run", "cpus", "--page-size", page_size(granule)];
                let options = [&fixed[..], &["--machine", machine, "--cpus", &number]].concat();
                expect_all(&boot(&options).expect_well(&what), cpus, &what);
            }
        }
    }
}

#[test]
fn all_cpus_work_at_every_va_size() {
    for (granule, va_bits) in
        [(Granule::K4, "36"), (Granule::K4, "52"), (Granule::K16, "52"), (Granule::K64, "52")]
    {
        for cpu in [AMPERE_ONE, MAX] {
            let fixed = ["--ram", "3G", "--run", "cpus", "--page-size", page_size(granule)];
            let options = [&fixed[..], &["--va-bits", va_bits, "--cpu", cpu]].concat();
            expect_all(&boot(&options).expect_well(va_bits), 4, va_bits);
        }
    }
}

/// RAM far above the image: the 1:1 map of a CPU that comes up reaches it.
#[test]
fn all_cpus_work_with_much_ram_and_with_allocation_tags() {
    for more in [["--ram", "1024G"], ["--machine", "mte=on"]] {
        let options = [&["--run", "cpus", "--cpu", MAX, "--rodata", "on"][..], &more].concat();
        expect_all(&boot(&options).expect_well(more[1]), 4, more[1]);
    }
}

/// The 1:1 map reaches RAM and devices, not all that a linear map could have.
#[test]
fn all_cpus_with_few_physical_address_bits_work() {
    for cpu in ["cortex-a53", "cortex-a72", "neoverse-n1"] {
        let options = ["--ram", "1G", "--run", "cpus", "--cpu", cpu];
        expect_all(&boot(&options).expect_well(cpu), 4, cpu);
    }
}

/// More than 123 CPUs have their redistributors in two regions, and more than 16 are in several clusters: Aff1 tells them apart.
#[test]
fn a_hundred_and_sixty_cpus_work() {
    let booted = boot(&["--count", "--ram", "1G", "--run", "cpus", "--cpus", "160"]).expect_well("160 CPUs");
    expect_all(&booted, 160, "160 CPUs");
    assert!(booted.says("cpus: CPU 159 has MPIDR 0x90f"), "{}", booted.console);
}

#[test]
fn fewer_can_be_asked_for() {
    for (asked, cpus) in [("1", 1), ("3", 3), ("9", 4)] {
        let booted = boot(&["--ram", "1G", "--run", "cpus", "--append", &format!("cpus={asked}")]);
        let booted = booted.expect_well(asked);
        assert_eq!((booted.number("/cpus"), booted.number("/cpus_present")), (cpus, 4));
        assert_eq!(booted.at("/refused"), &json!([]));
    }
}

/// Returns mode, policy and running CPUs with these options, and the reason.
fn decision(more: &[&str]) -> (u64, String, u64, String) {
    let booted = boot_and_compare(Granule::K4, 48, AMPERE_ONE, 1, &[more, &["--run", "dump,cpus"]].concat());
    let (policy, reason) = (booted.text("/policy").to_owned(), booted.text("/mode_reason").to_owned());
    (booted.number("/mode"), policy, booted.number("/cpus"), reason)
}

#[test]
fn who_promises_makes_mode_and_policy() {
    let rows = [
        ("auto", "pages", "full", (1, "live", 4), "AmpereOne never aborts"),
        ("off", "pages", "full", (2, "pages", 4), "bbml2=off: no CPU is taken to never abort; rodata=full"),
        (
            "off",
            "park",
            "full",
            (2, "park", 4),
            "bbml2=off: no CPU is taken to never abort; leaves are split",
        ),
        ("0", "park", "full", (2, "park", 4), "bbml2=off"),
        ("boot-cpu", "park", "full", (3, "park", 4), ", but bbml2=boot-cpu does not take CPU 1 for one that"),
        (
            "2",
            "park",
            "full",
            (3, "park", 4),
            ", but bbml2=2 does not take CPU 2 for one that does so; leaves are",
        ),
        (
            "boot-cpu",
            "pages",
            "full",
            (3, "pages", 4),
            ", but bbml2=boot-cpu does not take CPU 1 for one that",
        ),
        (
            "3",
            "pages",
            "full",
            (3, "pages", 4),
            ", but bbml2=3 does not take CPU 3 for one that does so; rodata",
        ),
        ("4", "park", "full", (1, "live", 4), "leaves can be split while they are in use"),
        ("boot-cpu", "pages", "on", (3, "fixed", 4), "rodata is not full"),
        ("off", "park", "off", (2, "fixed", 4), "rodata is not full"),
    ];
    for (bbml2, split, rodata, expected, because) in rows {
        let what = format!("bbml2={bbml2} split={split} rodata={rodata}");
        let options = ["--bbml2", bbml2, "--split", split, "--rodata", rodata];
        if rodata == "off" {
            let booted = boot(&[&options[..], &["--ram", "1G"]].concat()).expect_well(&what);
            assert_eq!((booted.number("/mode"), booted.text("/policy")), (2, "fixed"), "{what}");
            continue;
        }
        let (mode, policy, cpus, reason) = decision(&options);
        assert_eq!((mode, &*policy, cpus), expected, "{what}");
        assert!(reason.contains(because), "{what}: {reason}");
    }
}

/// The map is in large leaves, and there is no memory for one in pages: a CPU that may abort stays out, and
/// everything else works.
#[test]
fn cpus_without_what_the_system_relies_on_are_refused() {
    let (ram, size) = (0x4000_0000, 1024 << 30);
    let loader = Loader::new().bootargs("run=cpus,dump bbml2=3").memory(&[(ram, size)]).tree(|tree| {
        for mpidr in [1, 2, 3] {
            cpu(tree, mpidr, &[("enable-method", b"psci\0")]);
        }
        // All but the first half of a gigabyte.
        tree.root.add_child(reserved(&[(ram + (1 << 29), size - (1 << 29))]));
    });
    let booted = loader.boot_with(&["--cpus", "4"]).expect_well("three of four promise");
    assert_eq!((booted.number("/mode"), booted.text("/policy"), booted.number("/cpus")), (1, "live", 3));
    let why = booted.text("/refused/0/why");
    assert!(why.starts_with("is not taken to never abort, and the map cannot become pages: out of"), "{why}");
    assert_eq!(booted.number("/refused/0/cpu"), 3);
    assert!(
        booted.says("warning: CPU 3 (MPIDR 0x3, AmpereOne) does not run: it is not taken"),
        "{}",
        booted.console
    );
}

/// Adds a CPU to a device tree.
fn cpu(tree: &mut DeviceTree, mpidr: u8, properties: &[(&str, &[u8])]) {
    let cpus = tree.find_node_mut("/cpus").expect("QEMU's tree has CPUs");
    let mut node = DeviceTreeNode::new(format!("cpu@{mpidr:x}")).expect("a node");
    let reg = [0, 0, 0, mpidr];
    for (name, value) in [&[("device_type", &b"cpu\0"[..]), ("reg", &reg)], properties].concat() {
        node.add_property(DeviceTreeProperty::new(name, value).expect("a property"));
    }
    cpus.add_child(node);
}

/// CPUs that are missing, not to be used, or not started by PSCI; one of them runs.
#[test]
fn cpus_that_can_not_be_started_are_named() {
    const PSCI: (&str, &[u8]) = ("enable-method", b"psci\0");
    let loader = Loader::new().bootargs("run=cpus").tree(|tree| {
        cpu(tree, 1, &[PSCI, ("status", b"disabled\0")]);
        cpu(tree, 2, &[("enable-method", b"spin-table\0")]);
        cpu(tree, 3, &[PSCI]);
        cpu(tree, 0x77, &[PSCI]);
    });
    let booted = loader.boot_with(&["--cpus", "4"]).expect_well("two CPUs of five");
    assert_eq!((booted.number("/cpus"), booted.number("/cpus_present")), (2, 5));
    for said in [
        "warning: cpu@1: its status is 'disabled'; left out",
        "warning: the CPU with MPIDR 0x2 is not started: not by PSCI",
        "warning: CPU 2 (MPIDR 0x77, unknown CPU) does not run: it is not known to the firmware",
        "cpus: CPU 1 has MPIDR 0x3",
    ] {
        assert!(booted.says(said), "{said}: {}", booted.console);
    }
    assert_eq!(booted.at("/refused/0/mpidr"), "0x77");
}

/// Code that lets CPUs wait as firmware with a spin table does, each for an address at a place of its own. It calls PSCI for
/// that, which the kernel is not told of.
fn spin_table(cpus: &[(u32, u32)]) -> Vec<u32> {
    let mut code = vec![
        0x1400_0006, // b .+24
        0xf940_0004, // the loop: ldr x4, [x0]
        0xb500_0064, // cbnz x4, .+12
        0xd503_205f, // wfe
        0x17ff_fffd, // b .-12
        0xd61f_0080, // br x4
    ];
    for (mpidr, place) in cpus {
        let mov = |register: u32, half: u32| 0xd280_0000 | half << 5 | register;
        let movk = |register: u32, half: u32| 0xf2a0_0000 | half << 5 | register;
        code.extend([mov(0, 3), movk(0, 0xc400), mov(1, *mpidr)]); // PSCI CPU_ON
        let back = 1_u32.wrapping_sub(code.len() as u32) & 0x7_ffff;
        code.push(0x1000_0000 | back << 5 | 2); // adr x2, the loop
        code.extend([mov(3, place & 0xffff), movk(3, place >> 16), 0xd400_0002]); // hvc #0
    }
    code
}

/// Firmware without PSCI: a CPU comes in, one without a redistributor leaves again and sleeps, and one waits where no RAM is. The
/// console is what a machine that follows the Base System Architecture has.
#[test]
fn cpus_of_a_spin_table_come_and_go() {
    const PLACES: [u32; 3] = [0x4900_0000, 0x4900_0008, 0x900];
    let code = spin_table(&[(1, PLACES[0]), (2, PLACES[1])]);
    let loader = Loader::new().first(&code).bootargs("run=cpus,selftest").tree(|tree| {
        for (mpidr, place) in (1..).zip(PLACES) {
            let place = u64::from(place).to_be_bytes();
            cpu(tree, mpidr, &[("enable-method", b"spin-table\0"), ("cpu-release-addr", &place)]);
        }
        tree.root.add_child(reserved(&[(PLACES[0].into(), 0x1000)]));
        let uart = tree.find_node_mut("/pl011@9000000").expect("QEMU's tree has a console");
        let generic = DeviceTreeProperty::new("compatible", &b"arm,sbsa-uart\0"[..]).expect("a property");
        uart.add_property(generic);
        let gic = tree.find_node_mut("/intc@8000000").expect("QEMU's tree has a GICv3");
        let reg = [0x800_0000u64, 0x1_0000, 0x80a_0000, 0x4_0000].map(u64::to_be_bytes).concat();
        gic.add_property(DeviceTreeProperty::new("reg", reg.as_slice()).expect("a property"));
    });
    let booted = loader.boot_with(&["--cpus", "4"]).expect_well("two CPUs of four");
    assert_eq!((booted.number("/cpus"), booted.number("/cpus_present")), (2, 4));
    assert!(booted.says("cpus: CPU 1 has MPIDR 0x1"), "{}", booted.console);
    assert_eq!(booted.at("/refused/0/why"), "takes no interrupts, so nothing wakes it");
    assert_eq!(
        booted.at("/refused/1/why"),
        "is not started: its release address 0x900 is not in RAM that is mapped"
    );
}

/// There is a redistributor for the first alone.
#[test]
fn a_cpu_without_interrupts_leaves_again() {
    let loader = Loader::new().bootargs("run=cpus,selftest").tree(|tree| {
        cpu(tree, 1, &[("enable-method", b"psci\0")]);
        let gic = tree.find_node_mut("/intc@8000000").expect("QEMU's tree has a GICv3");
        let reg = [0x800_0000u64, 0x1_0000, 0x80a_0000, 0x2_0000].map(u64::to_be_bytes).concat();
        gic.add_property(DeviceTreeProperty::new("reg", reg.as_slice()).expect("a property"));
    });
    let booted = loader.boot_with(&["--cpus", "2"]).expect_well("one CPU of two");
    assert_eq!(booted.number("/cpus"), 1);
    assert!(booted.says("no redistributor belongs to MPIDR 0x1"), "{}", booted.console);
    assert_eq!(booted.at("/refused/0/why"), "takes no interrupts, so nothing wakes it");
}

/// A run can end on any CPU, and on several at once: there is one complete report.
#[test]
fn a_fault_of_any_cpu_is_reported_once() {
    for (task, said) in [
        ("fault-all", "synchronous exception (data abort: read of an address that is not mapped): ESR 0x"),
        ("overflow-last", "the stack has run over: this is the guard below it"),
    ] {
        for cpus in ["1", "2", "4"] {
            let booted = boot(&["--ram", "1G", "--run", task, "--cpus", cpus]);
            assert_eq!(booted.status, Some(2), "{task}, {cpus} CPUs: {}", booted.console);
            assert_eq!(booted.console.matches("linmap cannot go on: ").count(), 1, "{}", booted.console);
            let own_stack = task == "overflow-last" && cpus == "1";
            assert!(booted.says(said) || own_stack, "{task}, {cpus} CPUs: {}", booted.console);
            assert!(booted.text("/fault").contains(", CPU "), "{}", booted.console);
        }
    }
}
