//! SOURCEs: whatever the page tables of an arm64 kernel can be read from, made into one thing.
//!
//! [`open`] reads all tables that are wanted once, while the kernel stands still if it can be made to, and
//! gives back a copy of them ([`Snapshot`]) with what is known of the kernel. Nothing that is read is trusted.
//!
//! - `argument`: what SOURCE can be.  `error`: why there is nothing to read.
//! - `snapshot`: the copy.  `regime`: pure, registers and VMCOREINFO become root and geometry.
//! - `vmcoreinfo`: what a kernel says of itself.  `memory`: physical memory, wherever it is.
//! - `pause`: how long a guest may stand still.  `interrupts`: signals wait until it runs again.
//! - `mark`: how a guest is found that a killed run left halted.  `boot_line`: what the boot loader said.
//! - `core`, `kcore`, `gdb`, `qemu`, `saved`: one module for each kind of SOURCE.
//! - `file`, `input`, `compressed`: files and pipes, and what they are.

mod argument;
mod boot_line;
mod compressed;
mod core;
mod error;
mod file;
mod gdb;
mod input;
mod interrupts;
mod kcore;
mod mapped;
mod mark;
mod memory;
mod pause;
mod qemu;
mod regime;
mod saved;
mod search;
mod snapshot;
mod socket;
mod vmcoreinfo;

use std::time::Duration;

use linmap::{Attributes, Geometry, Level, Pa, TableLimits, Va};

pub(crate) use argument::Source;
pub(crate) use error::{SourceError, Why, is_address};
pub(crate) use memory::Memory;
pub(crate) use pause::{Pause, Seconds};
pub(crate) use saved::SCHEMA as DUMP_SCHEMA;
pub(crate) use saved::{cpu_document, kernel_document, limits_document, row as dump_row};
pub(crate) use snapshot::{Snapshot, Unread};
pub(crate) use vmcoreinfo::VmcoreInfo;

use memory::Unreadable;
use pause::{Limit, Within};
use regime::Regime;

/// Which tables of the upper half are to be read. What is not wanted is not in the [`Snapshot`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// All of them.
    All,
    /// Those that translate an address from the first to the last, both included.
    Range(Va, Va),
}

/// How far a long step has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// What is being done, in words such as `reading tables`.
    pub(crate) what: &'static str,
    /// How much of it is done, in steps of the step's own.
    pub(crate) done: u64,
    /// Of how much, where that is known.
    pub(crate) total: Option<u64>,
}

/// What a SOURCE turned out to be.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Tables, as the hardware sees them.
    Tables(Box<Tables>),
    /// What somebody has written down of them.
    Saved(Box<Saved>),
}

/// The tables of the upper half, and what is known of who made them.
#[derive(Debug)]
pub(crate) struct Tables {
    /// What was read, for people: ``core `vmcore` ``.
    pub(crate) name: String,
    /// Where the root table is.
    pub(crate) root: Pa,
    /// Granule, VA bits and address format.
    pub(crate) geometry: Geometry,
    /// The tables themselves: a [`linmap::ReadTables`] that is bounded by nature. Tables that cannot be read
    /// are in it as such, with the reason for a walk that needs one.
    pub(crate) snapshot: Snapshot,
    /// Physical memory, as far as the source still has it now, and where there is RAM.
    pub(crate) memory: Memory,
    /// What the kernel says of itself.
    pub(crate) kernel: Kernel,
    /// What the CPUs say of themselves.
    pub(crate) cpu: Cpu,
    /// How long the guest stood still for this; `None` where nothing was stopped.
    pub(crate) paused: Option<Duration>,
    /// What cannot be known, as there was no time to read it, in sentences.
    pub(crate) missing: Vec<String>,
    /// What else is worth knowing, in sentences.
    pub(crate) notes: Vec<String>,
}

/// What is known of a kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Kernel {
    /// Its VMCOREINFO, where it was found.
    pub(crate) info: Option<VmcoreInfo>,
    /// Its command line, where the source shows it: that of a live machine, or what the boot loader of a guest
    /// put into the device tree.
    pub(crate) command_line: Option<String>,
}

/// What is known of the CPUs: `None` or nothing for what the source does not show.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Cpu {
    /// TCR_EL1, or TCR_EL2 of a kernel that runs at EL2.
    pub(crate) tcr: Option<u64>,
    /// MIDR_EL1 of each CPU.
    pub(crate) midrs: Vec<u64>,
    /// ID_AA64MMFR0_EL1 of the CPU whose registers were read.
    pub(crate) mmfr0: Option<u64>,
    /// ID_AA64MMFR2_EL1: break-before-make level.
    pub(crate) mmfr2: Option<u64>,
    /// MAIR_EL1, or MAIR_EL2 of a kernel that runs at EL2.
    pub(crate) mair: Option<u64>,
}

/// A dump that was saved as text or JSON. What it does not have is empty.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Saved {
    /// What was read, for people.
    pub(crate) name: String,
    /// What the dump was made of, in the dump's words.
    pub(crate) origin: Option<String>,
    /// Known from a JSON dump, and `None` for text.
    pub(crate) geometry: Option<Geometry>,
    /// Everything in it, in address order: holes as well.
    pub(crate) stretches: Vec<Stretch>,
    /// The marker lines of a text: a name and the index of the stretch that it stands before.
    pub(crate) markers: Vec<(usize, String)>,
    /// What was dumped, in address order.
    pub(crate) parts: Vec<SavedPart>,
    /// Its regions.
    pub(crate) regions: Option<SavedRegions>,
    /// Table descriptors that restrict what lies below them, in address order at each level.
    pub(crate) limits: Vec<Restriction>,
    /// What its kernel said of itself.
    pub(crate) kernel: Kernel,
    /// What its CPUs said of themselves.
    pub(crate) cpu: Cpu,
    /// What is not in it and cannot be known, for people.
    pub(crate) missing: Vec<String>,
}

/// The regions of a dump, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SavedRegions {
    /// What they rest on.
    pub(crate) from: String,
    /// Each with its first and last address.
    pub(crate) list: Vec<(String, Va, Va)>,
}

/// A range that was dumped, and the lines around it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SavedPart {
    /// First and last address, both included.
    pub(crate) range: (Va, Va),
    /// The name in the line before.
    pub(crate) start: String,
    /// The name in the line behind.
    pub(crate) end: String,
}

/// Table descriptors that follow one another and restrict what lies below them in the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Restriction {
    /// The first address that they translate.
    pub(crate) va: Va,
    /// How many bytes they translate.
    pub(crate) bytes: u64,
    /// The level of the descriptors.
    pub(crate) level: Level,
    /// What they forbid.
    pub(crate) limits: TableLimits,
}

/// Equal entries that follow one another, in addresses of both kinds: what one row of a dump says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    /// Its first address.
    pub(crate) va: Va,
    /// How many bytes it spans; a whole number of entries.
    pub(crate) bytes: u64,
    /// The level of its entries; of text it is what the level's name and size allow to tell.
    pub(crate) level: Level,
    /// What they are.
    pub(crate) what: What,
    /// The first descriptor as it is. Those that follow have another output address, and nothing else.
    /// `None` where only its meaning is known.
    pub(crate) descriptor: Option<u64>,
}

/// What the entries of a [`Stretch`] are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// Nothing is mapped.
    Hole,
    /// Encodings without a meaning at their level.
    Reserved,
    /// Leaves.
    Leaf {
        /// The first one's output address; text does not have it.
        oa: Option<Pa>,
        /// Permissions and memory type; of text those that are printed. In a saved leaf that is not valid and
        /// has no descriptor, bit 11 is the software-present bit, as in the descriptor.
        attributes: Attributes,
        /// Whether they are members of contiguous runs.
        contiguous: bool,
        /// Whether accesses translate.
        valid: bool,
    },
}

impl Tables {
    /// Reads the tables of a memory that stands still, or may as well.
    fn read(
        name: String,
        regime: Regime,
        memory: Memory,
        kernel: Kernel,
        wanted: Wanted,
        progress: &dyn Fn(Step),
    ) -> Result<Self, Why> {
        let tables = Self::read_within(Limit::NONE, name, regime, memory, wanted, progress)?;
        Ok(Self { kernel, ..tables })
    }

    /// Reads tables while a guest is halted. Past the limit those that were not read yet are missing.
    fn read_within(
        limit: Limit,
        name: String,
        regime: Regime,
        memory: Memory,
        wanted: Wanted,
        progress: &dyn Fn(Step),
    ) -> Result<Self, Why> {
        let Regime { root, geometry } = regime;
        let from = Within { memory: memory.from(), limit };
        let snapshot = Snapshot::read(&from, geometry, root, wanted, progress)?;
        match (snapshot.ended(), snapshot.unread().first()) {
            (Some(Unreadable::Gone(_)), _) => Err(Why::Lost),
            (_, Some(unread)) if unread.level == geometry.root() => Err(Why::Root((*unread).clone())),
            _ => {
                let (kernel, cpu) = (Kernel::default(), Cpu::default());
                Ok(Self {
                    name,
                    root,
                    geometry,
                    snapshot,
                    memory,
                    kernel,
                    cpu,
                    paused: None,
                    missing: Vec::new(),
                    notes: Vec::new(),
                })
            }
        }
    }

    /// Learns what the kernel says of itself, from memory that can still be read.
    fn learn(&mut self) {
        let (regime, memory) = (self.regime(), self.memory.from());
        self.kernel.info = search::by_pointer(&self.snapshot, regime, memory);
        self.kernel.command_line = boot_line::find(&self.snapshot, regime, memory);
    }

    /// Notes what may be missing where a halt ended before everything was asked for.
    fn lack(&mut self, ended: Option<Unreadable>) {
        if let Some(Unreadable::NotInTime(most)) = ended
            && self.missing.is_empty()
        {
            self.missing.push(format!(
                "release, regions, boot line and CPUs are known only as far as there was time: the guest was not to \
                 stand still for longer than {} (--max-pause), in which {} tables were read",
                Seconds(most),
                crate::size::grouped(self.snapshot.tables() as u64),
            ));
        }
    }

    fn regime(&self) -> Regime {
        Regime { root: self.root, geometry: self.geometry }
    }
}

impl Kernel {
    /// VA less PA in the linear map, wrapping, as VMCOREINFO has it.
    pub(crate) fn linear_offset(&self, geometry: Geometry) -> Option<u64> {
        let info = self.info.as_ref()?;
        let va_bits = info.number("VA_BITS").unwrap_or(geometry.va_bits().into());
        let start = u64::MAX.checked_shl(u32::try_from(va_bits).ok()?)?;
        Some(start.wrapping_sub(info.number("PHYS_OFFSET")?))
    }

    /// VA less PA in the mapping of the kernel's image, wrapping.
    pub(crate) fn image_offset(&self) -> Option<u64> {
        self.info.as_ref()?.number("kimage_voffset")
    }
}

impl Stretch {
    /// What its entries say so many bytes further on.
    pub(crate) fn at(&self, bytes: u64) -> (What, Option<u64>) {
        let what = self.what.at(bytes);
        let step = if matches!(what, What::Leaf { .. }) { bytes } else { 0 };
        (what, self.descriptor.map(|descriptor| descriptor.wrapping_add(step)))
    }
}

impl What {
    /// The same so many bytes further on.
    pub(crate) fn at(self, bytes: u64) -> Self {
        match self {
            Self::Leaf { oa, attributes, contiguous, valid } => {
                let oa = oa.map(|oa| Pa(oa.0.wrapping_add(bytes)));
                Self::Leaf { oa, attributes, contiguous, valid }
            }
            other => other,
        }
    }
}

/// MIDR_EL1 of each CPU of a QEMU whose monitor answers commands for people.
fn midrs_of_qemu(ask: &mut dyn FnMut(&str) -> Option<String>) -> Vec<u64> {
    let paths = ask("info qom-tree").map(|tree| qemu::answers::cpu_paths(&tree)).unwrap_or_default();
    let midr = |path: String| qemu::answers::number_property(&ask(&format!("qom-get {path} midr"))?);
    paths.into_iter().filter_map(midr).filter(|midr| *midr != 0).collect()
}

/// Reads what is wanted from a SOURCE. A guest that has to stand still for it does so as `pause` says.
///
/// `progress` is told about steps as they go on, thousands of times; what takes long is its to find out.
pub(crate) fn open(
    source: &Source,
    wanted: Wanted,
    pause: Pause,
    progress: &dyn Fn(Step),
) -> Result<Opened, SourceError> {
    let opened = match source {
        Source::File(path) => file::open(path, wanted, progress),
        Source::Standard => file::open_standard(wanted, progress),
        Source::Gdb(address) => gdb::open(address, wanted, pause, progress).map(|t| Opened::Tables(t.into())),
        Source::Qemu(path) => qemu::open(path, wanted, pause, progress).map(|t| Opened::Tables(t.into())),
        Source::Live => kcore::open(wanted, progress).map(|t| Opened::Tables(t.into())),
    };
    opened.map_err(|why| SourceError { subject: source.clone(), why })
}

#[cfg(test)]
mod tests;
