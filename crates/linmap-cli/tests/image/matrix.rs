//! Every page size on CPUs with and without the promise never to abort, with little RAM and much.

use std::time::Instant;

use dtoolkit::model::{DeviceTreeNode, DeviceTreeProperty};
use linmap::{Geometry, Granule, Leaves, OaFormat};
use serde_json::{Value, json};

use crate::guest::{AMPERE_ONE, Booted, MAX, boot};
use crate::loader::Loader;
use crate::prediction::Prediction;

/// The options on CPUs and splits, and the mode and the policy that follow.
pub(crate) type Row = (&'static [&'static str], u64, &'static str);

/// The modes in which leaves can change their size, with AmpereOne.
pub(crate) const MODES: [Row; 5] = [
    (&["--bbml2", "auto"], 1, "live"),
    (&["--bbml2", "off", "--split", "pages"], 2, "pages"),
    (&["--bbml2", "off", "--split", "park"], 2, "park"),
    (&["--bbml2", "3", "--split", "pages"], 3, "pages"),
    (&["--bbml2", "boot-cpu", "--split", "park"], 3, "park"),
];

pub(crate) fn page_size(granule: Granule) -> &'static str {
    match granule {
        Granule::K4 => "4k",
        Granule::K16 => "16k",
        Granule::K64 => "64k",
    }
}

/// Large VA sizes come with 52-bit output addresses on QEMU's CPU.
fn format(granule: Granule, va_bits: u32) -> OaFormat {
    match granule {
        _ if va_bits <= 48 => OaFormat::Bits48,
        Granule::K64 => OaFormat::Lpa,
        Granule::K4 | Granule::K16 => OaFormat::Lpa2,
    }
}

/// Boots, and compares with the prediction. `more` are options that change neither memory nor geometry.
pub(crate) fn boot_and_compare(
    granule: Granule,
    va_bits: u32,
    cpu: &str,
    gigabytes: u64,
    more: &[&str],
) -> Booted {
    let started = Instant::now();
    let (ram, bits) = (format!("{gigabytes}G"), va_bits.to_string());
    let what = format!("{granule} pages, {va_bits} VA bits, {cpu}, {ram} {more:?}");
    let mut options =
        vec!["--page-size", page_size(granule), "--va-bits", &bits, "--cpu", cpu, "--ram", &ram];
    options.extend(more);
    let booted = boot(&options).expect_well(&what);
    let leaves = if booted.text("/policy") == "pages" { Leaves::Pages } else { Leaves::Largest };
    let geometry = Geometry::new(granule, va_bits, format(granule, va_bits)).expect("a geometry");
    Prediction::new(geometry, gigabytes << 30, leaves, &booted).check(&booted, &what);
    println!("{what}: {:.1} s", started.elapsed().as_secs_f32());
    booted
}

fn sizes_of_ram(granule: Granule) {
    // Pages take a descriptor each, and so a boot takes time for each.
    for (cpu, mode, policy, largest) in [(AMPERE_ONE, 1, "live", 300), (MAX, 2, "pages", 60)] {
        for gigabytes in [1, 12, largest] {
            let booted = boot_and_compare(granule, 48, cpu, gigabytes, &[]);
            assert_eq!((booted.number("/mode"), booted.text("/policy")), (mode, policy));
            assert_eq!(booted.number("/linear/bytes"), gigabytes << 30);
            assert_eq!((booted.number("/cpus"), booted.number("/cpus_present")), (4, 4));
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
        (Granule::K4, 49),
        (Granule::K4, 52),
        (Granule::K16, 52),
        (Granule::K64, 52),
    ] {
        boot_and_compare(granule, va_bits, AMPERE_ONE, 3, &[]);
        boot_and_compare(granule, va_bits, MAX, 3, &[]);
    }
}

/// RAM beyond the linear map is left out, and reported.
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

/// With less than rodata=full no leaf changes its size, so any CPU can have large ones.
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

/// A loader at EL2 can leave any values in the registers that EL1 starts with.
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
        // At EL2 the firmware of this machine is called by SMC. Its tree is of a machine without EL2, and does not
        // say so.
        let loader = Loader::new().first(code).tree(|tree| {
            let psci = tree.find_node_mut("/psci").expect("QEMU's tree has PSCI");
            psci.add_property(DeviceTreeProperty::new("method", &b"smc\0"[..]).expect("a property"));
        });
        let booted = loader.boot_with(&at_el2).expect_well(what);
        assert_eq!((booted.text("/cpu/name"), booted.number("/mode")), ("QEMU max", 2), "{what}");
    }
}

/// Without LPA2 only the 64K granule goes beyond 48 bits.
#[test]
fn without_lpa2() {
    let cpu = "max,lpa2=off,midr=0xc00fac30";
    boot_and_compare(Granule::K64, 52, cpu, 1, &[]);
    for page_size in ["4k", "16k"] {
        let options = ["--cpu", cpu, "--va-bits", "52", "--page-size", page_size, "--ram", "1G"];
        let booted = boot(&options).expect_well("48 bits will do");
        assert_eq!(booted.number("/va_bits"), 48);
        assert!(booted.says("warning: this CPU has no 52 VA bits with"), "{}", booted.console);
    }
}

#[test]
fn a_terabyte() {
    for granule in Granule::ALL {
        boot_and_compare(granule, 48, AMPERE_ONE, 1024, &[]);
    }
    boot_and_compare(Granule::K64, 52, MAX, 1024, &[]);
}

#[test]
fn with_either_interrupt_controller() {
    for machine in ["gic-version=2", "gic-version=3", "gic-version=2,virtualization=on"] {
        boot_and_compare(Granule::K4, 48, AMPERE_ONE, 1, &["--machine", machine]);
    }
}

/// Permissions, tried by probes that recover: at every page size, from either level, at 52 bits.
#[test]
fn memory_is_protected() {
    for granule in Granule::ALL {
        for more in [&[][..], &["--machine", "virtualization=on"], &["--cpu", MAX], &["--va-bits", "52"]] {
            for rodata in ["full", "on", "off"] {
                let fixed = ["--ram", "1G", "--run", "protection", "--page-size", page_size(granule)];
                let options = [&fixed[..], &["--rodata", rodata], more].concat();
                let booted = boot(&options).expect_well("protected");
                assert_eq!(booted.number("/tests/protection/tried"), 9);
                assert_eq!(booted.number("/tests/self-check/findings"), 0);
            }
        }
    }
}

/// At any address, 2 MiB aligned. (QEMU keeps a device tree of its own at the very start.)
#[test]
fn loaded_anywhere() {
    for at in [0x4020_0000, 0x4760_0000, 0x5fe0_0000, 0x6000_0000, 0x7fc0_0000] {
        for page_size in ["4k", "16k", "64k"] {
            let loader = Loader::new().image_at(at).bootargs(&format!("pagesize={page_size} run=protection"));
            let booted = loader.boot().expect_well(&format!("{page_size} pages, image at {at:#x}"));
            let image = booted.at("/memory/image")[0].as_str().expect("an address").to_owned();
            assert_eq!(image, format!("{at:#x}"));
        }
    }
}

/// Memory in several nodes, with holes between them.
#[test]
fn several_nodes() {
    let loader = Loader::new().tree(|tree| {
        let memory = tree.find_node_mut("/memory@40000000").expect("QEMU's tree has memory");
        let mut second = DeviceTreeNode::new("memory@60000000").expect("a node");
        let reg = |start: u64, size: u64| [start.to_be_bytes(), size.to_be_bytes()].concat();
        let property = |name, value: &[u8]| DeviceTreeProperty::new(name, value).expect("a property");
        memory.add_property(property("reg", &reg(0x4000_0000, 0x1ff0_0000)));
        second.add_property(property("device_type", b"memory\0"));
        second.add_property(property("reg", &reg(0x6000_0000, 0x2000_0000)));
        tree.root.add_child(second);
    });
    let booted = loader.boot().expect_well("two nodes");
    assert_eq!(booted.number("/linear/bytes"), 0x1ff0_0000 + 0x2000_0000);
    assert_eq!(booted.at("/memory/ram").as_array().map(Vec::len), Some(2));
}

/// Memory types have the names of the dump with allocation tags, too.
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
