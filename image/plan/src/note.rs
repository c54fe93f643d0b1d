//! Notes, as values: each thing of a machine's description or of memory that is left out, cut or moved, and why.
//!
//! None of them keeps a kernel from booting. A function that may have something to note calls back with it; the caller
//! prints it, keeps it, or drops it by its [`Subject`].

mod firmware_map;
mod table;

use core::fmt;
use core::ops::Range;

use linmap::Pa;

pub use self::firmware_map::MapDefect;
pub use self::table::{Signature, TableDefect};
use crate::ranges::{CAPACITY, Lost};

/// The subject of a note, for callers that do not need all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// RAM: which there is, which is reserved, which is free.
    Memory,
    /// The reservation that `crashkernel=` asks for.
    CrashKernel,
    /// The place of the kernel image.
    Image,
    /// The place of the device tree.
    DeviceTree,
    /// The CPUs.
    Cpus,
    /// The console.
    Console,
    /// The interrupt controller and the timer.
    Interrupts,
    /// The boot arguments and the machine's name, as texts.
    Texts,
}

/// One note. Its `Display` is a sentence without a full stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note<'a> {
    /// A node of the device tree is wrong, in all or in part.
    Node {
        /// The subject that the node was read for, whatever the node is called.
        subject: Subject,
        /// The name of the node.
        name: &'a str,
        /// The defect.
        defect: Defect<'a>,
    },
    /// An ACPI table is wrong, in all or in part.
    Table {
        /// The subject that the table was read for.
        subject: Subject,
        /// The signature of the table.
        table: Signature,
        /// The defect.
        defect: TableDefect,
    },
    /// A CPU of the description is left out.
    Cpu {
        /// The name of its node, or its number.
        name: &'a str,
        /// The defect.
        defect: CpuDefect,
    },
    /// There are more CPUs than are used.
    CpusLeftOut {
        /// The number of CPUs left out.
        count: u32,
        /// The most CPUs that are used.
        most: usize,
    },
    /// The boot CPU is not among those of the description.
    BootCpuUnlisted {
        /// Its affinity fields.
        mpidr: u64,
    },
    /// A CPU stays off, as the description has no way to start it that is known.
    NotByPsci {
        /// Its affinity fields.
        mpidr: u64,
    },
    /// A range of memory overlaps others and is merged with them.
    MemoryOverlaps(Range<Pa>),
    /// There are more separate ranges of memory than can be kept apart.
    MemoryLeftOut(Lost),
    /// A descriptor in the memory map of EFI firmware makes no sense.
    FirmwareMap(MapDefect),
    /// A text of the device tree is cut.
    TextCut {
        /// The property.
        property: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The bytes that are used.
        used: usize,
    },
    /// A text of the device tree is not all UTF-8.
    TextNotUtf8 {
        /// The property.
        property: &'static str,
    },
    /// The description names no console that can be used.
    NoConsole,
    /// The console's registers cannot be where the device tree has them.
    ConsoleMisplaced(Pa),
    /// There are more separate ranges of free memory than can be kept apart.
    FreeMemoryLost(Lost),
    /// A range of free memory is not used, as the crash kernel's reservation left too many separate ranges.
    FreeRangeLost(Range<Pa>),
    /// The image or the device tree is in a range that must not be mapped.
    LoadedInNoMap(Loaded, Range<Pa>),
    /// The linear map does not reach the kernel image.
    ImageNotReached {
        /// The image.
        image: Range<Pa>,
        /// The image is in RAM, but outside the linear map.
        is_ram: bool,
    },
    /// There is no room for the crash kernel as it was asked for.
    CrashKernelRefused {
        /// The range that would be its reservation.
        range: Range<Pa>,
        /// Its size in bytes.
        size: u64,
        /// The obstacle.
        obstacle: Obstacle,
        /// The longest range that is free.
        longest: Range<Pa>,
    },
    /// The crash kernel would take all free memory.
    CrashKernelTakesAll {
        /// Its size in bytes.
        size: u64,
    },
    /// The crash kernel's reservation is aligned, so it is not what was asked for.
    CrashKernelMoved {
        /// The alignment in bytes.
        align: u64,
        /// The reservation.
        range: Range<Pa>,
    },
}

/// The things that a loader leaves in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loaded {
    /// The kernel image.
    Image,
    /// The device tree.
    DeviceTree,
}

/// A defect of a node, or of its `reg`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect<'a> {
    /// Its status is not `okay`, but this.
    Status(&'a str),
    /// It has no `reg`.
    NoReg,
    /// Its parent gives addresses or sizes no cells.
    NoCells,
    /// A range of `reg` is empty.
    EmptyRange,
    /// An address or size of `reg` has more than 64 bits.
    TooWide,
    /// `reg` ends within a range.
    CutShort {
        /// The bytes behind the last whole range.
        rest: usize,
        /// The bytes of a whole one.
        length: usize,
    },
    /// A range of `reg` ends beyond all addresses and is left out.
    BeyondAddresses {
        /// The first address.
        start: u64,
        /// Bytes from there.
        size: u64,
    },
    /// A reserved range ends beyond all addresses and is cut there.
    CutAtLastAddress {
        /// The first address.
        start: u64,
        /// Bytes from there.
        size: u64,
    },
    /// A bus does not pass accesses to these registers on.
    NotPassedOn {
        /// The first address, as the node has it.
        start: u64,
        /// Bytes from there.
        size: u64,
        /// The name of the bus.
        bus: &'a str,
    },
    /// The registers of an interrupt controller are too few or too small.
    NotGic,
    /// The interrupt of a timer is not private to a CPU.
    NotPrivate {
        /// Its number.
        number: u64,
        /// Its kind: the first cell of the specifier.
        kind: u64,
    },
}

/// The reason why a CPU of the device tree is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuDefect {
    /// Its status is `disabled`.
    Disabled,
    /// Its status is neither `okay` nor `disabled`.
    Status,
    /// It has no `reg`.
    NoReg,
    /// Its `reg` is not one address.
    Reg {
        /// The bytes of `reg`.
        bytes: usize,
        /// The bytes of an address.
        cell_bytes: usize,
    },
    /// Its `reg` has bits that are no affinity fields.
    Mpidr(u64),
    /// Another CPU has the same affinity fields.
    Duplicate(u64),
}

/// The obstacle to a crash kernel's reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// Some of it is not RAM, or RAM outside the linear map.
    NotReached,
    /// The kernel image.
    Image,
    /// The device tree.
    DeviceTree,
    /// Memory that the device tree reserves.
    Reserved,
    /// Too little is free in one place.
    NotFree,
}

impl Note<'_> {
    /// Returns the subject of the note. It follows from what was read or planned, never from names in the device tree.
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Node { subject, .. } | Self::Table { subject, .. } => *subject,
            Self::Cpu { .. }
            | Self::CpusLeftOut { .. }
            | Self::BootCpuUnlisted { .. }
            | Self::NotByPsci { .. } => Subject::Cpus,
            Self::MemoryOverlaps(_)
            | Self::MemoryLeftOut(_)
            | Self::FirmwareMap(_)
            | Self::FreeMemoryLost(_)
            | Self::FreeRangeLost(_) => Subject::Memory,
            Self::TextCut { .. } | Self::TextNotUtf8 { .. } => Subject::Texts,
            Self::NoConsole | Self::ConsoleMisplaced(_) => Subject::Console,
            Self::LoadedInNoMap(Loaded::Image, _) | Self::ImageNotReached { .. } => Subject::Image,
            Self::LoadedInNoMap(Loaded::DeviceTree, _) => Subject::DeviceTree,
            Self::CrashKernelRefused { .. }
            | Self::CrashKernelTakesAll { .. }
            | Self::CrashKernelMoved { .. } => Subject::CrashKernel,
        }
    }
}

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node { name, defect, .. } => defect.of(name, f),
            Self::Table { table, defect, .. } => write!(f, "the ACPI table {table} {defect}"),
            Self::Cpu { name, defect } => write!(f, "{}: {defect}; left out", name.escape_debug()),
            Self::CpusLeftOut { count, most } => {
                write!(f, "{count} CPUs left out: {most} are the most that are used")
            }
            Self::BootCpuUnlisted { mpidr } => {
                write!(f, "no usable CPU is listed with MPIDR {mpidr:#x}, which boots")
            }
            Self::NotByPsci { mpidr } => {
                write!(
                    f,
                    "the CPU with MPIDR {mpidr:#x} is not started: not by PSCI, and no spin table has its release \
                     address"
                )
            }
            Self::MemoryOverlaps(range) => write!(f, "memory {range:?} overlaps other memory; merged"),
            Self::FirmwareMap(defect) => defect.fmt(f),
            Self::MemoryLeftOut(lost) => write!(f, "memory left out: {lost}"),
            Self::TextCut { property, bytes, used } => {
                write!(f, "{property} is {bytes} bytes long; only the first {used} are used")
            }
            Self::TextNotUtf8 { property } => {
                write!(f, "{property} is not all UTF-8; read with '?' for the rest")
            }
            Self::NoConsole => f.write_str(
                "no console is named that can be used: a PL011, SBSA or 16550 UART that a CPU reaches",
            ),
            Self::ConsoleMisplaced(uart) => {
                write!(f, "no console can be at {uart}: that is RAM, unaligned or no address")
            }
            Self::FreeMemoryLost(lost) => write!(f, "free memory is not used: {lost}"),
            Self::FreeRangeLost(lost) => {
                write!(f, "free memory {lost:?} is not used: more than {CAPACITY} separate ranges")
            }
            Self::LoadedInNoMap(what, range) => {
                write!(f, "the {what} at {range:?} is in memory that must not be mapped (no-map)")
            }
            Self::ImageNotReached { image, is_ram } => {
                let place = if *is_ram { "beyond the linear map" } else { "not in the device tree's memory" };
                write!(f, "the kernel image at {image:?} is {place}")
            }
            Self::CrashKernelRefused { range, size, obstacle, longest } => {
                write!(f, "crashkernel: {size:#x} bytes at {range:?} {obstacle}; most is free at {longest:?}")
            }
            Self::CrashKernelTakesAll { size } => {
                write!(f, "crashkernel: {size:#x} bytes are all that is free; page tables need some")
            }
            Self::CrashKernelMoved { align, range } => {
                write!(f, "crashkernel: moved to multiples of {align:#x} bytes: {range:?}")
            }
        }
    }
}

impl Defect<'_> {
    /// Writes what is wrong with the node of that name.
    fn of(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = name.escape_debug();
        match self {
            Self::Status(status) => write!(f, "{name} is '{}'; not used", status.escape_debug()),
            Self::NoReg => write!(f, "{name} has no reg"),
            Self::NoCells => write!(f, "{name}: a reg without addresses or without sizes"),
            Self::EmptyRange => write!(f, "{name} has an empty range"),
            Self::TooWide => write!(f, "{name} has a range of more than 64 bits"),
            Self::CutShort { rest, length } => {
                write!(f, "{name}: the last {rest} bytes of reg are no whole range of {length}")
            }
            Self::BeyondAddresses { start, size } => {
                write!(f, "{name}: {start:#x} and {size:#x} bytes is beyond all addresses")
            }
            Self::CutAtLastAddress { start, size } => {
                write!(f, "{name}: {start:#x} and {size:#x} bytes is beyond all addresses; cut")
            }
            Self::NotPassedOn { start, size, bus } => write!(
                f,
                "{name}: no CPU reaches its {size:#x} bytes at {start:#x}: the ranges of {} have nothing for them",
                bus.escape_debug()
            ),
            Self::NotGic => write!(f, "{name}: its registers are not those of a GIC"),
            Self::NotPrivate { number, kind } => {
                write!(f, "{name}: interrupt {number} of kind {kind} is no CPU's own timer")
            }
        }
    }
}

impl fmt::Display for CpuDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("its status is 'disabled'"),
            Self::Status => f.write_str("its status is not 'okay'"),
            Self::NoReg => f.write_str("it has no reg"),
            Self::Reg { bytes, cell_bytes } => {
                write!(f, "its reg has {bytes} bytes, but an address here {cell_bytes}; 4 or 8 are right")
            }
            Self::Mpidr(mpidr) => write!(f, "{mpidr:#x} is no MPIDR: only Aff3 to Aff0 belong in it"),
            Self::Duplicate(mpidr) => write!(f, "another CPU has MPIDR {mpidr:#x} too"),
        }
    }
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Image => "kernel image",
            Self::DeviceTree => "device tree",
        })
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReached => "are not RAM that the linear map reaches",
            Self::Image => "overlap the kernel image",
            Self::DeviceTree => "overlap the device tree",
            Self::Reserved => "overlap reserved memory",
            Self::NotFree => "are not free",
        })
    }
}
