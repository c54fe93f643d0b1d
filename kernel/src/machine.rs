//! The machine that a device tree describes, as far as this kernel uses it.
//!
//! The tree comes from a boot loader and is not trusted: what does not make sense is named and left out.

use core::fmt;
use core::ops::Range;

use arrayvec::ArrayString;
use dtoolkit::error::FdtParseError;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use linmap::Pa;

use crate::ranges::{CAPACITY, Full, Ranges};

/// How the firmware is called (Arm SMCCC).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conduit {
    /// By HVC.
    Hvc,
    /// By SMC.
    Smc,
}

/// What the device tree says; nothing here points into it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The name of the machine.
    pub model: ArrayString<64>,
    /// The boot arguments.
    pub bootargs: ArrayString<2048>,
    /// RAM, without what must not be mapped.
    pub ram: Ranges,
    /// RAM that is mapped but spoken for.
    pub reserved: Ranges,
    /// The registers of the console, a PL011.
    pub uart: Option<Pa>,
    /// How PSCI is called.
    pub conduit: Option<Conduit>,
    /// How many CPUs there are.
    pub cpus: u32,
}

/// Why a device tree is of no use.
#[derive(Clone, Debug)]
pub enum MachineError {
    /// It can not be read.
    Unreadable(FdtParseError),
    /// It has no usable memory node.
    NoMemory,
    /// It reserves more separate ranges than can be kept apart, so what is free is not known.
    TooManyReserved,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(e) => write!(f, "the device tree can not be read: {e}"),
            Self::TooManyReserved => {
                write!(f, "the device tree reserves more than {CAPACITY} separate ranges of RAM")
            }
            Self::NoMemory => {
                f.write_str("the device tree has no memory: a /memory node with a reg is needed")
            }
        }
    }
}

/// The size that the header at the start of `data` gives the whole tree, if it is a device tree.
///
/// The magic and the size are the first two big-endian words.
pub fn total_size(header: [u8; 8]) -> Option<usize> {
    let [a, b, c, d, size @ ..] = header;
    ([a, b, c, d] == [0xd0, 0x0d, 0xfe, 0xed]).then_some(u32::from_be_bytes(size) as usize)
}

impl Machine {
    /// Reads a device tree. `note` hears of everything that was left out, as one sentence each.
    ///
    /// # Errors
    ///
    /// The tree can not be read, or has no memory.
    pub fn read(dtb: &[u8], note: &mut dyn FnMut(fmt::Arguments<'_>)) -> Result<Self, MachineError> {
        let tree = Fdt::new(dtb).map_err(MachineError::Unreadable)?;
        let (ram, reserved) = memory(tree, note)?;
        let root = tree.root();
        let chosen = tree.find_node("/chosen");
        let uart = chosen.and_then(|n| text(n, "stdout-path")).and_then(|path| uart(tree, path));
        if uart.is_none() {
            note(format_args!("/chosen/stdout-path names no PL011; using the default console"));
        }
        Ok(Self {
            model: copy(text(root, "model").unwrap_or("unknown machine"), "model", note),
            bootargs: copy(chosen.and_then(|n| text(n, "bootargs")).unwrap_or(""), "bootargs", note),
            ram,
            reserved,
            uart,
            conduit: conduit(root),
            cpus: cpus(tree),
        })
    }
}

/// A property that is one string.
fn text<'a>(node: FdtNode<'a>, name: &str) -> Option<&'a str> {
    node.properties().find(|p| p.name() == name)?.value_as::<&str>().ok()
}

/// As much of a text as there is room for, in whole words.
fn copy<const N: usize>(text: &str, name: &str, note: &mut dyn FnMut(fmt::Arguments<'_>)) -> ArrayString<N> {
    let mut kept = text;
    while kept.len() > N {
        kept = kept.rsplit_once(char::is_whitespace).map_or("", |(front, _)| front);
    }
    if kept.len() < text.len() {
        let (all, used) = (text.len(), kept.len());
        note(format_args!("{name} is {all} bytes long; only the first {used} are used"));
    }
    ArrayString::from(kept).unwrap_or_default()
}

/// RAM and what of it is reserved.
fn memory(tree: Fdt<'_>, note: &mut dyn FnMut(fmt::Arguments<'_>)) -> Result<(Ranges, Ranges), MachineError> {
    let (mut ram, mut reserved) = (Ranges::new(), Ranges::new());
    let is_memory = |n: &FdtNode<'_>| {
        n.property("device_type").is_some_and(|p| p.value_as::<&str>().is_ok_and(|t| t == "memory"))
    };
    for node in tree.root().children().filter(is_memory) {
        if let Some(status) = text(node, "status").filter(|s| !matches!(*s, "okay" | "ok")) {
            note(format_args!("{} is '{}'; not used", node.name(), status.escape_debug()));
            continue;
        }
        each_reg(node, note, |range, note| match ram.add(range.clone()) {
            Ok(true) => note(format_args!("memory {range:?} overlaps other memory; merged")),
            Ok(false) => {}
            Err(Full) => note(format_args!("memory {range:?} left out: more than {CAPACITY} ranges")),
        });
    }
    let mut full = false;
    for entry in tree.memory_reservations() {
        let range = Pa(entry.address())..Pa(entry.address().saturating_add(entry.size()));
        full |= reserve(&ram, &mut reserved, &range).is_err();
    }
    for node in tree.find_node("/reserved-memory").into_iter().flat_map(|n| n.children()) {
        let no_map = node.property("no-map").is_some();
        each_reg(node, note, |range, _| {
            let done = if no_map { ram.remove(&range) } else { reserve(&ram, &mut reserved, &range) };
            full |= done.is_err();
        });
    }
    if full {
        return Err(MachineError::TooManyReserved);
    }
    if ram.as_slice().is_empty() { Err(MachineError::NoMemory) } else { Ok((ram, reserved)) }
}

/// Reserves what of a range is RAM.
fn reserve(ram: &Ranges, reserved: &mut Ranges, range: &Range<Pa>) -> Result<(), Full> {
    for r in ram.as_slice() {
        reserved.add(r.start.max(range.start)..r.end.min(range.end))?;
    }
    Ok(())
}

/// Calls `each` for every sensible range of a node's `reg`.
fn each_reg(
    node: FdtNode<'_>,
    note: &mut dyn FnMut(fmt::Arguments<'_>),
    mut each: impl FnMut(Range<Pa>, &mut dyn FnMut(fmt::Arguments<'_>)),
) {
    let name = node.name();
    let Ok(Some(regs)) = node.reg() else {
        return note(format_args!("{name} has no usable reg"));
    };
    for reg in regs {
        match (reg.address::<u64>(), reg.size::<u64>()) {
            (_, Ok(0)) => note(format_args!("{name} has an empty range")),
            (Ok(start), Ok(size)) => match start.checked_add(size) {
                Some(end) => each(Pa(start)..Pa(end), note),
                None => note(format_args!("{name}: {start:#x} and {size:#x} bytes is beyond all addresses")),
            },
            _ => note(format_args!("{name} has a range of more than 64 bits")),
        }
    }
}

/// The registers of the PL011 at `path`, which may have options behind a colon.
fn uart(tree: Fdt<'_>, path: &str) -> Option<Pa> {
    let node = tree.find_node(path.split(':').next()?)?;
    if !node.compatible()?.any(|c| c == "arm,pl011") {
        return None;
    }
    Some(Pa(node.reg().ok()??.next()?.address().ok()?))
}

fn conduit(root: FdtNode<'_>) -> Option<Conduit> {
    let is_psci = |n: &FdtNode<'_>| n.compatible().is_some_and(|mut c| c.any(|c| c.starts_with("arm,psci")));
    let psci = root.children().find(is_psci)?;
    match psci.property("method")?.value_as::<&str>() {
        Ok("hvc") => Some(Conduit::Hvc),
        Ok("smc") => Some(Conduit::Smc),
        _ => None,
    }
}

fn cpus(tree: Fdt<'_>) -> u32 {
    let is_cpu = |n: &FdtNode<'_>| {
        n.property("device_type").is_some_and(|p| p.value_as::<&str>().is_ok_and(|t| t == "cpu"))
    };
    tree.find_node("/cpus").map_or(0, |n| n.children().filter(is_cpu).count() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
    use proptest::prelude::*;
    extern crate std;
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn node(name: &str, properties: &[(&str, &[u8])]) -> DeviceTreeNode {
        let mut node = DeviceTreeNode::new(name).unwrap();
        for (name, value) in properties {
            node.add_property(DeviceTreeProperty::new(*name, *value).unwrap());
        }
        node
    }

    fn cells(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    const TWO: &[u8] = &[0, 0, 0, 2];

    /// A machine with these memory ranges, and nodes below /reserved-memory.
    fn tree(memory: &[u64], reserved: Vec<DeviceTreeNode>) -> DeviceTree {
        let mut tree = DeviceTree::new();
        let root = &mut tree.root;
        for (name, value) in [("#address-cells", TWO), ("#size-cells", TWO), ("model", b"a board\0")] {
            root.add_property(DeviceTreeProperty::new(name, value).unwrap());
        }
        root.add_child(node("memory@0", &[("device_type", b"memory\0"), ("reg", &cells(memory))]));
        let chosen = [("bootargs", &b"run=dump\0"[..]), ("stdout-path", b"/serial@9000000:115200n8\0")];
        root.add_child(node("chosen", &chosen));
        let serial =
            [("compatible", &b"arm,pl011\0arm,primecell\0"[..]), ("reg", &cells(&[0x900_0000, 4096]))];
        root.add_child(node("serial@9000000", &serial));
        root.add_child(node("psci", &[("compatible", b"arm,psci-1.0\0"), ("method", b"smc\0")]));
        let mut cpus = node("cpus", &[]);
        cpus.add_child(node("cpu@0", &[("device_type", b"cpu\0")]));
        cpus.add_child(node("cpu@1", &[("device_type", b"cpu\0")]));
        root.add_child(cpus);
        let mut all =
            node("reserved-memory", &[("#address-cells", TWO), ("#size-cells", TWO), ("ranges", &[])]);
        reserved.into_iter().for_each(|n| all.add_child(n));
        root.add_child(all);
        tree
    }

    fn read(dtb: &[u8]) -> (Result<Machine, MachineError>, Vec<String>) {
        let mut notes = Vec::new();
        let machine = Machine::read(dtb, &mut |note| notes.push(note.to_string()));
        (machine, notes)
    }

    fn set(ranges: &Ranges) -> Vec<(u64, u64)> {
        ranges.as_slice().iter().map(|r| (r.start.0, r.end.0)).collect()
    }

    #[test]
    fn a_machine_is_read_whole() {
        let no_map = node("secure", &[("reg", &cells(&[0x5000, 0x1000])), ("no-map", &[])]);
        let taken = node("taken", &[("reg", &cells(&[0x7000, 0x1000]))]);
        let (machine, notes) =
            read(&tree(&[0x1000, 0x1_0000, 0x1_1000, 0x1000], [no_map, taken].into()).to_dtb());
        let machine = machine.unwrap();
        assert_eq!((&*machine.model, &*machine.bootargs, machine.cpus), ("a board", "run=dump", 2));
        assert_eq!((machine.uart, machine.conduit), (Some(Pa(0x900_0000)), Some(Conduit::Smc)));
        assert_eq!(set(&machine.ram), [(0x1000, 0x5000), (0x6000, 0x1_2000)]);
        assert_eq!(set(&machine.reserved), [(0x7000, 0x8000)]);
        assert_eq!(notes, Vec::<String>::new());
    }

    #[test]
    fn what_makes_no_sense_is_named_and_left_out() {
        let memory = [0x1000, 0x2000, 0x2000, 0x2000, 0x9000, 0, u64::MAX, 2];
        let (machine, notes) = read(&tree(&memory, [node("odd", &[("reg", &[1, 2, 3])])].into()).to_dtb());
        assert_eq!(set(&machine.unwrap().ram), [(0x1000, 0x4000)]);
        assert_eq!(
            notes,
            [
                "memory 0x2000..0x4000 overlaps other memory; merged",
                "memory@0 has an empty range",
                "memory@0: 0xffffffffffffffff and 0x2 bytes is beyond all addresses",
                "odd has no usable reg",
            ]
        );
    }

    #[test]
    fn more_ranges_than_there_is_room_for_are_named() {
        let memory: Vec<u64> = (0..CAPACITY as u64 + 2).flat_map(|i| [i * 0x2000, 0x1000]).collect();
        let (machine, notes) = read(&tree(&memory, Vec::new()).to_dtb());
        assert_eq!(machine.unwrap().ram.as_slice().len(), CAPACITY);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn no_memory_and_no_tree_are_errors() {
        let mut none = tree(&[], Vec::new());
        none.root.remove_child("memory@0");
        for dtb in [none.to_dtb(), tree(&[], Vec::new()).to_dtb()] {
            assert!(matches!(read(&dtb).0, Err(MachineError::NoMemory)));
        }
        for dtb in [&[][..], &[0; 64], b"\xd0\x0d\xfe\xed"] {
            let error = read(dtb).0.unwrap_err();
            assert!(format!("{error}").starts_with("the device tree can not be read: "), "{error}");
        }
        assert_eq!(total_size(*b"\xd0\x0d\xfe\xed\0\0\x01\0"), Some(256));
        assert_eq!(total_size([0; 8]), None);
    }

    #[test]
    fn long_boot_arguments_are_cut_at_a_word() {
        let mut long = tree(&[0, 0x1000], Vec::new());
        let line = "pagesize=4k ".repeat(400) + "\0";
        let chosen = long.find_node_mut("/chosen").unwrap();
        chosen.add_property(DeviceTreeProperty::new("bootargs", line.as_bytes()).unwrap());
        let (machine, notes) = read(&long.to_dtb());
        let machine = machine.unwrap();
        assert!(machine.bootargs.len() <= 2048 && machine.bootargs.ends_with("pagesize=4k"));
        assert_eq!(notes, ["bootargs is 4800 bytes long; only the first 2039 are used"]);
    }

    proptest! {
        /// A damaged tree never panics.
        #[test]
        fn damage_is_survived(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
            let mut dtb = tree(&[0x1000, 0x10_0000], Vec::new()).to_dtb();
            for (at, value) in damage {
                let at = at.index(dtb.len());
                dtb[at] = value;
            }
            let _ = read(&dtb);
        }
    }
}
