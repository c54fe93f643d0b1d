//! The consoles of a machine: none rather than a wrong one.

use core::ops::Range;

use dtoolkit::fdt::Fdt;
use linmap::Pa;

use crate::acpi::Tables;
use crate::device_tree::is_empty;
use crate::machine::{Machine, Source};
use crate::note::Note;
use crate::serial::Uart;
use crate::tree::console;

/// The PL011 of QEMU's virt machine: the only one to try where no device tree has been read, or where the console that
/// it names does not work.
pub const FALLBACK: Pa = Pa(0x0900_0000);

/// The consoles of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consoles {
    /// The one that the description names.
    pub named: Option<Uart>,
    /// [`FALLBACK`], if that is not RAM. It must still identify itself as a PL011.
    pub fallback: Option<Pa>,
}

impl Consoles {
    /// Returns the consoles of a machine whose CPUs have addresses of so many bits. Calls `note` if the named one is
    /// not used.
    pub fn new(machine: &Machine, pa_bits: u32, note: &mut dyn FnMut(Note<'_>)) -> Self {
        let is_address = |registers: &Range<Pa>| (registers.end.0 - 1) >> pa_bits == 0;
        let usable = |uart: &Uart| {
            let registers = uart.range();
            uart.is_aligned() && registers.is_some_and(|r| is_address(&r) && !has_ram(machine, &r))
        };
        let named = machine.uart.filter(usable);
        if let (None, Some(uart)) = (named, machine.uart) {
            note(Note::ConsoleMisplaced(uart.registers));
        }
        Self { named, fallback: fallback(machine) }
    }
}

/// Returns true if a machine's description names a serial port of a known kind: a device tree, or, if that describes nothing, ACPI
/// tables that lie one after the other.
pub fn is_named(tree: Option<&[u8]>, acpi: Option<&[u8]>) -> bool {
    let mut silent = |_: Note<'_>| {};
    match (tree.filter(|tree| acpi.is_none() || !is_empty(tree)), acpi) {
        (Some(tree), _) => Fdt::new(tree).is_ok_and(|tree| console(tree, &mut silent).is_some()),
        (None, Some(acpi)) => Tables::in_file(acpi, &mut silent).console(&mut silent).is_some(),
        (None, None) => false,
    }
}

/// Returns [`FALLBACK`] if the machine has no RAM there. RAM that was left out could be anywhere. A machine with ACPI names its
/// console if it has one, and may answer a read where nothing is by an error that no probe survives.
pub fn fallback(machine: &Machine) -> Option<Pa> {
    let is_ram = Uart::pl011(FALLBACK).range().is_none_or(|registers| has_ram(machine, &registers));
    let may_be = machine.source == Source::DeviceTree && !is_ram && machine.left_out.ranges == 0;
    may_be.then_some(FALLBACK)
}

/// Returns true if a machine has RAM in a range, mapped or not.
fn has_ram(machine: &Machine, range: &Range<Pa>) -> bool {
    let mut ram = machine.ram.as_slice().iter().chain(machine.no_map.as_slice());
    ram.any(|ram| ram.start < range.end && range.start < ram.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::fdt::Fdt;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
    use std::string::{String, ToString};
    use std::vec::Vec;

    const VIRT: &[u8] = include_bytes!("../tests/data/virt.dtb");
    const NO_UART: &str =
        "no console is named that can be used: a PL011, SBSA or 16550 UART that a CPU reaches";

    fn set(node: &mut DeviceTreeNode, name: &str, value: &[u8]) {
        node.add_property(DeviceTreeProperty::new(name, value).unwrap());
    }

    fn pairs(pairs: &[(u64, u64)]) -> Vec<u8> {
        pairs.iter().flat_map(|p| [p.0.to_be_bytes(), p.1.to_be_bytes()].concat()).collect()
    }

    /// Changes the tree of QEMU's virt machine, with this memory.
    fn virt(memory: &[(u64, u64)], change: impl FnOnce(&mut DeviceTree)) -> Vec<u8> {
        let mut tree = DeviceTree::from_fdt(&Fdt::new(VIRT).unwrap());
        set(tree.find_node_mut("/memory@40000000").unwrap(), "reg", &pairs(memory));
        change(&mut tree);
        tree.to_dtb()
    }

    fn consoles(dtb: &[u8]) -> (Option<u64>, Option<u64>, Vec<String>) {
        let mut notes = Vec::new();
        let mut note = |what: Note<'_>| notes.push(what.to_string());
        let machine = Machine::read(dtb, &mut note).unwrap();
        let Consoles { named, fallback } = Consoles::new(&machine, 40, &mut note);
        (named.map(|uart| uart.registers.0), fallback.map(|pa| pa.0), notes)
    }

    const GIB: u64 = 1 << 30;

    fn no_path(tree: &mut DeviceTree) {
        tree.find_node_mut("/chosen").unwrap().remove_property("stdout-path");
    }

    #[test]
    fn qemu_s_machine_has_both() {
        assert_eq!(consoles(&virt(&[(GIB, GIB)], |_| {})), (Some(0x900_0000), Some(0x900_0000), Vec::new()));
    }

    #[test]
    fn a_port_is_named_by_the_description_that_is_used() {
        let named = virt(&[(GIB, GIB)], |_| {});
        let silent = virt(&[(GIB, GIB)], no_path);
        let (empty, no_tables) = (DeviceTree::new().to_dtb(), &[][..]);
        assert!(is_named(Some(&named), None) && is_named(Some(&named), Some(no_tables)));
        assert!(!is_named(Some(&silent), None) && !is_named(Some(&silent), Some(no_tables)));
        assert!(!is_named(Some(&empty), Some(no_tables)) && !is_named(None, Some(no_tables)));
        assert!(!is_named(None, None) && !is_named(Some(b"noise"), None));
    }

    /// A machine like xlnx-zcu102: no PL011, and RAM from 0 on.
    #[test]
    fn where_there_is_ram_there_is_no_console() {
        let nothing = (None, None, [NO_UART.to_string()].into());
        for ram in [(0, 2 * GIB), (0x900_0000, 0x1000), (0x900_0ff8, 8), (0x8ff_0000, 0x1_0001)] {
            assert_eq!(consoles(&virt(&[ram], no_path)), nothing, "{ram:x?}");
        }
        for ram in [(0x900_1000, GIB), (0x800_0000, 0x100_0000)] {
            assert_eq!(
                consoles(&virt(&[ram], no_path)),
                (None, Some(0x900_0000), nothing.2.clone()),
                "{ram:x?}"
            );
        }
    }

    /// Memory that must not be mapped is memory, and so are ranges that there was no room for.
    #[test]
    fn ram_that_is_not_mapped_is_ram() {
        let no_map = |tree: &mut DeviceTree| {
            no_path(tree);
            let mut all = DeviceTreeNode::new("reserved-memory").unwrap();
            set(&mut all, "#address-cells", &[0, 0, 0, 2]);
            set(&mut all, "#size-cells", &[0, 0, 0, 2]);
            let mut one = DeviceTreeNode::new("secure").unwrap();
            set(&mut one, "reg", &pairs(&[(0x900_0000, 0x1_0000)]));
            set(&mut one, "no-map", &[]);
            all.add_child(one);
            tree.root.add_child(all);
        };
        assert_eq!(consoles(&virt(&[(0, GIB)], no_map)).1, None);
        let banks: Vec<_> = (0..129).map(|i| (GIB + i * 0x2000, 0x1000)).collect();
        assert_eq!(consoles(&virt(&banks, no_path)).1, None);
    }

    #[test]
    fn a_named_console_is_no_ram_either() {
        for (uart, ok) in [
            (0x900_0000, true),
            (GIB - 0x1000, true),
            (GIB - 0xff8, false),
            (GIB, false),
            (2 * GIB, true),
            (0x900_0002, false),
            ((1 << 40) - 0x1000, true),
            (1 << 40, false),
            (u64::MAX - 0x2000, false),
        ] {
            let dtb = virt(&[(GIB, GIB)], |tree| {
                set(tree.find_node_mut("/pl011@9000000").unwrap(), "reg", &pairs(&[(uart, 0x1000)]));
            });
            let (named, fallback, notes) = consoles(&dtb);
            assert_eq!((named, fallback), (ok.then_some(uart), Some(0x900_0000)), "{uart:#x}");
            assert_eq!(
                notes.iter().any(|note| note.starts_with("no console can be at 0x")),
                !ok,
                "{notes:?}"
            );
        }
    }

    /// A machine like a Raspberry Pi 3: the console by an alias, behind a bus.
    #[test]
    fn a_console_behind_a_bus_is_where_a_cpu_has_it() {
        let dtb = virt(&[(0, 0x3c00_0000)], |tree| {
            let mut uart = tree.root.remove_child("pl011@9000000").unwrap();
            set(&mut uart, "reg", &[0x7e, 0x20, 0x10, 0, 0, 0, 2, 0]);
            let mut soc = DeviceTreeNode::new("soc").unwrap();
            set(&mut soc, "#address-cells", &[0, 0, 0, 1]);
            set(&mut soc, "#size-cells", &[0, 0, 0, 1]);
            set(&mut soc, "ranges", &[0x7e, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0, 0, 0, 1, 0, 0, 0]);
            soc.add_child(uart);
            tree.root.add_child(soc);
            let mut aliases = DeviceTreeNode::new("aliases").unwrap();
            set(&mut aliases, "serial0", b"/soc/pl011@9000000\0");
            tree.root.add_child(aliases);
            set(tree.find_node_mut("/chosen").unwrap(), "stdout-path", b"serial0:115200n8\0");
        });
        assert_eq!(consoles(&dtb), (Some(0x3f20_1000), None, Vec::new()));
    }
}
