//! A machine as far as the kernel uses it. `tree` makes the value of a device tree, `acpi` of tables.

use core::fmt;

use arrayvec::ArrayString;
use dtoolkit::error::FdtParseError;

use crate::cpus::Cpus;
use crate::gic::{InterruptController, TranslationServices};
use crate::nodes::Nodes;
use crate::ranges::{CAPACITY, Lost, Ranges};
use crate::serial::Uart;

/// The instruction that calls the firmware (Arm SMCCC).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conduit {
    /// By HVC.
    Hvc,
    /// By SMC.
    Smc,
}

/// The description that a machine was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A device tree.
    DeviceTree,
    /// ACPI tables, and the memory map of EFI.
    Acpi,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeviceTree => "device tree",
            Self::Acpi => "ACPI",
        })
    }
}

/// A machine. Nothing here points into its description.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its description.
    pub source: Source,
    /// The name of the machine.
    pub model: ArrayString<64>,
    /// The boot arguments.
    pub bootargs: ArrayString<2048>,
    /// RAM, without what must not be mapped.
    pub ram: Ranges,
    /// RAM that is mapped and not free.
    pub reserved: Ranges,
    /// Memory that would be RAM but must not be mapped.
    pub no_map: Ranges,
    /// Ranges of the memory nodes that there was no room for.
    pub left_out: Lost,
    /// The nodes that memory belongs to, where the description has them.
    pub nodes: Nodes,
    /// The console.
    pub uart: Option<Uart>,
    /// The conduit of PSCI.
    pub conduit: Option<Conduit>,
    /// The interrupt controller.
    pub interrupts: Option<InterruptController>,
    /// The interrupt translation services of ACPI, which are not used: no interrupt of a device is.
    pub translation_services: TranslationServices,
    /// The INTID of the virtual timer.
    pub timer: Option<u32>,
    /// The CPUs.
    pub cpus: Cpus,
}

/// The reason why a device tree is of no use.
#[derive(Clone, Debug)]
pub enum MachineError {
    /// It cannot be read.
    Unreadable(FdtParseError),
    /// It has no usable memory node.
    NoMemory,
    /// The firmware's memory map has no RAM.
    NoRam,
    /// It has memory, and none of it may be mapped.
    NothingToMap,
    /// It reserves more separate ranges than can be kept apart, so what is free is unknown.
    TooManyReserved,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(e) => write!(f, "the device tree cannot be read: {e}"),
            Self::TooManyReserved => {
                write!(f, "the device tree reserves more than {CAPACITY} separate ranges of RAM")
            }
            Self::NoMemory => {
                f.write_str("the device tree has no memory: a /memory node with a reg is needed")
            }
            Self::NoRam => f.write_str("the memory map of the firmware has no RAM that may be cached"),
            Self::NothingToMap => f.write_str("no memory of the device tree may be mapped: all is no-map"),
        }
    }
}
