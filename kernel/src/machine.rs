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
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(e) => write!(f, "the device tree can not be read: {e}"),
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
        each_reg(node, note, |range, note| match ram.add(range.clone()) {
            Ok(true) => note(format_args!("memory {range:?} overlaps other memory; merged")),
            Ok(false) => {}
            Err(Full) => note(format_args!("memory {range:?} left out: more than {CAPACITY} ranges")),
        });
    }
    for entry in tree.memory_reservations() {
        let range = Pa(entry.address())..Pa(entry.address().saturating_add(entry.size()));
        if reserved.add(range.clone()).is_err() {
            note(format_args!("reservation {range:?} left out: more than {CAPACITY} ranges"));
        }
    }
    for node in tree.find_node("/reserved-memory").into_iter().flat_map(|n| n.children()) {
        let no_map = node.property("no-map").is_some();
        each_reg(node, note, |range, note| {
            let done = if no_map { ram.remove(&range) } else { reserved.add(range.clone()).map(|_| ()) };
            if let Err(Full) = done {
                note(format_args!("reserved memory {range:?} left out: more than {CAPACITY} ranges"));
            }
        });
    }
    if ram.as_slice().is_empty() { Err(MachineError::NoMemory) } else { Ok((ram, reserved)) }
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
