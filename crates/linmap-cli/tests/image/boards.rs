//! Boards other than QEMU's own: a console behind a bus, and no console if its usual address is RAM.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dtoolkit::Node;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use tempfile::TempDir;

use crate::loader::Loader;

/// The last line of a run that went well.
const WELL: &str = "linmap: {\"finished\":true,\"ok\":true}";

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn node(name: &str, properties: &[(&str, &[u8])]) -> DeviceTreeNode {
    let mut node = DeviceTreeNode::new(name).expect("a name");
    for (name, value) in properties {
        node.add_property(DeviceTreeProperty::new(*name, *value).expect("a property"));
    }
    node
}

/// Returns a tree with cells of this size and these nodes; QEMU adds the memory.
fn tree(cells: u32, stdout: Option<&str>, nodes: impl IntoIterator<Item = DeviceTreeNode>) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    let cells = words(&[cells]);
    let mut chosen = node("chosen", &[("bootargs", b"run=selftest\0")]);
    if let Some(path) = stdout {
        let path = format!("{path}\0");
        chosen.add_property(DeviceTreeProperty::new("stdout-path", path.as_bytes()).expect("a property"));
    }
    tree.root = node("", &[("#address-cells", &cells), ("#size-cells", &cells), ("model", b"a board\0")]);
    tree.root.add_child(chosen);
    nodes.into_iter().for_each(|node| tree.root.add_child(node));
    tree.to_dtb()
}

/// QEMU with the image that `make image` built; dropping it ends QEMU.
struct Board {
    qemu: Child,
    directory: TempDir,
}

impl Drop for Board {
    fn drop(&mut self) {
        _ = self.qemu.kill();
        _ = self.qemu.wait();
    }
}

impl Board {
    fn start(directory: TempDir, machine: &str, tree: &[u8], more: &[&str]) -> Self {
        let image = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().map(|target| target.join("linmap.img"));
        let (dtb, serial) = (directory.path().join("tree"), directory.path().join("serial"));
        fs::write(&dtb, tree).expect("a file");
        let mut qemu = Command::new("qemu-system-aarch64");
        qemu.args(["-M", machine, "-display", "none", "-no-reboot", "-monitor", "none"]);
        qemu.arg("-kernel").arg(image.expect("a directory")).arg("-dtb").arg(dtb);
        // After the others, so that these can be serial ports before the one of the console.
        qemu.args(more).arg("-serial").arg(format!("file:{}", serial.display()));
        // The boards have sound.
        qemu.env("QEMU_AUDIO_DRV", "none");
        Self { qemu: qemu.stdin(Stdio::null()).spawn().expect("QEMU is there"), directory }
    }

    fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.directory.path().join("serial")).unwrap_or_default())
            .into_owned()
    }

    /// Waits until a condition holds, and fails if it never does.
    fn wait(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        for _ in 0..3000 {
            if holds(self) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("nothing more came after:\n{}", self.console());
    }
}

fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// Boots a Raspberry Pi 3 with a port of this node as the console. Buses of the board have other addresses than CPUs; there is
/// RAM at 0x09000000. There is no PSCI, so the run is over when it reports that.
fn raspberry_pi(uart: DeviceTreeNode, more: &[&str]) {
    let path = format!("/soc/{}\0", uart.name());
    let ranges = words(&[0x7e00_0000, 0x3f00_0000, 0x100_0000, 0x4000_0000, 0x4000_0000, 0x1000]);
    let one = words(&[1]);
    let mut soc = node("soc", &[("#address-cells", &one), ("#size-cells", &one), ("ranges", &ranges)]);
    soc.add_child(uart);
    let aliases = node("aliases", &[("serial0", path.as_bytes())]);
    let tree = tree(1, Some("serial0:115200n8"), [soc, aliases]);
    let mut board = Board::start(directory(), "raspi3b", &tree, more);
    board.wait(|board| board.console().contains("\"finished\":"));
    let console = board.console();
    assert!(console.contains(WELL) && !console.contains("no console"), "{console}");
}

#[test]
fn a_console_behind_a_bus_speaks() {
    let reg = words(&[0x7e20_1000, 0x200]);
    raspberry_pi(
        node("serial@7e201000", &[("compatible", b"arm,pl011\0arm,primecell\0"), ("reg", &reg)]),
        &[],
    );
}

/// The second port of the board has registers like a 16550's, each a word.
#[test]
fn a_16550_with_registers_of_words_speaks() {
    let reg = words(&[0x7e21_5040, 0x40]);
    let uart = node("serial@7e215040", &[("compatible", b"brcm,bcm2835-aux-uart\0"), ("reg", &reg)]);
    raspberry_pi(uart, &["-serial", "null"]);
}

/// A card on PCI, whose registers are at 0x3eff1000: code of the loader writes the card's first BAR and its command register.
#[test]
fn a_16550_with_registers_of_bytes_speaks() {
    let code = [
        0xd290_0200, // mov x0, #0x8010
        0xf2a2_0000, // movk x0, #0x1000, lsl #16
        0xf2c0_0800, // movk x0, #0x40, lsl #32
        0x5282_0001, // mov w1, #0x1000
        0xb900_0001, // str w1, [x0]: the BAR
        0x5280_0021, // mov w1, #1
        0xd100_3000, // sub x0, x0, #12
        0x7900_0001, // strh w1, [x0]: the command
        0xd503_3f9f, // dsb sy
    ];
    let loader =
        Loader::new().first(&code).console("pci-serial,addr=1").bootargs("run=selftest").tree(|tree| {
            let uart = tree.find_node_mut("/pl011@9000000").expect("QEMU's tree has a console");
            for (name, value) in
                [("compatible", &b"ns16550a\0"[..]), ("reg", &words(&[0, 0x3eff_1000, 0, 8]))]
            {
                uart.add_property(DeviceTreeProperty::new(name, value).expect("a property"));
            }
        });
    let booted = loader.boot().expect_well("a 16550");
    assert!(!booted.says("no console"), "{}", booted.console);
}

/// A ZynqMP has no PL011, and RAM at the address of the console of QEMU's own machine: nothing is written there, and
/// the run goes well. Its output stays in memory.
#[test]
fn without_a_console_nothing_is_written_to_ram() {
    const UART: u64 = 0x0900_0000;
    let directory = directory();
    let path: PathBuf = directory.path().join("ram");
    let ram = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
    ram.set_len(2 << 30).expect("a sparse file");
    // A pattern that, read as a status register, does not say that the console is full.
    let pattern = [0x11; 4096];
    ram.write_all_at(&pattern, UART).expect("a page");
    let two = words(&[2]);
    let mut reserved =
        node("reserved-memory", &[("#address-cells", &two), ("#size-cells", &two), ("ranges", &[])]);
    reserved.add_child(node("page@9000000", &[("reg", &words(&[0, UART as u32, 0, 4096]))]));
    let psci = node("psci", &[("compatible", b"arm,psci-1.0\0"), ("method", b"smc\0")]);
    let tree = tree(2, None, [reserved, psci]);
    let memory = format!("memory-backend-file,id=mem,size=2G,mem-path={},share=on", path.display());
    let machine = "xlnx-zcu102,secure=off,virtualization=off,memory-backend=mem";
    let mut board = Board::start(directory, machine, &tree, &["-m", "2G", "-object", &memory]);
    board.wait(|board| board.qemu.try_wait().expect("QEMU").is_some());
    let mut page = [0; 4096];
    ram.read_exact_at(&mut page, UART).expect("RAM");
    assert!(page == pattern, "{:x?} was written", &page[..8]);
    let mut low = vec![0; 16 << 20];
    ram.read_exact_at(&mut low, 0).expect("RAM");
    let said = low.windows(WELL.len()).any(|text| text == WELL.as_bytes());
    assert!(said && board.console().is_empty(), "{}", board.console());
}
