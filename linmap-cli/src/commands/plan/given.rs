//! A machine as far as its linear map goes, whatever describes it: an amount of RAM, /proc/iomem, or a device
//! tree. Each becomes a device tree that the kernel's own code reads.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use kernel_plan::machine::Machine;
use kernel_plan::ranges::CAPACITY;
use linmap::Pa;

use super::failure::Failure;
use super::iomem::{self, Iomem};
use super::{image, virt};
use crate::commands::boot;
use crate::commands::boot::options::{Crashkernel, Rodata, Split};
use crate::size::{Size, SizeError, human};

/// Longer than the iomem or the device tree of any machine.
const LONGEST: u64 = 16 << 20;

/// Which machine, and how its kernel is told to map it.
#[derive(Args)]
pub(crate) struct MachineOptions {
    /// RAM of a machine like QEMU's virt, as for `linmap boot`: one range from 1G on
    #[arg(long, value_name = "SIZE", value_parser = ram, help_heading = "Machine")]
    #[arg(conflicts_with_all = ["iomem", "dtb"])]
    pub(crate) ram: Option<Size>,

    /// Memory of a running Linux: a copy of its /proc/iomem, read by root
    #[arg(long, value_name = "FILE", conflicts_with = "dtb", help_heading = "Machine")]
    pub(crate) iomem: Option<PathBuf>,

    /// Memory as a flattened device tree has it
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub(crate) dtb: Option<PathBuf>,

    /// Number of CPUs, which --bbml2 counts
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Machine")]
    #[arg(value_parser = RangedU64ValueParser::<u16>::new().range(1..=512))]
    pub(crate) cpus: u16,

    /// Code and constants of the kernel, by physical addresses, or none [default: where `linmap boot` has
    /// them, or as --iomem says]
    #[arg(long, value_name = "START-END", help_heading = "Machine")]
    pub(crate) kernel: Option<KernelRange>,

    /// Bits of a virtual address, 36 to 52
    #[arg(long, value_name = "BITS", default_value_t = 48, help_heading = "Kernel")]
    #[arg(value_parser = RangedU64ValueParser::<u8>::new().range(36..=52))]
    pub(crate) va_bits: u8,

    /// What is kept read-only
    #[arg(long, value_name = "WHAT", default_value = "full", value_enum, help_heading = "Kernel")]
    pub(crate) rodata: Rodata,

    /// Which CPUs never abort when block sizes change: auto (all of them), off (none), boot-cpu (only the
    /// one that boots), or only so many
    #[arg(long, value_name = "WHO", default_value = "auto", value_parser = boot::options::bbml2)]
    #[arg(help_heading = "Kernel")]
    pub(crate) bbml2: String,

    /// What to do where live splits are impossible
    #[arg(long, value_name = "HOW", default_value = "pages", value_enum, help_heading = "Kernel")]
    pub(crate) split: Split,

    /// Memory to set aside for a crash kernel [default: none, or as --iomem says]
    #[arg(long, value_name = "SIZE[@OFFSET]", help_heading = "Kernel")]
    pub(crate) crashkernel: Option<Crashkernel>,
}

/// Where the kernel's code and constants are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelRange {
    None,
    At(Range<Pa>),
}

impl FromStr for KernelRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const RIGHT: &str = "START-END is right, such as 0x40210000-0x41930000, or none";
        if text == "none" {
            return Ok(Self::None);
        }
        let (start, end) = text.split_once('-').ok_or(RIGHT)?;
        let (Ok(Size(start)), Ok(Size(end))) = (start.parse(), end.parse()) else {
            return Err(RIGHT.to_owned());
        };
        if end <= start {
            return Err(format!("it ends before it starts; {RIGHT}"));
        }
        Ok(Self::At(Pa(start)..Pa(end)))
    }
}

/// The most RAM that a machine can have: what 52-bit addresses leave above 1G.
const MOST_RAM: u64 = (1 << 52) - virt::RAM_START;
/// What `linmap boot` needs for its image and a device tree behind it.
const LEAST_RAM: Size = Size(8 << 20);

fn ram(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    match size.0 {
        0 => Err("a machine without RAM has no linear map; 256G is right, for example".to_owned()),
        bytes if bytes < LEAST_RAM.0 => Err(format!("the image and its device tree need {LEAST_RAM} of RAM")),
        bytes if bytes > MOST_RAM => Err(format!("52-bit addresses end RAM at {}", Size(MOST_RAM))),
        _ => Ok(size),
    }
}

/// Where the kernel's code and constants are said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Nowhere: there are none in the plan.
    Nothing,
    /// As large as the image was that this version built last; none is at hand.
    Assumed,
    /// As large as those of the image that was built.
    Measured,
    /// The options say.
    Named,
    /// /proc/iomem says.
    Iomem,
}

/// A machine.
pub(crate) struct Given<'o> {
    pub(crate) options: &'o MachineOptions,
    /// What describes it, for people.
    pub(crate) source: String,
    pub(crate) machine: Machine,
    /// All of the kernel image; may be empty.
    pub(crate) image: Range<Pa>,
    /// Of that, code and constants.
    pub(crate) read_only: Range<Pa>,
    /// How that is known.
    pub(crate) basis: Basis,
    pub(crate) tree: Range<Pa>,
    /// A crash kernel's memory that is there without being asked for.
    pub(crate) crash: Option<Range<Pa>>,
    /// What is worth knowing.
    pub(crate) notes: Vec<String>,
}

impl<'o> Given<'o> {
    /// Reads what the options name.
    pub(crate) fn read(options: &'o MachineOptions) -> Result<Self, Failure> {
        match (options.ram, &options.iomem, &options.dtb) {
            (Some(ram), ..) => Self::of_ram(options, ram),
            (None, Some(path), _) => Self::of_iomem(options, path)?.with_kernel(),
            (None, None, Some(path)) => Self::of_dtb(options, path)?.with_kernel(),
            (None, None, None) => Err(Failure::NoMachine),
        }
    }

    /// The same; where the options name nothing, a machine with so much RAM.
    pub(crate) fn read_or(options: &'o MachineOptions, ram: Size) -> Result<Self, Failure> {
        match Self::read(options) {
            Err(Failure::NoMachine) => Self::of_ram(options, ram),
            read => read,
        }
    }

    /// QEMU's machine with so much RAM and the image in it that a build has left, or would leave.
    pub(crate) fn of_ram(options: &'o MachineOptions, ram: Size) -> Result<Self, Failure> {
        let source = format!("{} from {:#x}", human(ram.0), virt::RAM_START);
        let tree = device_tree(&[virt::ram(ram.0)], &[]);
        let mut given = Self::new(options, source, &tree)
            .map_err(|reason| Failure::Dtb { path: PathBuf::from("--ram"), reason })?;
        let found = match options.kernel {
            None => boot::image::find(None).ok().map(|path| image::sizes_of(&path)).transpose()?.flatten(),
            Some(_) => None,
        };
        let sizes = found.unwrap_or_else(image::Sizes::built_in);
        if options.kernel.is_none() {
            given.image = sizes.image_at(virt::IMAGE_START);
            given.read_only = sizes.read_only_at(virt::IMAGE_START);
            given.basis = if found.is_some() { Basis::Measured } else { Basis::Assumed };
        }
        given.tree = virt::device_tree(ram.0, &given.image);
        given.with_kernel()
    }

    fn of_iomem(options: &'o MachineOptions, path: &Path) -> Result<Self, Failure> {
        let text = String::from_utf8_lossy(&contents(path, "/proc/iomem")?).into_owned();
        let wrong = |error| Failure::Iomem { path: path.to_owned(), error };
        let Iomem { ram, reserved, code, kernel, crash } = iomem::read(&text).map_err(wrong)?;
        if ram.len() > CAPACITY {
            return Err(Failure::TooManyRanges { what: format!("`{}`", path.display()), count: ram.len() });
        }
        let reserved = few(reserved, CAPACITY / 2);
        let source = format!("`{}`", path.display());
        let mut given = Self::new(options, source, &device_tree(&ram, &reserved))
            .map_err(|reason| Failure::Dtb { path: path.to_owned(), reason })?;
        given.image = kernel.unwrap_or_default();
        given.basis = if code.is_some() { Basis::Iomem } else { Basis::Nothing };
        given.read_only = code.unwrap_or_default();
        given.crash = crash;
        Ok(given)
    }

    fn of_dtb(options: &'o MachineOptions, path: &Path) -> Result<Self, Failure> {
        let tree = contents(path, "device tree")?;
        let unreadable = |reason| Failure::Dtb { path: path.to_owned(), reason };
        Self::new(options, format!("`{}`", path.display()), &tree).map_err(unreadable)
    }

    fn new(options: &'o MachineOptions, source: String, tree: &[u8]) -> Result<Self, String> {
        let mut notes = Vec::new();
        let machine =
            Machine::read(tree, &mut |note| notes.push(note.to_string())).map_err(|e| e.to_string())?;
        notes.retain(|note| is_about_memory(note));
        let nowhere = Pa(0)..Pa(0);
        let (image, read_only, tree) = (nowhere.clone(), nowhere.clone(), nowhere);
        let basis = Basis::Nothing;
        Ok(Self { options, source, machine, image, read_only, basis, tree, crash: None, notes })
    }

    /// With the kernel where the options say.
    fn with_kernel(mut self) -> Result<Self, Failure> {
        match &self.options.kernel {
            None => {}
            Some(KernelRange::None) => {
                (self.image, self.read_only) = Default::default();
                self.basis = Basis::Nothing;
            }
            Some(KernelRange::At(range)) => {
                if !self.machine.ram.covers(range) {
                    let remedy = "not inside one range of the machine's RAM";
                    return Err(Failure::Kernel { start: range.start.0, end: range.end.0, remedy });
                }
                let end = range.end.max(self.image.end);
                self.image = range.start..if self.image.start == range.start { end } else { range.end };
                self.read_only = range.clone();
                self.basis = Basis::Named;
            }
        }
        Ok(self)
    }
}

/// Whether something that was left out of a device tree matters to the linear map.
fn is_about_memory(note: &str) -> bool {
    let others = ["console", "interrupt", "timer", "CPU", "cpu", "bootargs", "model", "GIC", "gic", "intc"];
    !others.iter().any(|word| note.contains(word))
}

/// A file of bounded length.
fn contents(path: &Path, what: &'static str) -> Result<Vec<u8>, Failure> {
    let unreadable = |error| Failure::Unreadable { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 {
        bytes if bytes > LONGEST => {
            Err(Failure::TooLong { path: path.to_owned(), what, bytes, limit: LONGEST })
        }
        _ => Ok(bytes),
    }
}

/// At most so many ranges that cover these: the nearest become one.
fn few(mut ranges: Vec<Range<Pa>>, most: usize) -> Vec<Range<Pa>> {
    ranges.sort_by_key(|range| range.start);
    let mut gap = 1;
    while ranges.len() > most {
        let mut fewer: Vec<Range<Pa>> = Vec::new();
        for range in ranges {
            match fewer.last_mut() {
                Some(last) if range.start.0.saturating_sub(last.end.0) < gap => {
                    last.end = last.end.max(range.end);
                }
                _ => fewer.push(range),
            }
        }
        (ranges, gap) = (fewer, gap * 2);
    }
    ranges
}

/// A device tree that says this and no more.
fn device_tree(ram: &[Range<Pa>], reserved: &[Range<Pa>]) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    with_cells(&mut tree.root);
    tree.root.add_child(node("memory", Some(b"memory\0"), ram));
    if !reserved.is_empty() {
        let mut parent = node("reserved-memory", None, &[]);
        with_cells(&mut parent);
        parent.add_child(node("reserved", None, reserved));
        tree.root.add_child(parent);
    }
    tree.to_dtb()
}

fn with_cells(node: &mut DeviceTreeNode) {
    for name in ["#address-cells", "#size-cells"] {
        add(node, name, &2u32.to_be_bytes());
    }
}

fn node(name: &str, device_type: Option<&[u8]>, ranges: &[Range<Pa>]) -> DeviceTreeNode {
    let mut node = DeviceTreeNode::new(name).unwrap_or_else(|_| unreachable!("{name} is the name of a node"));
    if let Some(device_type) = device_type {
        add(&mut node, "device_type", device_type);
    }
    let reg: Vec<u8> =
        ranges.iter().flat_map(|r| [r.start.0, r.end.0 - r.start.0]).flat_map(u64::to_be_bytes).collect();
    if !reg.is_empty() {
        add(&mut node, "reg", &reg);
    }
    node
}

fn add(node: &mut DeviceTreeNode, name: &str, value: &[u8]) {
    if let Ok(property) = DeviceTreeProperty::new(name, value) {
        node.add_property(property);
    }
}
