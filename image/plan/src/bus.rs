//! Places of a node's registers for a CPU, through every bus above the node.
//!
//! Each bus has addresses of its own. Its `ranges` translate them to those of the bus above it. If `ranges` is empty,
//! the addresses are the same; without it a CPU reaches nothing there.

use core::ops::Range;

use arrayvec::ArrayVec;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use linmap::Pa;

use crate::device_tree::{cells, each_reg, number, text};
use crate::note::{Defect, Note, Subject};

/// The most nodes above another.
const DEPTH: usize = 8;

/// A node and those above it.
#[derive(Clone)]
pub(crate) struct Place<'a> {
    /// The node.
    pub(crate) node: FdtNode<'a>,
    /// The nodes from the root down; for a child of the root, the root alone.
    above: ArrayVec<FdtNode<'a>, DEPTH>,
}

impl<'a> Place<'a> {
    fn root(tree: Fdt<'a>) -> Self {
        Self { node: tree.root(), above: ArrayVec::new() }
    }

    /// Returns a child of this node; none if the tree is too deep.
    fn child(&self, node: FdtNode<'a>) -> Option<Self> {
        let mut above = self.above.clone();
        above.try_push(self.node).ok()?;
        Some(Self { node, above })
    }

    /// Finds the node at a path, which may begin with an alias.
    pub(crate) fn find(tree: Fdt<'a>, path: &str) -> Option<Self> {
        let descend = |from: Self, path: &str| {
            let mut names = path.split('/').filter(|name| !name.is_empty());
            names.try_fold(from, |place, name| place.child(place.node.child(name)?))
        };
        if path.starts_with('/') {
            return descend(Self::root(tree), path);
        }
        let (alias, rest) = path.split_once('/').unwrap_or((path, ""));
        let start = text(tree.find_node("/aliases")?, alias)?;
        descend(descend(Self::root(tree), start)?, rest)
    }

    /// Finds the first node that is wanted, each before those below it.
    pub(crate) fn search(tree: Fdt<'a>, mut wanted: impl FnMut(FdtNode<'a>) -> bool) -> Option<Self> {
        Self::root(tree).search_below(&mut wanted)
    }

    fn search_below(&self, wanted: &mut dyn FnMut(FdtNode<'a>) -> bool) -> Option<Self> {
        self.node.children().find_map(|node| {
            let place = self.child(node)?;
            if wanted(node) { Some(place) } else { place.search_below(wanted) }
        })
    }

    /// Calls `each` for every range of registers that a CPU reaches, in the order of the node's `reg`, and `note` for
    /// the others.
    pub(crate) fn registers(
        &self,
        subject: Subject,
        note: &mut dyn FnMut(Note<'_>),
        mut each: impl FnMut(Range<Pa>),
    ) {
        let name = self.node.name();
        let wrong = |defect| Note::Node { subject, name, defect };
        let Some(parent) = self.above.last() else { return };
        each_reg(self.node, cells(*parent), subject, note, |start, size, note| {
            match self.for_cpu(start, size) {
                Ok(at) => match at.checked_add(size) {
                    Some(end) => each(Pa(at)..Pa(end)),
                    None => note(wrong(Defect::BeyondAddresses { start: at, size })),
                },
                Err(bus) => note(wrong(Defect::NotPassedOn { start, size, bus: bus.name() })),
            }
        });
    }

    /// Translates an address of this node, for so many bytes, to that of a CPU.
    ///
    /// # Errors
    ///
    /// The bus that does not pass them on.
    fn for_cpu(&self, start: u64, size: u64) -> Result<u64, FdtNode<'a>> {
        let buses = self.above.iter().skip(1).rev();
        let parents = self.above.iter().rev().skip(1);
        buses
            .zip(parents)
            .try_fold(start, |start, (bus, parent)| passed_on(*bus, *parent, start, size).ok_or(*bus))
    }
}

/// Translates an address of a bus, for so many bytes, to that of the bus above.
fn passed_on(bus: FdtNode<'_>, parent: FdtNode<'_>, start: u64, size: u64) -> Option<u64> {
    let ranges = bus.property("ranges")?;
    if ranges.value().is_empty() {
        return Some(start);
    }
    let ((own, length), (above, _)) = (cells(bus), cells(parent));
    let entry = own.saturating_add(above).saturating_add(length);
    if entry == 0 {
        return None;
    }
    ranges.value().chunks_exact(entry).find_map(|range| {
        let (from, rest) = range.split_at(own);
        let (to, bytes) = rest.split_at(above);
        let offset = start.checked_sub(number(from)?)?;
        let fits = offset.checked_add(size)? <= number(bytes)?;
        number(to)?.checked_add(offset).filter(|_| fits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn node(name: &str, properties: &[(&str, &[u32])]) -> DeviceTreeNode {
        let mut node = DeviceTreeNode::new(name).unwrap();
        for (name, value) in properties {
            node.add_property(DeviceTreeProperty::new(*name, words(value)).unwrap());
        }
        node
    }

    /// Makes a bus with so many cells for an address and for a size.
    fn bus(name: &str, cells: [u32; 2], ranges: Option<&[u32]>) -> DeviceTreeNode {
        let own = [("#address-cells", &cells[..1]), ("#size-cells", &cells[1..])];
        node(
            name,
            &[&own[..], &ranges.map(|ranges| ("ranges", ranges)).into_iter().collect::<Vec<_>>()].concat(),
        )
    }

    /// Makes a tree with a device below these buses, the outermost first, all below a root of 2 cells each.
    fn tree(buses: &[DeviceTreeNode], reg: &[u32]) -> Vec<u8> {
        let mut inner = node("device@0", &[("reg", reg)]);
        for bus in buses.iter().rev() {
            let mut bus = bus.clone();
            bus.add_child(inner);
            inner = bus;
        }
        let mut tree = DeviceTree::new();
        for cells in ["#address-cells", "#size-cells"] {
            tree.root.add_property(DeviceTreeProperty::new(cells, words(&[2])).unwrap());
        }
        tree.root.add_child(inner);
        let mut aliases = DeviceTreeNode::new("aliases").unwrap();
        aliases.add_property(DeviceTreeProperty::new("soc", &b"/soc\0"[..]).unwrap());
        tree.root.add_child(aliases);
        tree.to_dtb()
    }

    /// Returns the device's registers as a CPU has them, and the notes.
    fn registers(buses: &[DeviceTreeNode], reg: &[u32]) -> (Vec<(u64, u64)>, Vec<String>) {
        let dtb = tree(buses, reg);
        let place = Place::search(Fdt::new(&dtb).unwrap(), |node| node.name() == "device@0").unwrap();
        let (mut ranges, mut notes) = (Vec::new(), Vec::new());
        place.registers(Subject::Console, &mut |note| notes.push(note.to_string()), |r| {
            ranges.push((r.start.0, r.end.0 - r.start.0));
        });
        (ranges, notes)
    }

    /// The `ranges` of a Raspberry Pi 3: one cell each, and two ranges.
    const PI: [u32; 6] = [0x7e00_0000, 0x3f00_0000, 0x100_0000, 0x4000_0000, 0x4000_0000, 0x1000];

    fn pi() -> DeviceTreeNode {
        // The root of these trees has two cells for an address.
        let ranges = [PI[0], 0, PI[1], PI[2], PI[3], 0, PI[4], PI[5]];
        bus("soc", [1, 1], Some(&ranges))
    }

    #[test]
    fn a_bus_address_becomes_a_cpu_s() {
        assert_eq!(registers(&[pi()], &[0x7e20_1000, 0x200]).0, [(0x3f20_1000, 0x200)]);
        assert_eq!(
            registers(&[pi()], &[0x4000_0000, 0x100, 0x7e00_0000, 0x100_0000]).0,
            [(0x4000_0000, 0x100), (0x3f00_0000, 0x100_0000)]
        );
    }

    #[test]
    fn without_a_bus_or_with_empty_ranges_it_is_the_same() {
        assert_eq!(registers(&[], &[1, 0x1000, 0, 0x10]).0, [(0x1_0000_1000, 0x10)]);
        let plain = bus("soc", [2, 1], Some(&[]));
        assert_eq!(registers(&[plain.clone(), plain], &[1, 0x1000, 0x10]).0, [(0x1_0000_1000, 0x10)]);
    }

    #[test]
    fn every_bus_translates() {
        let inner = bus("bus", [1, 1], Some(&[0, 0x7e20_0000, 0x1_0000]));
        assert_eq!(registers(&[pi(), inner.clone()], &[0x1000, 0x200]).0, [(0x3f20_1000, 0x200)]);
        let outer = bus("far", [2, 2], Some(&[0, 0x3f00_0000, 8, 0, 0, 0x100_0000]));
        let middle = bus("soc", [1, 1], Some(&[0x7e00_0000, 0, 0x3f00_0000, 0x100_0000]));
        assert_eq!(registers(&[outer, middle, inner], &[0x1000, 0x200]).0, [(0x8_0020_1000, 0x200)]);
    }

    #[test]
    fn what_no_range_has_whole_no_cpu_reaches() {
        let unreached = |buses: &[DeviceTreeNode], reg: &[u32], bus: &str| {
            let (ranges, notes) = registers(buses, reg);
            assert!(ranges.is_empty() && notes.len() == 1 && notes[0].contains(bus), "{ranges:?} {notes:?}");
        };
        unreached(&[pi()], &[0x7dff_ffff, 0x10], "soc");
        unreached(&[pi()], &[0x7eff_fff8, 0x10], "soc");
        unreached(&[pi()], &[0x3f20_1000, 0x200], "soc");
        unreached(&[bus("soc", [1, 1], None)], &[0x1000, 0x10], "soc");
        unreached(&[bus("out", [1, 1], None), bus("in", [1, 1], Some(&[]))], &[0x1000, 0x10], "out");
        // Entries that are cut, that have no cells, or that lead beyond all addresses.
        unreached(&[bus("soc", [1, 1], Some(&[0x1000, 0, 0x2000]))], &[0x1000, 0x10], "soc");
        let beyond = [0, 0, u32::MAX, u32::MAX - 0xf, 0, 0x1000];
        unreached(&[bus("soc", [2, 2], Some(&beyond))], &[0, 0x10, 0, 0x10], "soc");
    }

    #[test]
    fn paths_may_begin_with_an_alias() {
        let dtb = tree(&[pi()], &[0x7e20_1000, 0x200]);
        let tree = Fdt::new(&dtb).unwrap();
        for path in ["/soc/device@0", "soc/device@0", "/soc/device", "soc/device"] {
            assert_eq!(Place::find(tree, path).unwrap().node.name(), "device@0", "{path}");
        }
        for path in ["", "/soc/none", "none", "soc/none", "device@0"] {
            assert!(Place::find(tree, path).is_none(), "{path}");
        }
    }

    #[test]
    fn a_tree_that_is_too_deep_has_an_end() {
        let buses: Vec<_> = (0..DEPTH + 2).map(|_| bus("bus", [2, 2], Some(&[]))).collect();
        let dtb = tree(&buses, &[0, 0x1000, 0, 0x10]);
        assert!(Place::search(Fdt::new(&dtb).unwrap(), |node| node.name() == "device@0").is_none());
        let (reached, _) = registers(&buses[..DEPTH - 1], &[0, 0x1000, 0, 0x10]);
        assert_eq!(reached, [(0x1000, 0x10)]);
    }
}
