//! Every page size on CPUs that promise and CPUs that do not, with little RAM and much.

use std::time::Instant;

use dtoolkit::model::DeviceTreeProperty;
use linmap::{Geometry, Granule, Leaves, OaFormat};
use serde_json::{Value, json};

use crate::guest::{AMPERE_ONE, Booted, MAX, boot};
use crate::loader::Loader;
use crate::prediction::Prediction;

fn page_size(granule: Granule) -> &'static str {
    match granule {
        Granule::K4 => "4k",
        Granule::K16 => "16k",
        Granule::K64 => "64k",
    }
}

/// Boots, and compares with the prediction. `more` are options that change neither memory nor geometry.
fn boot_and_compare(granule: Granule, va_bits: u32, cpu: &str, gigabytes: u64, more: &[&str]) -> Booted {
    let started = Instant::now();
    let (ram, bits) = (format!("{gigabytes}G"), va_bits.to_string());
    let what = format!("{granule} pages, {va_bits} VA bits, {cpu}, {ram} {more:?}");
    let mut options =
        vec!["--page-size", page_size(granule), "--va-bits", &bits, "--cpu", cpu, "--ram", &ram];
    options.extend(more);
    let booted = boot(&options).expect_well(&what);
    let leaves = if booted.text("/policy") == "pages" { Leaves::Pages } else { Leaves::Largest };
    let geometry = Geometry::new(granule, va_bits, OaFormat::Bits48).expect("a geometry");
    Prediction::new(geometry, gigabytes << 30, leaves, &booted).check(&booted, &what);
    println!("{what}: {:.1} s", started.elapsed().as_secs_f32());
    booted
}

fn sizes_of_ram(granule: Granule) {
    for (cpu, mode, policy) in [(AMPERE_ONE, 1, "live"), (MAX, 2, "pages")] {
        for gigabytes in [1, 4, 12, 300] {
            let booted = boot_and_compare(granule, 48, cpu, gigabytes, &[]);
            assert_eq!((booted.number("/mode"), booted.text("/policy")), (mode, policy));
            assert_eq!(booted.number("/linear/bytes"), gigabytes << 30);
            assert_eq!((booted.number("/cpus"), booted.number("/cpus_present")), (1, 4));
        }
    }
}

#[test]
fn pages_of_4k() {
    sizes_of_ram(Granule::K4);
}

#[test]
fn pages_of_16k() {
    sizes_of_ram(Granule::K16);
}

#[test]
fn pages_of_64k() {
    sizes_of_ram(Granule::K64);
}

/// The smallest root tables, the shortest walks, and all in between.
#[test]
fn every_va_size() {
    for (granule, va_bits) in [
        (Granule::K4, 36),
        (Granule::K4, 39),
        (Granule::K4, 40),
        (Granule::K16, 36),
        (Granule::K16, 42),
        (Granule::K16, 47),
        (Granule::K64, 36),
        (Granule::K64, 42),
        (Granule::K64, 43),
    ] {
        boot_and_compare(granule, va_bits, AMPERE_ONE, 3, &[]);
        boot_and_compare(granule, va_bits, MAX, 3, &[]);
    }
}

/// RAM that the half does not reach is left out, and said to be.
#[test]
fn ram_beyond_the_half() {
    let booted = boot_and_compare(Granule::K4, 36, AMPERE_ONE, 40, &[]);
    assert_eq!(booted.number("/linear/dropped_bytes"), 8 << 30);
    assert!(booted.says("8 GiB of RAM are beyond the linear map's reach"), "{}", booted.console);
}

/// Only the carve-out is in pages; its neighbours keep their blocks.
#[test]
fn a_crash_kernel_pays_for_itself_alone() {
    for granule in Granule::ALL {
        let single_pages = |more: &[&str]| {
            let booted = boot_and_compare(granule, 48, AMPERE_ONE, 4, more);
            let is_single = |l: &&Value| l["size"] == granule.page_size() && l["contiguous"] == false;
            let single = booted.at("/linear/leaves").as_array().and_then(|l| l.iter().find(is_single));
            let count = single.and_then(|l| l["descriptors"].as_u64()).unwrap_or(0);
            (count, booted.at("/memory/carve_outs").clone())
        };
        let (without, none) = single_pages(&[]);
        let (with, carved) = single_pages(&["--crashkernel", "512M@0x80000000"]);
        assert_eq!((none, carved), (json!([]), json!([["0x80000000", "0xa0000000"]])));
        assert_eq!(with - without, (512 << 20) / granule.page_size());
    }
    boot_and_compare(Granule::K4, 48, AMPERE_ONE, 4, &["--crashkernel", "64M"]);
}

/// With less than rodata=full no leaf changes size, so any CPU may have large ones.
#[test]
fn without_rodata_full_leaves_are_large_on_any_cpu() {
    for rodata in ["on", "noalias"] {
        let booted = boot_and_compare(Granule::K4, 48, MAX, 4, &["--rodata", rodata]);
        assert_eq!((booted.text("/policy"), booted.text("/rodata")), ("fixed", "on"));
    }
    let booted = boot(&["--rodata", "off", "--ram", "4G"]).expect_well("rodata=off");
    assert_eq!(booted.text("/policy"), "fixed");
    assert!(!booted.dump().contains(" ro "), "{}", booted.dump());
}

#[test]
fn the_promise_can_be_turned_off() {
    let booted = boot_and_compare(Granule::K4, 48, AMPERE_ONE, 1, &["--bbml2", "off"]);
    assert_eq!((booted.number("/mode"), booted.text("/policy")), (2, "pages"));
    assert!(booted.text("/mode_reason").starts_with("bbml2=off"));
}

/// Started at EL2, by a loader that also starts hypervisors.
#[test]
fn from_el2() {
    for granule in Granule::ALL {
        boot_and_compare(granule, 48, AMPERE_ONE, 1, &["--machine", "virtualization=on"]);
    }
}

/// A loader at EL2 may leave anything in the registers that EL1 starts with.
#[test]
fn from_el2_with_odd_registers() {
    let at_el2 = ["--machine", "virtualization=on", "--cpu", MAX];
    let cases: [(&str, &[u32]); 2] = [
        // mov x1, #1; msr sctlr_el1, x1: an MMU that is on as soon as EL1 runs.
        ("an MMU that is on", &[0xd280_0021, 0xd518_1001]),
        // mov x1, #0xac30; movk x1, #0xc00f, lsl 16; msr vpidr_el2, x1: another CPU's name.
        ("another CPU's name", &[0xd295_8601, 0xf2b8_01e1, 0xd51c_0001]),
    ];
    for (what, code) in cases {
        // At EL2 this machine's firmware is called by SMC, which its tree, of a machine without, does
        // not say.
        let loader = Loader::new().first(code).tree(|tree| {
            let psci = tree.find_node_mut("/psci").expect("QEMU's tree has PSCI");
            psci.add_property(DeviceTreeProperty::new("method", &b"smc\0"[..]).expect("a property"));
        });
        let booted = loader.boot_with(&at_el2).expect_well(what);
        assert_eq!((booted.text("/cpu/name"), booted.number("/mode")), ("QEMU max", 2), "{what}");
    }
}

/// Memory types are as the dump names them where there are allocation tags, too.
#[test]
fn with_allocation_tags() {
    let booted = boot_and_compare(Granule::K4, 48, MAX, 1, &["--machine", "mte=on"]);
    assert!(booted.dump().contains("MEM/NORMAL-TAGGED"));
}

#[test]
fn cpus_of_yesterday() {
    for cpu in ["cortex-a53", "cortex-a57", "cortex-a72", "cortex-a76", "neoverse-n1"] {
        for granule in [Granule::K4, Granule::K64] {
            let booted = boot_and_compare(granule, 48, cpu, 1, &[]);
            assert_eq!(booted.text("/policy"), "pages");
        }
    }
}
