//! SOURCEs: page tables of an arm64 kernel, from everything that they can be read from.
//!
//! [`open`] reads all wanted tables once, while the kernel is halted if possible, and returns a copy of them
//! ([`Snapshot`]) with the known facts about the kernel. Nothing that is read is trusted.
//!
//! - `argument`: SOURCE on the command line.  `error`: everything that can be wrong with one.
//! - `snapshot`: the copy.  `regime`: root and geometry, from registers and VMCOREINFO; pure.
//! - `vmcoreinfo`: the kernel's facts about itself.  `memory`: physical memory.
//! - `pause`: how long a guest may be halted.  `interrupts`: signals wait until it runs again.
//! - `mark`: finds a guest that a killed run left halted.  `boot_line`: the arguments of the boot loader.
//! - `core`, `kcore`, `gdb`, `qemu`, `saved`: one module for each kind of SOURCE.
//! - `file`, `input`, `compressed`: files and pipes, and their kinds.

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
mod seconds;
mod snapshot;
mod socket;
mod vmcoreinfo;

use std::time::Duration;

use linmap::{Attributes, Geometry, Level, Pa, TableLimits, Va};

pub(crate) use argument::Source;
pub(crate) use error::{Problem, SourceError, is_address};
pub(crate) use memory::Memory;
pub(crate) use pause::Pause;
pub(crate) use saved::SCHEMA as DUMP_SCHEMA;
pub(crate) use saved::{cpu_document, kernel_document, limits_document, row as dump_row};
pub(crate) use seconds::Seconds;
pub(crate) use snapshot::{Snapshot, Unread};
pub(crate) use vmcoreinfo::VmcoreInfo;

use memory::Unreadable;
use pause::{Limit, Within};
use regime::Regime;

/// The tables of the upper half that are to be read. Others are not in the [`Snapshot`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// All tables.
    All,
    /// Tables that translate an address in this range; both ends are included.
    Range(Va, Va),
}

/// The progress of a long step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The step, in words such as `reading tables`.
    pub(crate) what: &'static str,
    /// The part that is done, in units of the step.
    pub(crate) done: u64,
    /// The whole, if known.
    pub(crate) total: Option<u64>,
}

/// The contents of a SOURCE.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Tables, as the hardware sees them.
    Tables(Box<Tables>),
    /// A dump of them.
    Saved(Box<Saved>),
}

/// The tables of the upper half, and the known facts about their kernel.
#[derive(Debug)]
pub(crate) struct Tables {
    /// The name of what was read, for people: ``core `vmcore` ``.
    pub(crate) name: String,
    /// The address of the root table.
    pub(crate) root: Pa,
    /// Granule, VA bits and address format.
    pub(crate) geometry: Geometry,
    /// The tables: a [`linmap::ReadTables`] of bounded size. A table that cannot be read is in it as such, with the
    /// reason.
    pub(crate) snapshot: Snapshot,
    /// Physical memory, as far as the source still has it now, and where there is RAM.
    pub(crate) memory: Memory,
    /// Facts about the kernel.
    pub(crate) kernel: Kernel,
    /// Facts about the CPUs.
    pub(crate) cpu: Cpu,
    /// The time for which the guest was halted; `None` if nothing was halted.
    pub(crate) paused: Option<Duration>,
    /// Facts that are not known because there was no time to read them, as sentences.
    pub(crate) missing: Vec<String>,
    /// Other notes, as sentences.
    pub(crate) notes: Vec<String>,
}

/// Facts about a kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Kernel {
    /// Its VMCOREINFO, if it was found.
    pub(crate) info: Option<VmcoreInfo>,
    /// Its command line, if the source shows it: of a live machine, or from the device tree of a guest.
    pub(crate) command_line: Option<String>,
}

/// Facts about the CPUs: `None` or empty if the source does not show them.
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

/// A dump that was saved as text or JSON. Facts that it does not have are empty.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Saved {
    /// The name of what was read, for people.
    pub(crate) name: String,
    /// The source of the dump, in the dump's words.
    pub(crate) origin: Option<String>,
    /// The geometry; `None` for text, which does not have it.
    pub(crate) geometry: Option<Geometry>,
    /// All rows in order of address, holes included.
    pub(crate) stretches: Vec<Stretch>,
    /// The marker lines of a text: a name, and the index of the stretch that follows.
    pub(crate) markers: Vec<(usize, String)>,
    /// The ranges that were dumped, in order of address.
    pub(crate) parts: Vec<SavedPart>,
    /// Its regions.
    pub(crate) regions: Option<SavedRegions>,
    /// Table descriptors that restrict what lies below them, in address order at each level.
    pub(crate) limits: Vec<Restriction>,
    /// Facts about its kernel.
    pub(crate) kernel: Kernel,
    /// Facts about its CPUs.
    pub(crate) cpu: Cpu,
    /// Facts that are not in it and cannot be known, for people.
    pub(crate) missing: Vec<String>,
}

/// The regions of a dump, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SavedRegions {
    /// The evidence that they rest on.
    pub(crate) from: String,
    /// Name, first and last address of each.
    pub(crate) list: Vec<(String, Va, Va)>,
}

/// A range that was dumped, and the marker lines around it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SavedPart {
    /// First and last address, both included.
    pub(crate) range: (Va, Va),
    /// The name in the line before.
    pub(crate) start: String,
    /// The name in the line after.
    pub(crate) end: String,
}

/// Consecutive table descriptors that restrict what lies below them in the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Restriction {
    /// The first address that they translate.
    pub(crate) va: Va,
    /// The bytes that they translate.
    pub(crate) bytes: u64,
    /// The level of the descriptors.
    pub(crate) level: Level,
    /// The restrictions.
    pub(crate) limits: TableLimits,
}

/// Consecutive equal entries, with consecutive output addresses: one row of a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    /// Its first address.
    pub(crate) va: Va,
    /// Its size in bytes; a whole number of entries.
    pub(crate) bytes: u64,
    /// The level of its entries; of a text, as far as the level's name and the size tell.
    pub(crate) level: Level,
    /// The kind of its entries.
    pub(crate) what: EntryKind,
    /// The first descriptor. The following ones differ in the output address alone. `None` if only its meaning is
    /// known.
    pub(crate) descriptor: Option<u64>,
}

/// The kind of the entries of a [`Stretch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryKind {
    /// Nothing is mapped.
    Hole,
    /// Encodings without a meaning at their level.
    Reserved,
    /// Leaves.
    Leaf {
        /// The output address of the first one; `None` in text.
        oa: Option<Pa>,
        /// Permissions and memory type; of text, those that are printed. In a saved invalid leaf without a
        /// descriptor, bit 11 is the software-present bit, as in the descriptor.
        attributes: Attributes,
        /// True for members of contiguous runs.
        contiguous: bool,
        /// True if accesses translate.
        valid: bool,
    },
}

impl Tables {
    /// Reads tables from memory that is not halted for it.
    fn read(
        name: String,
        regime: Regime,
        memory: Memory,
        kernel: Kernel,
        wanted: Wanted,
        progress: &dyn Fn(Step),
    ) -> Result<Self, Problem> {
        let tables = Self::read_within(Limit::NONE, name, regime, memory, wanted, progress)?;
        Ok(Self { kernel, ..tables })
    }

    /// Reads tables while a guest is halted. After the limit, tables that were not read are missing.
    fn read_within(
        limit: Limit,
        name: String,
        regime: Regime,
        memory: Memory,
        wanted: Wanted,
        progress: &dyn Fn(Step),
    ) -> Result<Self, Problem> {
        let Regime { root, geometry } = regime;
        let from = Within { memory: memory.from(), limit };
        let snapshot = Snapshot::read(&from, geometry, root, wanted, progress)?;
        match (snapshot.ended(), snapshot.unread().first()) {
            (Some(Unreadable::Gone(_)), _) => Err(Problem::Lost),
            (_, Some(unread)) if unread.level == geometry.root() => Err(Problem::Root((*unread).clone())),
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

    /// Learns facts about the kernel from memory that can still be read.
    fn learn(&mut self) {
        let (regime, memory) = (self.regime(), self.memory.from());
        self.kernel.info = search::by_pointer(&self.snapshot, regime, memory);
        self.kernel.command_line = boot_line::find(&self.snapshot, regime, memory);
    }

    /// Notes the facts that can be missing if a halt ended early.
    fn lack(&mut self, ended: Option<Unreadable>) {
        if let Some(Unreadable::NotInTime(most)) = ended
            && self.missing.is_empty()
        {
            self.missing.push(format!(
                "release, regions, boot line and CPUs are known only as far as there was time: the guest was not to \
                 be halted for longer than {} (--max-pause), in which {} tables were read",
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
    /// Returns VA minus PA in the linear map, wrapping, from VMCOREINFO.
    pub(crate) fn linear_offset(&self, geometry: Geometry) -> Option<u64> {
        let info = self.info.as_ref()?;
        let va_bits = info.number("VA_BITS").unwrap_or(geometry.va_bits().into());
        let start = u64::MAX.checked_shl(u32::try_from(va_bits).ok()?)?;
        Some(start.wrapping_sub(info.number("PHYS_OFFSET")?))
    }

    /// Returns VA minus PA in the mapping of the kernel image, wrapping.
    pub(crate) fn image_offset(&self) -> Option<u64> {
        self.info.as_ref()?.number("kimage_voffset")
    }
}

impl Stretch {
    /// Returns the entry so many bytes after the first one.
    pub(crate) fn at(&self, bytes: u64) -> (EntryKind, Option<u64>) {
        let what = self.what.at(bytes);
        let step = if matches!(what, EntryKind::Leaf { .. }) { bytes } else { 0 };
        (what, self.descriptor.map(|descriptor| descriptor.wrapping_add(step)))
    }
}

impl EntryKind {
    /// Returns the same, so many bytes further on.
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

/// Returns MIDR_EL1 of each CPU of a QEMU whose monitor answers commands for people.
fn midrs_of_qemu(ask: &mut dyn FnMut(&str) -> Option<String>) -> Vec<u64> {
    let paths = ask("info qom-tree").map(|tree| qemu::answers::cpu_paths(&tree)).unwrap_or_default();
    let midr = |path: String| qemu::answers::number_property(&ask(&format!("qom-get {path} midr"))?);
    paths.into_iter().filter_map(midr).filter(|midr| *midr != 0).collect()
}

/// Reads the wanted tables of a SOURCE. If a guest has to be halted, `pause` says for how long.
///
/// `progress` is called thousands of times; it decides which steps take long enough to be shown.
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
