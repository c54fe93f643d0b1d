//! Interrupts under each controller, and machines that have none or describe them wrongly.

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use linmap::Granule;

use crate::guest::{Booted, boot};
use crate::loader::Loader;
use crate::matrix::page_size;

/// Timers tick, CPUs reach each other, and interrupted code is not affected; from either exception level.
#[test]
fn they_come_and_disturb_nothing() {
    for gic in [2, 3] {
        for more in ["", ",virtualization=on"] {
            for granule in Granule::ALL {
                let machine = format!("gic-version={gic}{more}");
                let page_size = page_size(granule);
                let options = ["--run", "interrupts", "--ram", "1G", "--page-size", page_size];
                let what = format!("{granule} pages, {machine}");
                let booted = boot(&[&options[..], &["--machine", &machine]].concat()).expect_well(&what);
                let test = booted.at("/tests/interrupts");
                assert_eq!((&test["gic"], &test["cpus"]), (&gic.into(), booted.at("/cpus")), "{what}");
                assert!(booted.number("/tests/interrupts/ticks") >= 5, "{what}");
            }
        }
    }
}

/// The only CPU has no place among the targets of a GICv2.
#[test]
fn one_cpu_reaches_itself() {
    for machine in ["gic-version=2", "gic-version=3"] {
        let options = ["--run", "interrupts", "--ram", "1G", "--cpus", "1", "--machine", machine];
        boot(&options).expect_well(machine);
    }
}

/// Counts hold no tick, however long the run; time then passes by instructions.
#[test]
fn they_come_while_instructions_are_counted() {
    let booted = boot(&["--count", "--run", "interrupts,bench", "--ram", "1G"]).expect_well("counted");
    assert_eq!(booted.at("/windows/protect_page/isb"), 1);
}

/// Boots a machine of two CPUs with a changed tree.
fn boot_with(change: impl FnOnce(&mut DeviceTree)) -> Booted {
    let two = |tree: &mut DeviceTree| {
        let cpus = tree.find_node_mut("/cpus").expect("QEMU's tree has CPUs");
        let mut second = DeviceTreeNode::new("cpu@1").expect("a node");
        let properties: [(&str, &[u8]); 3] =
            [("device_type", b"cpu\0"), ("reg", &[0, 0, 0, 1]), ("enable-method", b"psci\0")];
        for (name, value) in properties {
            second.add_property(DeviceTreeProperty::new(name, value).expect("a property"));
        }
        cpus.add_child(second);
    };
    Loader::new().tree(two).tree(change).bootargs("run=selftest").boot_with(&["--cpus", "2"])
}

fn set(tree: &mut DeviceTree, path: &str, name: &str, value: &[u8]) {
    let node = tree.find_node_mut(path).expect("QEMU's tree has it");
    node.add_property(DeviceTreeProperty::new(name, value).expect("a property"));
}

/// Returns two ranges of registers: address and size.
fn registers(distributor: (u64, u64), redistributors: (u64, u64)) -> Vec<u8> {
    let numbers = [distributor.0, distributor.1, redistributors.0, redistributors.1];
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

/// The nodes that the next test removes are enough for both CPUs.
#[test]
fn with_a_controller_both_run() {
    let booted = boot_with(|_| ()).expect_well("two CPUs");
    assert_eq!(booted.number("/cpus"), 2);
}

/// Everything else works without it, and it is named.
#[test]
fn without_a_controller_one_cpu_runs() {
    const GIC: &str = "/intc@8000000";
    type Wrong = fn(&mut DeviceTree);
    let cases: [(Wrong, &str); 6] = [
        (|tree| _ = tree.root.remove_child("intc@8000000"), "the device tree has no GICv2 and no GICv3"),
        (
            |tree| _ = tree.root.remove_child("timer"),
            "the device tree does not say which interrupt the virtual timer has",
        ),
        (
            |tree| set(tree, GIC, "reg", &registers((0x800_0000, 0x100), (0x80a_0000, 0xf6_0000))),
            "the device tree has no GICv2 and no GICv3",
        ),
        (
            |tree| set(tree, GIC, "reg", &registers((0x5000_0000, 0x1_0000), (0x80a_0000, 0xf6_0000))),
            "no interrupt controller can be at 0x50000000..0x50010000: that is RAM or no address",
        ),
        (
            |tree| set(tree, GIC, "reg", &registers((0x800_0000, 0x1_0000), (1 << 60, 0xf6_0000))),
            "no interrupt controller can be at 0x1000000000000000..0x1000000000f60000: that is RAM or no address",
        ),
        // The boot CPU's is left out.
        (
            |tree| set(tree, GIC, "reg", &registers((0x800_0000, 0x1_0000), (0x80c_0000, 0x2_0000))),
            "no redistributor belongs to MPIDR 0x0",
        ),
    ];
    for (change, why) in cases {
        let booted = boot_with(change).expect_well(why);
        assert!(booted.says(&format!("warning: no interrupts: {why}\n")), "{why}: {}", booted.console);
        assert!(booted.says("warning: the other CPUs are not started: without"), "{why}: {}", booted.console);
        assert_eq!((booted.number("/cpus"), booted.number("/tests/selftest/wrong")), (1, 0), "{why}");
    }
}
