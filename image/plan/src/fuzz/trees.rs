//! Device trees for tests: QEMU's, with changes.

use std::format;
use std::vec::Vec;

use dtoolkit::fdt::Fdt;
use dtoolkit::memreserve::MemoryReservation;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

use super::boot::VIRT;

pub(super) fn set(node: &mut DeviceTreeNode, name: &str, value: &[u8]) {
    node.add_property(DeviceTreeProperty::new(name, value).expect("a property"));
}

pub(super) fn cells(ranges: &[(u64, u64)]) -> Vec<u8> {
    ranges.iter().flat_map(|r| [r.0.to_be_bytes(), r.1.to_be_bytes()].concat()).collect()
}

/// A reserved range, and whether it must not be mapped.
pub(super) type Reserved = (u64, u64, bool);

/// Makes QEMU's machine with other memory, reservations and boot arguments.
pub(super) fn tree(
    ram: &[(u64, u64)],
    reserved: &[Reserved],
    memreserve: &[(u64, u64)],
    line: &[u8],
) -> DeviceTree {
    let mut tree = DeviceTree::from_fdt(&Fdt::new(VIRT).expect("QEMU's tree"));
    let root = &mut tree.root;
    set(root.child_mut("memory@40000000").expect("memory"), "reg", &cells(ram));
    set(root.child_mut("chosen").expect("chosen"), "bootargs", line);
    let mut all = DeviceTreeNode::new("reserved-memory").expect("a node");
    set(&mut all, "#address-cells", &[0, 0, 0, 2]);
    set(&mut all, "#size-cells", &[0, 0, 0, 2]);
    for (i, (start, size, no_map)) in reserved.iter().enumerate() {
        let mut node = DeviceTreeNode::new(format!("r@{i}")).expect("a node");
        set(&mut node, "reg", &cells(&[(*start, *size)]));
        if *no_map {
            set(&mut node, "no-map", &[]);
        }
        all.add_child(node);
    }
    root.add_child(all);
    let entries = memreserve.iter().map(|(start, size)| MemoryReservation::new(*start, *size));
    tree.memory_reservations = entries.collect();
    tree
}

/// Moves the console and the interrupt controller behind two buses. The second has one cell for each.
pub(super) fn behind_buses(tree: &mut DeviceTree) {
    let mut bus = DeviceTreeNode::new("bus").expect("a node");
    for (name, at) in [("pl011@9000000", 0x900_0000u32), ("intc@8000000", 0x800_0000)] {
        let mut node = tree.root.remove_child(name).expect("QEMU has it");
        let reg = [at - 0x700_0000, 0x1_0000, at - 0x6ff_0000, 0x1_0000];
        set(&mut node, "reg", &reg.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
        bus.add_child(node);
    }
    let mut soc = DeviceTreeNode::new("soc").expect("a node");
    for (node, cells, ranges) in [
        (&mut bus, [0, 0, 0, 1], &[0x100_0000u32, 0, 0, 0x200_0000][..]),
        (&mut soc, [0, 0, 0, 2], &[0, 0, 0, 0x800_0000, 0, 0x200_0000]),
    ] {
        set(node, "#address-cells", &cells);
        set(node, "#size-cells", &cells);
        set(node, "ranges", &ranges.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
    }
    soc.add_child(bus);
    tree.root.add_child(soc);
    let mut aliases = DeviceTreeNode::new("aliases").expect("a node");
    set(&mut aliases, "serial0", b"/soc/bus/pl011@9000000\0");
    tree.root.add_child(aliases);
    set(tree.find_node_mut("/chosen").expect("chosen"), "stdout-path", b"serial0\0");
}
