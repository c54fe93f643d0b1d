//! A boot loader that passes any device tree to the kernel.

use std::process::Command;

use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use tempfile::TempDir;

use crate::guest::{Booted, boot_with};

/// Runs QEMU with this loader in place of its own.
const QEMU: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/image/loader-qemu");

/// The address of the tree.
const TREE: u64 = 0x4800_0000;

/// The kernel's state at its start.
pub(crate) struct Loader {
    tree: Vec<u8>,
    /// The value of x0.
    tree_at: u64,
    /// Code that runs before the kernel.
    first: Vec<u32>,
    /// The address of the image.
    image_at: u64,
    /// The device of QEMU that has the console; if it is empty, the machine's own.
    console: &'static str,
}

impl Loader {
    /// Returns a loader with the tree of a machine of 1 GiB.
    pub(crate) fn new() -> Self {
        Self { tree: qemus_own_tree(), tree_at: TREE, first: Vec::new(), image_at: 0x4020_0000, console: "" }
    }

    /// Replaces the tree by bytes that are not one.
    pub(crate) fn bytes(self, tree: Vec<u8>) -> Self {
        Self { tree, ..self }
    }

    /// Puts another address than the tree's into x0.
    pub(crate) fn tree_at(self, tree_at: u64) -> Self {
        Self { tree_at, ..self }
    }

    /// Changes the tree.
    pub(crate) fn tree(self, change: impl FnOnce(&mut DeviceTree)) -> Self {
        let mut tree = DeviceTree::from_fdt(&Fdt::new(&self.tree).expect("QEMU's tree is well-made"));
        change(&mut tree);
        Self { tree: tree.to_dtb(), ..self }
    }

    /// Replaces the memory by ranges of these addresses and sizes, whatever the machine has.
    pub(crate) fn memory(self, ranges: &[(u64, u64)]) -> Self {
        let reg = reg(ranges);
        self.tree(|tree| {
            let memory = tree.find_node_mut("/memory@40000000").expect("QEMU's tree has memory");
            memory.add_property(DeviceTreeProperty::new("reg", reg.as_slice()).expect("a property"));
        })
    }

    /// Returns the tree.
    pub(crate) fn bytes_of_tree(&self) -> &[u8] {
        &self.tree
    }

    /// Moves the image.
    pub(crate) fn image_at(self, image_at: u64) -> Self {
        Self { image_at, ..self }
    }

    /// Sets the boot arguments.
    pub(crate) fn bootargs(self, line: &str) -> Self {
        self.tree(|tree| {
            let chosen = tree.find_node_mut("/chosen").expect("QEMU's tree has arguments");
            let line = format!("{line}\0");
            chosen.add_property(DeviceTreeProperty::new("bootargs", line.as_bytes()).expect("a property"));
        })
    }

    /// Adds code before the kernel's.
    pub(crate) fn first(self, code: &[u32]) -> Self {
        Self { first: code.to_vec(), ..self }
    }

    /// Gives the console to another device of QEMU.
    pub(crate) fn console(self, console: &'static str) -> Self {
        Self { console, ..self }
    }

    /// Boots a machine of 1 GiB with it.
    pub(crate) fn boot(&self) -> Booted {
        self.boot_with(&[])
    }

    /// The same, with more options.
    pub(crate) fn boot_with(&self, more: &[&str]) -> Booted {
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let file = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).expect("a file");
            path.into_os_string().into_string().expect("a plain path")
        };
        let (tree, stub) =
            (file("tree", &self.tree), file("stub", &stub(&self.first, self.tree_at, self.image_at)));
        let at = format!("{:#x}", self.image_at);
        let options = ["--qemu", QEMU, "--ram", "1G"];
        boot_with(
            &[&options, more].concat(),
            &[
                ("LINMAP_TREE", &tree),
                ("LINMAP_STUB", &stub),
                ("LINMAP_IMAGE_AT", &at),
                ("LINMAP_CONSOLE", self.console),
            ],
        )
    }
}

/// Returns a node that reserves ranges of these addresses and sizes.
pub(crate) fn reserved(ranges: &[(u64, u64)]) -> DeviceTreeNode {
    let property = |name: &str, value: &[u8]| DeviceTreeProperty::new(name, value).expect("a property");
    let mut all = DeviceTreeNode::new("reserved-memory").expect("a node");
    for cells in ["#address-cells", "#size-cells"] {
        all.add_property(property(cells, &2_u32.to_be_bytes()));
    }
    all.add_property(property("ranges", &[]));
    let mut one = DeviceTreeNode::new("taken").expect("a node");
    one.add_property(property("reg", &reg(ranges)));
    all.add_child(one);
    all
}

fn reg(ranges: &[(u64, u64)]) -> Vec<u8> {
    ranges.iter().flat_map(|(start, size)| [start.to_be_bytes(), size.to_be_bytes()].concat()).collect()
}

const NOP: u32 = 0xd503_201f;

/// Returns code that jumps to the image with the tree's address in x0, after `first`.
fn stub(first: &[u32], tree: u64, image: u64) -> Vec<u8> {
    let code: [u32; 4] = [
        0x5800_0080, // ldr x0, .+16
        0x5800_00a1, // ldr x1, .+20
        0xd61f_0020, // br x1
        NOP,
    ];
    // The two addresses are aligned: without an MMU no other load is permitted.
    let even = (first.len() % 2 == 1).then_some(NOP);
    let words = first.iter().copied().chain(even).chain(code).flat_map(u32::to_le_bytes);
    words.chain(tree.to_le_bytes()).chain(image.to_le_bytes()).collect()
}

fn qemus_own_tree() -> Vec<u8> {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("tree");
    let machine = format!("virt,gic-version=3,dumpdtb={}", path.display());
    let mut qemu = Command::new("qemu-system-aarch64");
    qemu.args(["-M", &machine, "-cpu", "max", "-m", "1G", "-nodefaults", "-display", "none"]);
    assert!(qemu.output().expect("QEMU is there").status.success());
    std::fs::read(path).expect("QEMU wrote its tree")
}
