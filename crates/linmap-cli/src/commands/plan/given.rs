//! The machine of a plan, as far as its linear map goes: an amount of RAM, /proc/iomem, or a device tree. Each becomes
//! the ranges of memory that the kernel's code plans with.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use kernel_plan::machine::Machine;
use kernel_plan::note::Subject;
use kernel_plan::plan::read_only_bytes;
use kernel_plan::ranges::{CAPACITY, Full, Ranges};
use linmap::Pa;

use super::failure::Failure;
use super::iomem::{self, Iomem};
use super::{image, virt};
use crate::commands::boot;
use crate::kernel_options::KernelOptions;
use crate::size::{Size, SizeError, human};

/// The most bytes of a device tree or of /proc/iomem.
const MAX_FILE: u64 = 16 << 20;

/// The machine and the options of its kernel.
#[derive(Args)]
pub(crate) struct MachineOptions {
    /// RAM of a machine like QEMU's virt, as for `linmap boot`: one range from 1G on
    #[arg(long, value_name = "SIZE", value_parser = ram, help_heading = "Machine")]
    #[arg(conflicts_with_all = ["iomem", "dtb"])]
    pub(crate) ram: Option<Size>,

    /// Memory of a running Linux, its kernel and its crash kernel: a copy of its /proc/iomem, read by root
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

    #[command(flatten)]
    pub(crate) kernel_options: KernelOptions,
}

/// The place of the kernel's code and constants, as the option names it.
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

/// The most RAM that a machine can have: 52-bit addresses above 1G.
const MAX_RAM: u64 = (1 << 52) - virt::RAM_START;
/// The RAM that the image and the device tree after it need.
const MIN_RAM: Size = Size(8 << 20);

fn ram(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    match size.0 {
        0 => Err("a machine without RAM has no linear map; 256G is right, for example".to_owned()),
        bytes if bytes < MIN_RAM.0 => Err(format!("the image and its device tree need {MIN_RAM} of RAM")),
        bytes if bytes > MAX_RAM => Err(format!("52-bit addresses end RAM at {}", Size(MAX_RAM))),
        _ => Ok(size),
    }
}

/// The basis of the place of the kernel's code and constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// There are none in the plan.
    Nothing,
    /// The sizes of the image that this version built last, as no image is at hand.
    Assumed,
    /// The sizes of the image that was built here.
    Measured,
    /// Named by an option.
    Named,
    /// From /proc/iomem.
    Iomem,
}

/// Physical memory by its use.
#[derive(Default)]
pub(crate) struct Memory {
    /// RAM, without the ranges that must not be mapped.
    pub(crate) ram: Ranges,
    /// RAM that is mapped, but reserved.
    pub(crate) reserved: Ranges,
    /// Memory that must not be mapped.
    pub(crate) no_map: Ranges,
}

/// A machine, and the kernel in it.
pub(crate) struct Given<'o> {
    pub(crate) options: &'o MachineOptions,
    /// The source of its memory, for people.
    pub(crate) source: String,
    pub(crate) memory: Memory,
    /// The kernel image; may be empty.
    pub(crate) image: Range<Pa>,
    /// The image's code and constants: [`mapped_read_only`](Self::mapped_read_only) has what is mapped apart for them.
    pub(crate) read_only: Range<Pa>,
    /// The basis of that.
    pub(crate) basis: Basis,
    /// The device tree.
    pub(crate) tree: Range<Pa>,
    /// The crash kernel's memory in /proc/iomem, which counts unless an option names another.
    pub(crate) crash: Option<Range<Pa>>,
    /// Notes for people.
    pub(crate) notes: Vec<String>,
}

impl<'o> Given<'o> {
    /// Reads the machine that the options name.
    pub(crate) fn read(options: &'o MachineOptions) -> Result<Self, Failure> {
        match (options.ram, &options.iomem, &options.dtb) {
            (Some(ram), ..) => Self::of_ram(options, ram),
            (None, Some(path), _) => Self::of_iomem(options, path)?.with_kernel(),
            (None, None, Some(path)) => Self::of_dtb(options, path)?.with_kernel(),
            (None, None, None) => Err(Failure::NoMachine),
        }
    }

    /// Reads the machine that the options name, or returns one with so much RAM if they name none.
    pub(crate) fn read_or(options: &'o MachineOptions, ram: Size) -> Result<Self, Failure> {
        match Self::read(options) {
            Err(Failure::NoMachine) => Self::of_ram(options, ram),
            read => read,
        }
    }

    /// Returns QEMU's machine with so much RAM, and in it the image that was built here or a built-in one's sizes.
    pub(crate) fn of_ram(options: &'o MachineOptions, ram: Size) -> Result<Self, Failure> {
        let source = format!("{} from {:#x}", human(ram.0), virt::RAM_START);
        let memory = Memory { ram: one_range(virt::ram(ram.0)), ..Memory::default() };
        let mut given = Self::new(options, source, memory);
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
        let memory = memory_of_linux(&ram, reserved)
            .map_err(|Full| Failure::TooManyReserved { path: path.to_owned() })?;
        let mut given = Self::new(options, format!("`{}`", path.display()), memory);
        given.image = kernel.unwrap_or_default();
        given.basis = if code.is_some() { Basis::Iomem } else { Basis::Nothing };
        given.read_only = code.unwrap_or_default();
        given.crash = crash;
        Ok(given)
    }

    fn of_dtb(options: &'o MachineOptions, path: &Path) -> Result<Self, Failure> {
        let tree = contents(path, "device tree")?;
        let mut notes = Vec::new();
        let machine = Machine::read(&tree, &mut |note| {
            if note.subject() == Subject::Memory {
                notes.push(note.to_string());
            }
        });
        let Machine { ram, reserved, no_map, .. } =
            machine.map_err(|error| Failure::Dtb { path: path.to_owned(), reason: error.to_string() })?;
        let memory = Memory { ram, reserved, no_map };
        Ok(Self { notes, ..Self::new(options, format!("`{}`", path.display()), memory) })
    }

    /// Returns what is mapped read-only for code and constants: of our image as it does so itself, of others as given.
    pub(crate) fn mapped_read_only(&self, page: u64) -> Range<Pa> {
        let Range { start, end } = self.read_only;
        match self.basis {
            Basis::Measured | Basis::Assumed => start..Pa(start.0 + read_only_bytes(end.0 - start.0, page)),
            Basis::Nothing | Basis::Named | Basis::Iomem => start..end,
        }
    }

    /// Returns a machine without a kernel.
    fn new(options: &'o MachineOptions, source: String, memory: Memory) -> Self {
        let nowhere = Pa(0)..Pa(0);
        let (image, read_only, tree) = (nowhere.clone(), nowhere.clone(), nowhere);
        let (basis, notes) = (Basis::Nothing, Vec::new());
        Self { options, source, memory, image, read_only, basis, tree, crash: None, notes }
    }

    /// Places the kernel where the options name a place.
    fn with_kernel(mut self) -> Result<Self, Failure> {
        match &self.options.kernel {
            None => {}
            Some(KernelRange::None) => {
                (self.image, self.read_only) = Default::default();
                self.basis = Basis::Nothing;
            }
            Some(KernelRange::At(range)) => {
                if !self.memory.ram.covers(range) {
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

/// Reads a file of bounded length.
fn contents(path: &Path, what: &'static str) -> Result<Vec<u8>, Failure> {
    let unreadable = |error| Failure::Unreadable { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 {
        bytes if bytes > MAX_FILE => {
            Err(Failure::TooLong { path: path.to_owned(), what, bytes, limit: MAX_FILE })
        }
        _ => Ok(bytes),
    }
}

/// Returns at most so many ranges that cover these: the nearest ones are joined.
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

/// Returns the memory that /proc/iomem lists. Many reserved ranges are joined to fewer.
fn memory_of_linux(all: &[Range<Pa>], reserved: Vec<Range<Pa>>) -> Result<Memory, Full> {
    let mut memory = Memory::default();
    for range in all {
        memory.ram.add(range.clone())?;
    }
    for range in few(reserved, CAPACITY / 2) {
        for ram in memory.ram.as_slice() {
            memory.reserved.add(ram.start.max(range.start)..ram.end.min(range.end))?;
        }
    }
    Ok(memory)
}

/// Returns a set of one range.
fn one_range(range: Range<Pa>) -> Ranges {
    let mut ranges = Ranges::new();
    // An empty set has room.
    let _ = ranges.add(range);
    ranges
}
