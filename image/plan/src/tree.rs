//! The machine that a device tree describes.
//!
//! The tree comes from a boot loader and is not trusted: what makes no sense is reported and left out.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

use crate::cpus::Cpus;
use crate::device_tree::{bytes, text};
use crate::efi::memory_map::{Memory, MemoryMap};
use crate::gic::{InterruptController, TranslationServices};
use crate::machine::{Conduit, Machine, MachineError, Source};
use crate::memory::{memory, reservations};
use crate::nodes::Nodes;
use crate::note::Note;
use crate::ranges::{Full, Lost};
use crate::serial::Uart;
use crate::text::copy;

impl Machine {
    /// Reads a device tree. Calls `note` for each thing that is left out.
    ///
    /// # Errors
    ///
    /// The tree cannot be read, has no memory that may be mapped, or reserves too many ranges of it.
    pub fn read(dtb: &[u8], note: &mut dyn FnMut(Note<'_>)) -> Result<Self, MachineError> {
        Self::read_with(dtb, None, note)
    }

    /// Reads a device tree whose firmware has a memory map: that says which memory there is, and the tree only what of it is
    /// reserved.
    ///
    /// # Errors
    ///
    /// As those of [`read`](Self::read).
    pub fn read_with(
        dtb: &[u8],
        map: Option<MemoryMap<'_>>,
        note: &mut dyn FnMut(Note<'_>),
    ) -> Result<Self, MachineError> {
        let tree = Fdt::new(dtb).map_err(MachineError::Unreadable)?;
        let root = tree.root();
        let mut lost = Lost::default();
        let firmware = map.map(|map| map.memory(&mut lost, note));
        let (mut ram, by_firmware) = match firmware {
            Some(Memory { ram, reserved, no_map }) => (ram, Some((reserved, no_map))),
            None => (memory(root, &mut lost, note), None),
        };
        if ram.as_slice().is_empty() {
            return Err(if map.is_some() { MachineError::NoRam } else { MachineError::NoMemory });
        }
        let (mut reserved, mut no_map) =
            reservations(tree, &mut ram, &mut lost, note).map_err(|Full| MachineError::TooManyReserved)?;
        if let Some((kept, hidden)) = by_firmware {
            for range in kept.as_slice() {
                reserved.add(range.clone()).map_err(|Full| MachineError::TooManyReserved)?;
            }
            // None of it is RAM, so a full list loses nothing.
            hidden.as_slice().iter().for_each(|range| _ = no_map.add(range.clone()));
        }
        if lost != Lost::default() {
            note(Note::MemoryLeftOut(lost));
        }
        if ram.as_slice().is_empty() {
            return Err(MachineError::NothingToMap);
        }
        let chosen = tree.find_node("/chosen");
        let uart = console(tree, note);
        if uart.is_none() {
            note(Note::NoConsole);
        }
        let (interrupts, timer) = InterruptController::read(tree, note);
        Ok(Self {
            source: Source::DeviceTree,
            model: copy(bytes(root, "model").unwrap_or(b"unknown machine"), "model", note),
            bootargs: copy(chosen.and_then(|n| bytes(n, "bootargs")).unwrap_or(b""), "bootargs", note),
            ram,
            reserved,
            no_map,
            left_out: lost,
            nodes: Nodes::new(),
            uart,
            conduit: conduit(root),
            interrupts,
            translation_services: TranslationServices::new(),
            timer,
            cpus: Cpus::read(tree, note),
        })
    }
}

/// Returns the console: the port at `/chosen/stdout-path`.
pub(crate) fn console(tree: Fdt<'_>, note: &mut dyn FnMut(Note<'_>)) -> Option<Uart> {
    let path = text(tree.find_node("/chosen")?, "stdout-path")?;
    Uart::read(tree, path, note)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Subject;
    use crate::ranges::{CAPACITY, Ranges};
    use dtoolkit::memreserve::MemoryReservation;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
    use linmap::Pa;
    use std::cell::Cell;
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;
    use test_support::prelude::*;
    use test_support::{is_one, property};

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

    /// Makes a machine with these memory ranges, and nodes below /reserved-memory.
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
        let mut cpus = node("cpus", &[("#address-cells", &[0, 0, 0, 1])]);
        cpus.add_child(node("cpu@0", &[("device_type", b"cpu\0"), ("reg", &[0, 0, 0, 0])]));
        cpus.add_child(node("cpu@1", &[("device_type", b"cpu\0"), ("reg", &[0, 0, 0, 1])]));
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
        assert_eq!((&*machine.model, &*machine.bootargs, machine.cpus.present), ("a board", "run=dump", 2));
        assert_eq!((machine.uart, machine.conduit), (Some(Uart::pl011(Pa(0x900_0000))), Some(Conduit::Smc)));
        assert_eq!(set(&machine.ram), [(0x1000, 0x5000), (0x6000, 0x1_2000)]);
        assert_eq!(set(&machine.reserved), [(0x7000, 0x8000)]);
        assert_eq!(set(&machine.no_map), [(0x5000, 0x6000)]);
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
                "odd: the last 3 bytes of reg are no whole range of 16",
            ]
        );
    }

    #[test]
    fn whole_ranges_of_a_damaged_reg_are_used() {
        let mut damaged = tree(&[0x1000, 0x2000], Vec::new());
        let memory = damaged.find_node_mut("/memory@0").unwrap();
        let reg = [cells(&[0x1000, 0x2000]), b"garbage".to_vec()].concat();
        memory.add_property(DeviceTreeProperty::new("reg", reg.as_slice()).unwrap());
        let (machine, notes) = read(&damaged.to_dtb());
        assert_eq!(set(&machine.unwrap().ram), [(0x1000, 0x3000)]);
        assert_eq!(notes, ["memory@0: the last 7 bytes of reg are no whole range of 16"]);
    }

    /// Reserved memory across blocks of RAM, partly outside, without end, or of no size.
    #[test]
    fn reservations_are_cut_to_ram_and_never_lost() {
        let across = node("across", &[("reg", &cells(&[0x1800, 0x4000]))]);
        let endless = node("endless", &[("reg", &cells(&[0x9000, u64::MAX]))]);
        let off = node("off", &[("reg", &cells(&[0x6000, 0x100])), ("status", b"disabled\0")]);
        let later = node("later", &[("size", &cells(&[0x1000]))]);
        let mut tree = tree(&[0x1000, 0x1000, 0x4000, 0x6000], [across, endless, off, later].into());
        for (start, size) in [(0x6000, 0x10), (0x7000, 0), (0xf000, u64::MAX)] {
            tree.memory_reservations.push(MemoryReservation::new(start, size));
        }
        let (machine, mut notes) = read(&tree.to_dtb());
        let machine = machine.unwrap();
        assert_eq!(set(&machine.ram), [(0x1000, 0x2000), (0x4000, 0xa000)]);
        assert_eq!(
            set(&machine.reserved),
            [(0x1800, 0x2000), (0x4000, 0x5800), (0x6000, 0x6010), (0x9000, 0xa000)]
        );
        notes.sort();
        assert_eq!(
            notes,
            [
                "/memreserve/: 0xf000 and 0xffffffffffffffff bytes is beyond all addresses; cut",
                "endless: 0x9000 and 0xffffffffffffffff bytes is beyond all addresses; cut",
                "later has no reg",
                "off is 'disabled'; not used",
            ]
        );
    }

    /// The subject of a note follows from what was read, so memory that is reserved for other things stays memory.
    #[test]
    fn names_of_nodes_do_not_decide_about_the_subject() {
        let names = ["cpucp@80700000", "gic-its", "console@1", "timer-model", "interrupts"];
        let reserved = names.map(|name| node(name, &[("status", b"disabled\0")])).into();
        let mut tree = tree(&[0x1000, 0x2000], reserved);
        tree.find_node_mut("/cpus/cpu@0").unwrap().remove_property("reg");
        tree.find_node_mut("/serial@9000000").unwrap().remove_property("reg");
        let mut notes = Vec::new();
        let mut note = |note: Note<'_>| notes.push((note.subject(), note.to_string()));
        Machine::read(&tree.to_dtb(), &mut note).unwrap();
        let expected = names.map(|name| (Subject::Memory, format!("{name} is 'disabled'; not used")));
        assert_eq!(notes[..names.len()], expected);
        assert_eq!(
            notes[names.len()..],
            [
                (Subject::Console, "serial@9000000 has no reg".into()),
                (Subject::Console, Note::NoConsole.to_string()),
                (Subject::Cpus, "cpu@0: it has no reg; left out".into()),
            ]
        );
    }

    /// Without cells of its own, /reserved-memory has those of the root, not the default of 2 and 1.
    #[test]
    fn reservations_without_cells_are_read_as_the_root_says() {
        let mut tree = tree(&[0, 0x1_0000], [node("r", &[("reg", &cells(&[0x1000, 0x1000]))])].into());
        tree.find_node_mut("/reserved-memory").unwrap().remove_property("#size-cells");
        assert_eq!(set(&read(&tree.to_dtb()).0.unwrap().reserved), [(0x1000, 0x2000)]);
    }

    #[test]
    fn memory_that_is_all_no_map_is_told_from_none() {
        let all = node("all", &[("reg", &cells(&[0, u64::MAX])), ("no-map", &[])]);
        assert!(matches!(
            read(&tree(&[0, 0x1_0000], [all].into()).to_dtb()).0,
            Err(MachineError::NothingToMap)
        ));
    }

    /// The longest ranges are kept wherever they are, and what is left out is reported once.
    #[test]
    fn of_more_ranges_than_there_is_room_for_the_shortest_are_left_out() {
        let all = CAPACITY as u64 + 2;
        let long = |i: u64| i.is_multiple_of(2) || i == all - 1;
        let banks = |order: &mut dyn Iterator<Item = u64>| -> Vec<u64> {
            order.flat_map(|i| [i * 0x2000, if long(i) { 0x1000 + i * 8 } else { 0x10 + i }]).collect()
        };
        for memory in [banks(&mut (0..all)), banks(&mut (0..all).rev())] {
            let (machine, notes) = read(&tree(&memory, Vec::new()).to_dtb());
            let ram = machine.unwrap().ram;
            assert_eq!((ram.as_slice().len(), ram.longest().start), (CAPACITY, Pa((all - 1) * 0x2000)));
            assert_eq!(ram.bytes() + 0x11 + 0x13, memory.iter().skip(1).step_by(2).sum::<u64>());
            assert_eq!(
                notes,
                ["memory left out: 0x24 bytes, the shortest 2 of more than 128 separate ranges"]
            );
        }
    }

    /// Memory that must not be mapped cuts RAM into more ranges than there is room for.
    #[test]
    fn no_map_costs_the_shortest_ranges_of_ram() {
        let cuts: Vec<u64> = (1..=CAPACITY as u64).flat_map(|i| [i * 0x2000, 0x1000]).collect();
        let no_map = node("secure", &[("reg", &cells(&cuts)), ("no-map", &[])]);
        let (machine, notes) = read(&tree(&[0x1000, 0x1_0000_0000], [no_map].into()).to_dtb());
        let ram = machine.unwrap().ram;
        assert_eq!(set(&ram).last(), Some(&(0x10_1000, 0x1_0000_1000)));
        assert_eq!(notes, ["memory left out: 0x1000 bytes, the shortest 1 of more than 128 separate ranges"]);
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
            assert!(format!("{error}").starts_with("the device tree cannot be read: "), "{error}");
        }
        assert_eq!(crate::device_tree::total_size(*b"\xd0\x0d\xfe\xed\0\0\x01\0"), Some(256));
        assert_eq!(crate::device_tree::total_size([0; 8]), None);
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

    #[test]
    fn what_is_no_text_in_boot_arguments_is_named_and_the_rest_holds() {
        let mut odd = tree(&[0, 0x1000], Vec::new());
        let chosen = odd.find_node_mut("/chosen").unwrap();
        chosen.add_property(DeviceTreeProperty::new("bootargs", &b"a \xff\xc3b rodata=off"[..]).unwrap());
        let (machine, notes) = read(&odd.to_dtb());
        assert_eq!(&*machine.unwrap().bootargs, "a ??b rodata=off");
        assert_eq!(notes, ["bootargs is not all UTF-8; read with '?' for the rest"]);
    }

    /// A damaged tree never panics. What is read of it is RAM in order, no part of it reserved twice or not to be
    /// mapped; or a reason is named.
    #[test]
    fn damage_is_survived() {
        let damage = prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4);
        let no_map = node("secure", &[("reg", &cells(&[0x5000, 0x1000])), ("no-map", &[])]);
        let taken = node("taken", &[("reg", &cells(&[0x7000, 0x1000]))]);
        let whole = tree(&[0x1000, 0x10_0000], [no_map, taken].into()).to_dtb();
        let counts = [Cell::new(0), Cell::new(0)];
        property(ProptestConfig::with_cases(1000), damage, |damage| {
            let mut dtb = whole.clone();
            for (at, bit) in damage {
                let at = at.index(dtb.len());
                dtb[at] ^= 1 << bit;
            }
            let (machine, notes) = read(&dtb);
            prop_assert!(notes.iter().all(|note| !note.is_empty()));
            let count = &counts[usize::from(machine.is_ok())];
            count.set(count.get() + 1);
            match machine {
                Ok(machine) => {
                    let (ram, no_map) = (set(&machine.ram), set(&machine.no_map));
                    prop_assert!(!ram.is_empty());
                    for ranges in [&ram, &no_map, &set(&machine.reserved)] {
                        prop_assert!(ranges.iter().all(|r| r.0 < r.1), "{:x?}", ranges);
                        prop_assert!(ranges.windows(2).all(|w| w[0].1 < w[1].0), "{:x?}", ranges);
                    }
                    let apart = |r: &(u64, u64)| no_map.iter().all(|n| n.1 <= r.0 || r.1 <= n.0);
                    prop_assert!(ram.iter().all(apart), "{:x?} {:x?}", ram, no_map);
                    let in_ram = |r: &(u64, u64)| ram.iter().any(|m| m.0 <= r.0 && r.1 <= m.1);
                    prop_assert!(
                        set(&machine.reserved).iter().all(in_ram),
                        "{:x?} {:x?}",
                        machine.reserved,
                        ram
                    );
                }
                Err(error) => prop_assert!(error.to_string().contains("device tree"), "{}", error),
            }
            Ok(())
        });
        let [refused, read] = counts.map(Cell::into_inner);
        assert!(refused > 100 && read > 50 || is_one(), "{refused} refused, {read} read");
    }
}
