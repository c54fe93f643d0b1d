//! The interrupt controller of a machine, and how a device tree describes it and the timer.

use core::ops::Range;

use arrayvec::ArrayVec;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};
use linmap::Pa;

use crate::bus::Place;
use crate::device_tree::{in_use, number};
use crate::note::{Defect, Note, Subject};
use crate::ranges::bytes;

/// The most regions of redistributors that are used.
pub const REGIONS: usize = 8;

/// Regions of redistributors.
pub type Regions = ArrayVec<Range<Pa>, REGIONS>;

/// Interrupt translation services, each by the address of its registers.
pub type TranslationServices = ArrayVec<Pa, 16>;

/// A GIC, by its registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InterruptController {
    /// A GICv2.
    V2 {
        /// The distributor.
        distributor: Range<Pa>,
        /// The CPU interface: each CPU has its own there.
        cpu_interface: Range<Pa>,
    },
    /// A GICv3 or GICv4. CPU interfaces are system registers.
    V3 {
        /// The distributor.
        distributor: Range<Pa>,
        /// Regions of redistributors, one redistributor for each CPU.
        redistributors: Regions,
        /// Bytes from one redistributor to the next, if the description has it.
        stride: Option<u64>,
        /// A region may have redistributors behind one that says that it is the last (GICR_TYPER.Last), as the region was
        /// made of single ones.
        joined: bool,
    },
}

/// Devices that are compatible with the GICv2.
const V2: [&str; 4] = ["arm,gic-400", "arm,cortex-a15-gic", "arm,cortex-a7-gic", "arm,cortex-a9-gic"];
const V3: &str = "arm,gic-v3";

/// The fewest bytes of registers: of a distributor, a CPU interface, a redistributor.
const DISTRIBUTOR: u64 = 0x1000;
const CPU_INTERFACE: u64 = 0x100;
const REDISTRIBUTOR: u64 = 0x2_0000;

impl InterruptController {
    /// Returns the first controller of a tree that is in use, if it can be used, and the INTID of the virtual timer.
    pub fn read(tree: Fdt<'_>, note: &mut dyn FnMut(Note<'_>)) -> (Option<Self>, Option<u32>) {
        let Some(place) =
            Place::search(tree, |n| version(n).is_some() && in_use(n, Subject::Interrupts, note))
        else {
            return (None, None);
        };
        let node = place.node;
        let timer = timer(tree, node, note);
        let mut ranges = ArrayVec::<Range<Pa>, { REGIONS + 1 }>::new();
        // Ranges after the redistributors are not used.
        place.registers(Subject::Interrupts, note, |range| _ = ranges.try_push(range));
        let controller = match version(node) {
            Some(2) => Self::v2_of(&ranges),
            _ => Self::v3_of(node, &ranges),
        };
        if controller.is_none() {
            note(wrong(node, Defect::NotGic));
        }
        (controller, timer)
    }

    /// Makes a GICv2; none if it has too few registers.
    pub(crate) fn v2(distributor: Range<Pa>, cpu_interface: Range<Pa>) -> Option<Self> {
        let fits = bytes(&distributor) >= DISTRIBUTOR && bytes(&cpu_interface) >= CPU_INTERFACE;
        fits.then_some(Self::V2 { distributor, cpu_interface })
    }

    /// Makes a GICv3; none if it has too few registers.
    pub(crate) fn v3(
        distributor: Range<Pa>,
        redistributors: Regions,
        stride: Option<u64>,
        joined: bool,
    ) -> Option<Self> {
        let fits = bytes(&distributor) >= DISTRIBUTOR
            && !redistributors.is_empty()
            && redistributors.iter().all(|r| bytes(r) >= REDISTRIBUTOR)
            && stride.is_none_or(|stride| stride >= REDISTRIBUTOR && stride.is_multiple_of(0x1_0000));
        fits.then_some(Self::V3 { distributor, redistributors, stride, joined })
    }

    fn v2_of(ranges: &[Range<Pa>]) -> Option<Self> {
        let [distributor, cpu_interface, ..] = ranges else { return None };
        Self::v2(distributor.clone(), cpu_interface.clone())
    }

    fn v3_of(node: FdtNode<'_>, ranges: &[Range<Pa>]) -> Option<Self> {
        let (distributor, rest) = ranges.split_first()?;
        let regions = value(node, "#redistributor-regions").unwrap_or(1).min(rest.len() as u64);
        let redistributors = rest[..regions as usize].iter().take(REGIONS).cloned().collect();
        Self::v3(distributor.clone(), redistributors, value(node, "redistributor-stride"), false)
    }

    /// Returns the version that the controller is used as, 2 or 3.
    pub const fn version(&self) -> u32 {
        match self {
            Self::V2 { .. } => 2,
            Self::V3 { .. } => 3,
        }
    }

    /// Iterates over all ranges of registers, the distributor first.
    pub fn ranges(&self) -> impl Iterator<Item = &Range<Pa>> {
        let (distributor, others) = match self {
            Self::V2 { distributor, cpu_interface } => (distributor, core::slice::from_ref(cpu_interface)),
            Self::V3 { distributor, redistributors, .. } => (distributor, redistributors.as_slice()),
        };
        core::iter::once(distributor).chain(others)
    }
}

/// Returns the version of the GIC that a node describes.
fn version(node: FdtNode<'_>) -> Option<u32> {
    if node.is_compatible(V3) {
        return Some(3);
    }
    V2.iter().any(|name| node.is_compatible(name)).then_some(2)
}

/// Makes a note of a node of the interrupt controller or the timer.
fn wrong<'a>(node: FdtNode<'a>, defect: Defect<'a>) -> Note<'a> {
    Note::Node { subject: Subject::Interrupts, name: node.name(), defect }
}

/// Returns the INTID of the virtual timer: the third interrupt of the timer node.
fn timer(tree: Fdt<'_>, controller: FdtNode<'_>, note: &mut dyn FnMut(Note<'_>)) -> Option<u32> {
    let node =
        Place::search(tree, |n| n.is_compatible("arm,armv8-timer") && in_use(n, Subject::Interrupts, note))?
            .node;
    let cells = value(controller, "#interrupt-cells").filter(|cells| (3..=8).contains(cells))? as usize;
    let interrupts = node.property("interrupts")?;
    let third = interrupts.value().chunks_exact(cells * 4).nth(2)?;
    let mut fields = third.chunks_exact(4).map(|cell| number(cell).unwrap_or(u64::MAX));
    // The kind of the interrupt, 1 for PPIs, and its number among those.
    match (fields.next()?, fields.next()?) {
        (1, ppi @ 0..16) => Some(16 + ppi as u32),
        (kind, n) => {
            note(wrong(node, Defect::NotPrivate { number: n, kind }));
            None
        }
    }
}

/// Returns a property that is one number.
fn value(node: FdtNode<'_>, name: &str) -> Option<u64> {
    let property = node.property(name)?;
    (matches!(property.value().len(), 4 | 8)).then(|| number(property.value()))?
}

/// Returns the virtual addresses for a range of registers, from `next` on: congruent to the physical ones, so that
/// large leaves and contiguous runs can map them at any page size.
pub fn place(next: u64, range: &Range<Pa>) -> Range<u64> {
    let align = if bytes(range) < 2 << 20u32 { 64 << 10u32 } else { 2 << 20u32 };
    let start = next.next_multiple_of(align) + range.start.0 % align;
    start..start + bytes(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
    use std::string::{String, ToString};
    use std::vec::Vec;

    const VIRT: &[u8] = include_bytes!("../tests/data/virt.dtb");

    fn set(node: &mut DeviceTreeNode, name: &str, value: &[u8]) {
        node.add_property(DeviceTreeProperty::new(name, value).unwrap());
    }

    fn reg(ranges: &[(u64, u64)]) -> Vec<u8> {
        ranges.iter().flat_map(|r| [r.0.to_be_bytes(), r.1.to_be_bytes()].concat()).collect()
    }

    fn cells(cells: &[u32]) -> Vec<u8> {
        cells.iter().flat_map(|c| c.to_be_bytes()).collect()
    }

    fn virt() -> DeviceTree {
        DeviceTree::from_fdt(&Fdt::new(VIRT).unwrap())
    }

    /// Makes QEMU's tree with a GICv3 that has these registers.
    fn with_v3(ranges: &[(u64, u64)]) -> DeviceTree {
        let mut tree = virt();
        let node = tree.find_node_mut("/intc@8000000").unwrap();
        set(node, "compatible", b"arm,gic-v3\0");
        set(node, "reg", &reg(ranges));
        tree
    }

    fn read(tree: &DeviceTree) -> (Option<InterruptController>, Option<u32>, Vec<String>) {
        let (dtb, mut notes) = (tree.to_dtb(), Vec::new());
        let tree = Fdt::new(&dtb).unwrap();
        let (controller, timer) = InterruptController::read(tree, &mut |note| notes.push(note.to_string()));
        (controller, timer, notes)
    }

    const DISTRIBUTOR: (u64, u64) = (0x800_0000, 0x1_0000);

    #[test]
    fn qemu_s_gicv2_and_timer() {
        let (controller, timer, notes) = read(&virt());
        let expected = InterruptController::V2 {
            distributor: Pa(0x800_0000)..Pa(0x801_0000),
            cpu_interface: Pa(0x801_0000)..Pa(0x802_0000),
        };
        assert_eq!((controller, timer, notes.len()), (Some(expected), Some(27), 0));
    }

    #[test]
    fn a_gicv3_has_as_many_regions_as_it_says() {
        let ranges = [DISTRIBUTOR, (0x80a_0000, 0xf6_0000), (0x40_0000_0000, 0x400_0000), (0x1000, 0x2000)];
        let mut tree = with_v3(&ranges);
        let one = read(&tree).0.unwrap();
        assert_eq!((one.version(), one.ranges().count()), (3, 2));
        let node = tree.find_node_mut("/intc@8000000").unwrap();
        set(node, "#redistributor-regions", &cells(&[2]));
        set(node, "redistributor-stride", &cells(&[0, 0x4_0000]));
        let Some(InterruptController::V3 { redistributors, stride, .. }) = read(&tree).0 else { panic!() };
        assert_eq!(redistributors[1], Pa(0x40_0000_0000)..Pa(0x40_0400_0000));
        assert_eq!((redistributors.len(), stride), (2, Some(0x4_0000)));
    }

    #[test]
    fn more_regions_than_there_is_room_for_are_left_out() {
        let regions = (0..REGIONS as u64 + 2).map(|i| (0x1000_0000 + i * 0x100_0000, 0x2_0000));
        let mut tree = with_v3(&[DISTRIBUTOR].into_iter().chain(regions).collect::<Vec<_>>());
        let node = tree.find_node_mut("/intc@8000000").unwrap();
        set(node, "#redistributor-regions", &cells(&[REGIONS as u32 + 2]));
        assert_eq!(read(&tree).0.unwrap().ranges().count(), 1 + REGIONS);
    }

    #[test]
    fn registers_that_cannot_be_are_named() {
        let (small, endless) = ((0x80a_0000, 0x1000), (u64::MAX - 0xfff, 0x2_0000));
        for ranges in [&[DISTRIBUTOR][..], &[DISTRIBUTOR, small], &[endless, DISTRIBUTOR], &[]] {
            let (controller, _, notes) = read(&with_v3(ranges));
            assert!(controller.is_none() && notes.iter().any(|n| n.contains("intc@8000000")), "{notes:?}");
        }
        let mut tree = with_v3(&[DISTRIBUTOR, (0x80a_0000, 0x10_0000)]);
        set(tree.find_node_mut("/intc@8000000").unwrap(), "redistributor-stride", &cells(&[0]));
        assert_eq!(read(&tree).2, ["intc@8000000: its registers are not those of a GIC"]);
    }

    #[test]
    fn without_a_controller_there_is_none() {
        let mut tree = virt();
        set(tree.find_node_mut("/intc@8000000").unwrap(), "compatible", b"arm,gic-v9\0");
        assert_eq!(read(&tree), (None, None, Vec::new()));
        set(tree.find_node_mut("/intc@8000000").unwrap(), "compatible", b"arm,gic-400\0");
        set(tree.find_node_mut("/intc@8000000").unwrap(), "status", b"disabled\0");
        assert_eq!(read(&tree).2, ["intc@8000000 is 'disabled'; not used"]);
    }

    #[test]
    fn a_bus_that_translates_nothing_may_have_it() {
        let mut tree = virt();
        let gic = tree.root.remove_child("intc@8000000").unwrap();
        let mut bus = DeviceTreeNode::new("soc").unwrap();
        set(&mut bus, "#address-cells", &cells(&[2]));
        set(&mut bus, "#size-cells", &cells(&[2]));
        bus.add_child(gic);
        tree.root.add_child(bus);
        assert_eq!(read(&tree).0, None);
        assert_eq!(read(&tree).2.iter().filter(|note| note.contains("the ranges of soc")).count(), 2);
        set(tree.find_node_mut("/soc").unwrap(), "ranges", &[]);
        assert_eq!(read(&tree).0.unwrap().version(), 2);
    }

    #[test]
    fn a_bus_that_translates_may_have_it() {
        let mut tree = virt();
        let gic = tree.root.remove_child("intc@8000000").unwrap();
        let timer = tree.root.remove_child("timer").unwrap();
        let mut bus = DeviceTreeNode::new("soc").unwrap();
        set(&mut bus, "#address-cells", &cells(&[2]));
        set(&mut bus, "#size-cells", &cells(&[2]));
        set(&mut bus, "ranges", &reg(&[(0x800_0000, 0x1f_0000_0000), (0x100_0000, 0)])[..24]);
        bus.add_child(gic);
        bus.add_child(timer);
        tree.root.add_child(bus);
        let (controller, timer, notes) = read(&tree);
        let distributor = Pa(0x1f_0000_0000)..Pa(0x1f_0001_0000);
        assert_eq!(controller.unwrap().ranges().next(), Some(&distributor));
        assert_eq!((timer, notes.len()), (Some(27), 0));
    }

    #[test]
    fn the_third_interrupt_is_the_virtual_timer_s() {
        let timer = |interrupts: &[u32], per_interrupt: u32| {
            let mut tree = virt();
            set(tree.find_node_mut("/timer").unwrap(), "interrupts", &cells(interrupts));
            set(tree.find_node_mut("/intc@8000000").unwrap(), "#interrupt-cells", &cells(&[per_interrupt]));
            let (_, timer, notes) = read(&tree);
            (timer, notes)
        };
        assert_eq!(timer(&[1, 13, 4, 1, 14, 4, 1, 15, 4], 3).0, Some(31));
        assert_eq!(timer(&[1, 13, 4, 0, 1, 14, 4, 0, 1, 11, 4, 0], 4).0, Some(27));
        assert_eq!(timer(&[1, 13, 4, 1, 14, 4], 3).0, None);
        assert_eq!(timer(&[1, 13, 4], 0).0, None);
        let shared = timer(&[1, 13, 4, 1, 14, 4, 0, 40, 4], 3);
        assert_eq!(shared, (None, ["timer: interrupt 40 of kind 0 is no CPU's own timer".into()].into()));
        assert_eq!(timer(&[1, 13, 4, 1, 14, 4, 1, 16, 4], 3).0, None);
    }

    #[test]
    fn large_ranges_are_placed_for_large_leaves() {
        assert_eq!(place(0x11_0000, &(Pa(0x800_0000)..Pa(0x801_0000))), 0x11_0000..0x12_0000);
        assert_eq!(place(0x12_0001, &(Pa(0x801_0800)..Pa(0x801_1000))), 0x13_0800..0x13_1000);
        assert_eq!(place(0x12_0000, &(Pa(0x80a_0000)..Pa(0x900_0000))), 0x2a_0000..0x120_0000);
    }
}
