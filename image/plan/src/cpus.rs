//! The CPUs of a machine: which exist, how each is started, and their order; and how a device tree describes them.
//!
//! The description is not trusted: a CPU that makes no sense is reported and left out.

use arrayvec::ArrayVec;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};
use linmap::Pa;

use crate::device_tree::{number, text};
use crate::note::{CpuDefect, Note};

/// The most CPUs that are used.
pub const MAX: usize = 512;

/// The fields of MPIDR_EL1 that tell CPUs apart, Aff3 to Aff0: PSCI and device trees name a CPU by them.
pub const AFFINITY: u64 = 0xff_00ff_ffff;

/// The way to start a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// By PSCI CPU_ON.
    Psci,
    /// The CPU is in a loop of the firmware's until the address of code is stored here: 8 bytes, aligned.
    SpinTable(Pa),
    /// None that is known.
    Unknown,
}

/// A CPU that may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    pub(crate) mpidr: u64,
    pub(crate) start: Start,
}

/// The CPUs of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cpus {
    /// The number of CPUs that the description has.
    pub present: u32,
    listed: ArrayVec<Listed, MAX>,
    /// The number of CPUs that there was no room for.
    beyond: u32,
}

/// CPUs in the order of their numbers, the boot CPU first.
pub type Order = ArrayVec<u64, MAX>;

impl Cpus {
    /// Reads the nodes below `/cpus`. Calls `note` for each CPU that is left out.
    pub(crate) fn read(tree: Fdt<'_>, note: &mut dyn FnMut(Note<'_>)) -> Self {
        let mut cpus = Self::default();
        let Some(parent) = tree.find_node("/cpus") else {
            return cpus;
        };
        let cell_bytes = (parent.address_space().address_cells as usize).saturating_mul(4);
        for node in parent.children().filter(is_cpu) {
            cpus.add(node.name(), listed(node, cell_bytes), note);
        }
        cpus.note_left_out(note);
        cpus
    }

    /// Adds a CPU, by the name that notes call it.
    pub(crate) fn add(&mut self, name: &str, cpu: Result<Listed, CpuDefect>, note: &mut dyn FnMut(Note<'_>)) {
        self.present += 1;
        match cpu {
            Ok(Listed { mpidr, .. }) if mpidr & !AFFINITY != 0 => {
                note(Note::Cpu { name, defect: CpuDefect::Mpidr(mpidr) });
            }
            Ok(Listed { mpidr, .. }) if self.listed.iter().any(|c| c.mpidr == mpidr) => {
                note(Note::Cpu { name, defect: CpuDefect::Duplicate(mpidr) });
            }
            Ok(cpu) => self.beyond += u32::from(self.listed.try_push(cpu).is_err()),
            Err(defect) => note(Note::Cpu { name, defect }),
        }
    }

    /// Notes how many CPUs there was no room for.
    pub(crate) fn note_left_out(&self, note: &mut dyn FnMut(Note<'_>)) {
        if self.beyond != 0 {
            note(Note::CpusLeftOut { count: self.beyond, most: MAX });
        }
    }

    /// Returns the CPUs to run: first the one that boots, which has this MPIDR, then the others in the order of the
    /// description, `limit` in all. Calls `note` for each that cannot be started.
    pub fn order(&self, boot: u64, limit: Option<u32>, note: &mut dyn FnMut(Note<'_>)) -> Order {
        let boot = boot & AFFINITY;
        let mut order = Order::new();
        order.push(boot);
        if self.beyond == 0 && self.present != 0 && !self.listed.iter().any(|c| c.mpidr == boot) {
            note(Note::BootCpuUnlisted { mpidr: boot });
        }
        let most = limit.map_or(MAX, |limit| (limit as usize).clamp(1, MAX));
        for cpu in self.listed.iter().filter(|c| c.mpidr != boot) {
            if order.len() == most {
                break;
            }
            match cpu.start {
                Start::Unknown => note(Note::NotByPsci { mpidr: cpu.mpidr }),
                Start::Psci | Start::SpinTable(_) => order.push(cpu.mpidr),
            }
        }
        order
    }

    /// Returns the way to start a CPU.
    pub fn start(&self, mpidr: u64) -> Start {
        self.listed.iter().find(|cpu| cpu.mpidr == mpidr).map_or(Start::Unknown, |cpu| cpu.start)
    }
}

/// Reads the node of a CPU.
fn listed(node: FdtNode<'_>, cell_bytes: usize) -> Result<Listed, CpuDefect> {
    if let Some(status) = text(node, "status").filter(|s| !matches!(*s, "okay" | "ok")) {
        // Only the usual word is repeated; others may be anything.
        return Err(if status == "disabled" { CpuDefect::Disabled } else { CpuDefect::Status });
    }
    let reg = node.property("reg").ok_or(CpuDefect::NoReg)?;
    let bytes = reg.value();
    if bytes.is_empty() || bytes.len() > 8 || bytes.len() != cell_bytes {
        return Err(CpuDefect::Reg { bytes: bytes.len(), cell_bytes });
    }
    let mpidr = bytes.iter().fold(0, |n, b| n << 8u32 | u64::from(*b));
    Ok(Listed { mpidr, start: start(node) })
}

/// Returns the way to start the CPU of a node.
fn start(node: FdtNode<'_>) -> Start {
    let release = || number(node.property("cpu-release-addr")?.value()).filter(|at| at.is_multiple_of(8));
    match text(node, "enable-method") {
        Some("psci") => Start::Psci,
        Some("spin-table") => release().map_or(Start::Unknown, |at| Start::SpinTable(Pa(at))),
        _ => Start::Unknown,
    }
}

fn is_cpu(node: &FdtNode<'_>) -> bool {
    text(*node, "device_type") == Some("cpu")
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
    use std::string::{String, ToString};
    use std::vec::Vec;
    use std::{format, vec};

    type Properties<'a> = &'a [(&'a str, &'a [u8])];

    fn node(name: &str, properties: Properties<'_>) -> DeviceTreeNode {
        let mut node = DeviceTreeNode::new(name).unwrap();
        for (name, value) in properties {
            node.add_property(DeviceTreeProperty::new(*name, *value).unwrap());
        }
        node
    }

    /// Reads the CPUs of a tree with these nodes below /cpus, and returns the notes as well.
    fn read(address_cells: u8, nodes: &[Properties<'_>]) -> (Cpus, Vec<String>) {
        let mut tree = DeviceTree::new();
        let mut cpus =
            node("cpus", &[("#address-cells", &[0, 0, 0, address_cells]), ("#size-cells", &[0; 4])]);
        for (i, properties) in nodes.iter().enumerate() {
            let cpu = [&[("device_type", &b"cpu\0"[..])], *properties].concat();
            cpus.add_child(node(&format!("cpu@{i}"), &cpu));
        }
        cpus.add_child(node("cpu-map", &[]));
        tree.root.add_child(cpus);
        let (dtb, mut notes) = (tree.to_dtb(), Vec::new());
        let cpus = Cpus::read(Fdt::new(&dtb).unwrap(), &mut |note| notes.push(note.to_string()));
        (cpus, notes)
    }

    fn order(cpus: &Cpus, boot: u64, limit: Option<u32>) -> (Vec<u64>, Vec<String>) {
        let mut notes = Vec::new();
        let order = cpus.order(boot, limit, &mut |note| notes.push(note.to_string()));
        (order.to_vec(), notes)
    }

    const PSCI: (&str, &[u8]) = ("enable-method", b"psci\0");

    #[test]
    fn the_boot_cpu_comes_first_and_the_others_in_order() {
        let reg = |n: u32| n.to_be_bytes();
        let regs = [reg(0), reg(1), reg(0x100), reg(0x101)];
        let nodes: Vec<_> = regs.iter().map(|reg| [("reg", &reg[..]), PSCI]).collect();
        let (cpus, notes) = read(1, &nodes.iter().map(|n| &n[..]).collect::<Vec<_>>());
        assert_eq!((cpus.present, notes), (4, vec![]));
        // Bits of MPIDR_EL1 outside the affinity do not matter.
        assert_eq!(order(&cpus, 1 << 31 | 0x100, None), (vec![0x100, 0, 1, 0x101], vec![]));
        assert_eq!(order(&cpus, 0, Some(2)), (vec![0, 1], vec![]));
        assert_eq!(order(&cpus, 0, Some(1)), (vec![0], vec![]));
        let (known, notes) = order(&cpus, 7, None);
        assert_eq!(known, [7, 0, 1, 0x100, 0x101]);
        assert_eq!(notes, ["no usable CPU is listed with MPIDR 0x7, which boots"]);
    }

    #[test]
    fn affinity_3_is_in_the_first_of_two_cells() {
        let (cpus, notes) = read(2, &[&[("reg", &[0; 8])], &[("reg", &[0, 0, 0, 3, 0, 2, 1, 0]), PSCI]]);
        assert_eq!((order(&cpus, 0, None).0, notes), (vec![0, 0x3_0002_0100], vec![]));
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let (cpus, notes) = read(
            1,
            &[
                &[("reg", &[0; 4])],
                &[("reg", &[0, 0, 0, 1]), ("enable-method", b"spin-table\0")],
                &[("reg", &[0, 0, 0, 2]), PSCI, ("status", b"disabled\0")],
                &[("reg", &[0, 0, 0, 3]), PSCI, ("status", b"fail\0")],
                &[("reg", &[0; 8]), PSCI],
                &[PSCI],
                &[("reg", &[0xff, 0, 0, 0]), PSCI],
                &[("reg", &[0; 4]), PSCI],
                &[("reg", &[0, 0, 0, 8]), PSCI, ("status", b"okay\0")],
            ],
        );
        assert_eq!(cpus.present, 9);
        assert_eq!(
            notes,
            [
                "cpu@2: its status is 'disabled'; left out",
                "cpu@3: its status is not 'okay'; left out",
                "cpu@4: its reg has 8 bytes, but an address here 4; 4 or 8 are right; left out",
                "cpu@5: it has no reg; left out",
                "cpu@6: 0xff000000 is no MPIDR: only Aff3 to Aff0 belong in it; left out",
                "cpu@7: another CPU has MPIDR 0x0 too; left out",
            ]
        );
        let (known, notes) = order(&cpus, 0, None);
        assert_eq!(known, [0, 8]);
        assert_eq!(
            notes,
            ["the CPU with MPIDR 0x1 is not started: not by PSCI, and no spin table has its release address"]
        );
    }

    #[test]
    fn a_spin_table_has_an_address_for_each_cpu() {
        const SPIN: (&str, &[u8]) = ("enable-method", b"spin-table\0");
        let release = |at: &'static [u8]| ("cpu-release-addr", at);
        let (cpus, notes) = read(
            1,
            &[
                &[("reg", &[0; 4]), SPIN, release(&[0, 0, 0, 0, 0, 0, 0, 0xd8])],
                &[("reg", &[0, 0, 0, 1]), SPIN, release(&[0, 0, 0, 1, 0, 0, 0, 0xe0])],
                &[("reg", &[0, 0, 0, 2]), SPIN, release(&[0, 0, 0, 0xe8])],
                &[("reg", &[0, 0, 0, 3]), SPIN, release(&[0, 0, 0, 0xf4])],
            ],
        );
        assert_eq!((order(&cpus, 0, None).0, notes), (vec![0, 1, 2], vec![]));
        assert_eq!(cpus.start(1), Start::SpinTable(Pa(0x1_0000_00e0)));
        assert_eq!(
            [2, 3, 9].map(|mpidr| cpus.start(mpidr)),
            [Start::SpinTable(Pa(0xe8)), Start::Unknown, Start::Unknown]
        );
    }

    #[test]
    fn cpus_beyond_the_most_are_named() {
        let regs: Vec<_> = (0..518u32).map(u32::to_be_bytes).collect();
        let nodes: Vec<_> = regs.iter().map(|reg| [("reg", &reg[..]), PSCI]).collect();
        let (cpus, notes) = read(1, &nodes.iter().map(|n| &n[..]).collect::<Vec<_>>());
        assert_eq!(
            (cpus.present, notes),
            (518, vec!["6 CPUs left out: 512 are the most that are used".into()])
        );
        assert_eq!(order(&cpus, 0, None).0.len(), MAX);
        assert_eq!(order(&cpus, 517, None).0.len(), MAX);
        assert_eq!(order(&cpus, 0, Some(u32::MAX)).0.len(), MAX);
    }

    #[test]
    fn a_tree_without_cpus_has_the_one_that_reads_it() {
        let dtb = DeviceTree::new().to_dtb();
        let cpus = Cpus::read(Fdt::new(&dtb).unwrap(), &mut |note| panic!("{note}"));
        assert_eq!((cpus.present, order(&cpus, 5, None)), (0, (vec![5], vec![])));
    }
}
