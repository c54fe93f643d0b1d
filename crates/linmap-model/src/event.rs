//! One step of one CPU, as a value and as a line of JSON.
//!
//! A run of the model is a list of these; nothing else changes its state. So a log of them is a run:
//! it can be kept, read by a person, fed to another checker, and replayed.

use std::fmt;

use linmap::layout::Run;
use linmap::{Attributes, Geometry, Pa, Va};
use serde::{Deserialize, Serialize};

use crate::json::{hex, is_yes, maybe_hex, yes};
use crate::{Register, Tlb};

/// A CPU's number, from 0.
pub type CpuId = u8;

/// One step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase", deny_unknown_fields)]
pub enum Event {
    /// `cpu` stores descriptors: one into a live table, or `count` in a row into one that no walker
    /// reaches, each larger by `step`.
    Write {
        /// The CPU that stores.
        cpu: CpuId,
        /// The table's address.
        #[serde(with = "hex")]
        table: u64,
        /// The first slot.
        index: usize,
        /// The first descriptor.
        #[serde(with = "hex")]
        value: u64,
        /// The number of slots.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: usize,
        /// The difference from one to the next.
        #[serde(default, with = "hex", skip_serializing_if = "is_zero")]
        step: u64,
        /// The descriptor that the CPU last read in the slot, if it did, and that it expects there.
        #[serde(default, with = "maybe_hex", skip_serializing_if = "Option::is_none")]
        was: Option<u64>,
    },
    /// `cpu` stores a descriptor if the slot is as it expects, in one atomic step.
    Cas {
        /// The CPU that stores.
        cpu: CpuId,
        /// The table's address.
        #[serde(with = "hex")]
        table: u64,
        /// The slot.
        index: usize,
        /// The descriptor that the CPU expects there. If there is another one, nothing is stored.
        #[serde(with = "hex")]
        was: u64,
        /// The descriptor.
        #[serde(with = "hex")]
        value: u64,
    },
    /// The walker of `cpu` updates a leaf in one atomic step (FEAT_HAFDBS).
    Update {
        /// The CPU that walks.
        cpu: CpuId,
        /// The table's address.
        #[serde(with = "hex")]
        table: u64,
        /// The slot.
        index: usize,
        /// The update.
        what: Update,
    },
    /// A data synchronisation barrier.
    Dsb {
        /// The CPU that executes it.
        cpu: CpuId,
        /// The accesses for which it waits.
        kind: Barrier,
    },
    /// A context synchronisation event that the code asks for.
    Isb {
        /// The CPU.
        cpu: CpuId,
    },
    /// The CPU takes an exception, or returns from one within its level: a context synchronisation event that the interrupted code does
    /// not ask for.
    Exception {
        /// The CPU.
        cpu: CpuId,
    },
    /// A TLB invalidation, as the CPU sees it.
    Tlbi {
        /// The CPU that issues it.
        cpu: CpuId,
        /// The operation.
        op: Tlb,
        /// The register that it takes; 0 where it takes none.
        #[serde(default, with = "hex", skip_serializing_if = "is_zero")]
        operand: u64,
    },
    /// A register that says how a CPU translates is written.
    Msr {
        /// The CPU.
        cpu: CpuId,
        /// The register.
        register: Register,
        /// Its new value. That of a TTBR is the root table's address, with the ASID in bits 63:48 and CnP in bit 0.
        #[serde(with = "hex")]
        value: u64,
    },
    /// The CPU is reset, and is at EL1 again: hotplug (CPU_OFF and CPU_ON), deep idle. Its MMU is off, its registers and
    /// what its TLB holds are unknown.
    Reset {
        /// The CPU.
        cpu: CpuId,
    },
    /// From here on the CPU touches nothing but its 1:1 map, until it is unparked.
    Park {
        /// The CPU.
        cpu: CpuId,
    },
    /// The CPU goes on with its work.
    Unpark {
        /// The CPU.
        cpu: CpuId,
    },
    /// The CPU reports its features to the system. Before that the system cannot rely on any.
    Report {
        /// The CPU.
        cpu: CpuId,
    },
    /// A table page is taken; its content is undefined.
    Alloc {
        /// The CPU.
        cpu: CpuId,
        /// Its address.
        #[serde(with = "hex")]
        table: u64,
    },
    /// A table page is given back.
    Free {
        /// The CPU.
        cpu: CpuId,
        /// Its address.
        #[serde(with = "hex")]
        table: u64,
    },
    /// An operation begins, and announces the changes that it will have made when it is done.
    Begin {
        /// The CPU that carries it out.
        cpu: CpuId,
        /// The root of the tables that it changes.
        #[serde(with = "hex")]
        root: u64,
        /// Its name.
        name: String,
        /// The new mapping of each range. Ranges do not overlap.
        changes: Vec<Expected>,
    },
    /// The operation that this CPU began returns.
    Done {
        /// The CPU that carried it out.
        cpu: CpuId,
        /// True if it made the changes that it announced; otherwise it made none.
        ok: bool,
    },
    /// Pages of data go to another owner. From here on no CPU may reach them.
    Give {
        /// The CPU.
        cpu: CpuId,
        /// The physical address.
        #[serde(with = "hex")]
        pa: u64,
        /// The size in bytes: whole pages.
        #[serde(with = "hex")]
        bytes: u64,
    },
    /// Pages that were given away, or some of them, come back and can be mapped again.
    Take {
        /// The CPU.
        cpu: CpuId,
        /// The physical address.
        #[serde(with = "hex")]
        pa: u64,
        /// The size in bytes: whole pages.
        #[serde(with = "hex")]
        bytes: u64,
    },
    /// Instructions are stored to memory.
    Code {
        /// The CPU.
        cpu: CpuId,
        /// A physical address in the cache line.
        #[serde(with = "hex")]
        pa: u64,
    },
    /// A cache line is maintained, for code that was stored, or for a table that was written with the MMU off.
    Cache {
        /// The CPU.
        cpu: CpuId,
        /// The maintenance operation.
        op: CacheOp,
        /// A physical address in the cache line.
        #[serde(with = "hex")]
        pa: u64,
    },
    /// Instructions are executed.
    Execute {
        /// The CPU.
        cpu: CpuId,
        /// A physical address in the cache line.
        #[serde(with = "hex")]
        pa: u64,
    },
    /// A virtual address is used, through the map that the CPU has loaded.
    Access {
        /// The CPU.
        cpu: CpuId,
        /// The address.
        #[serde(with = "hex")]
        va: u64,
        /// The use of it.
        how: Access,
    },
    /// A page becomes a table with the CPU's next store: what it has, as far as that is not zero. Only what is watched needs it,
    /// where the stores to the page were not seen.
    Link {
        /// The CPU.
        cpu: CpuId,
        /// The page's address.
        #[serde(with = "hex")]
        table: u64,
        /// Indexes and descriptors.
        words: Vec<(usize, Word)>,
        /// The CPUs with stores to the page that no barrier of theirs has ordered.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unordered: Vec<CpuId>,
    },
    /// The CPU's next store is a store-release, or it executes a DMB: its earlier stores come before the later ones.
    Release {
        /// The CPU.
        cpu: CpuId,
    },
    /// The CPU returns to a lower exception level, or idles: what it did in the tables it has ended.
    Leave {
        /// The CPU.
        cpu: CpuId,
    },
    /// The CPU begins to read live tables without a lock. Such sections can be nested.
    ReadBegin {
        /// The CPU.
        cpu: CpuId,
    },
    /// The CPU has ended what it began last, and knows no table any more that it came to.
    ReadEnd {
        /// The CPU.
        cpu: CpuId,
    },
}

/// A descriptor, in hexadecimal in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Word(#[serde(with = "hex")] pub u64);

/// An update of a leaf by a walker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Update {
    /// It sets the access flag.
    Accessed,
    /// It makes a writable-clean leaf writable-dirty: it clears AP\[2\]. It sets the access flag with it.
    Dirty,
}

/// The use of a virtual address by a CPU at EL1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
    /// A load of allocation tags (FEAT_MTE2). A store of tags is a write of the address too, which is an event of its own.
    Tag,
}

/// The kinds of DSB that matter to tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Barrier {
    /// Stores, to the inner shareable domain.
    Ishst,
    /// Everything, to the inner shareable domain.
    Ish,
    /// Stores, to this CPU alone.
    Nshst,
    /// Everything, to this CPU alone.
    Nsh,
    /// Stores, to the outer shareable domain, which has the inner one in it.
    Oshst,
    /// Everything, to the outer shareable domain.
    Osh,
    /// Stores, to the whole system.
    St,
    /// Everything, to the whole system.
    Sy,
    /// As ISH, but of the TLBIs only those with the nXS qualifier (FEAT_XS).
    Ishnxs,
    /// The same to this CPU alone.
    Nshnxs,
    /// The same to the outer shareable domain.
    Oshnxs,
    /// The same to the whole system.
    Synxs,
}

impl Barrier {
    /// Returns true if it waits for loads as well as for stores, as the completion of TLBIs asks.
    pub(crate) const fn is_full(self) -> bool {
        !matches!(self, Self::Ishst | Self::Nshst | Self::Oshst | Self::St)
    }

    /// Returns true if it waits for the other CPUs.
    pub(crate) const fn is_shared(self) -> bool {
        !matches!(self, Self::Nshst | Self::Nsh | Self::Nshnxs)
    }

    /// Returns true if it completes only TLBIs with the nXS qualifier (B2.6.9).
    pub(crate) const fn is_nxs(self) -> bool {
        matches!(self, Self::Ishnxs | Self::Nshnxs | Self::Oshnxs | Self::Synxs)
    }
}

/// Cache maintenance by address. A line has 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CacheOp {
    /// Data cache clean to the point of unification.
    #[serde(rename = "dc cvau")]
    DcCvau,
    /// Instruction cache invalidation to the point of unification.
    #[serde(rename = "ic ivau")]
    IcIvau,
    /// Data cache invalidation to the point of coherency.
    #[serde(rename = "dc ivac")]
    DcIvac,
    /// Data cache clean and invalidation to the point of coherency.
    #[serde(rename = "dc civac")]
    DcCivac,
    /// Data cache clean to the point of coherency.
    #[serde(rename = "dc cvac")]
    DcCvac,
}

/// The mapping that a range must have when an operation has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The first address.
    #[serde(with = "hex")]
    pub va: u64,
    /// Its size in bytes: whole pages.
    #[serde(with = "hex")]
    pub bytes: u64,
    /// The first page's mapping, the next ones following in address; none for a hole. A line says so by `null`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub to: Option<Mapping>,
    /// True if the operation promises that these pages, which are read-only here, cannot be written by any other
    /// address of any tree either. That is judged when it has returned and at every later store, until another operation
    /// announces a change of this range without the promise.
    #[serde(default, skip_serializing_if = "is_no")]
    pub nowhere_writable: bool,
    /// True if the caller handles spurious faults here: TLBs may keep permissions that are stricter than the new ones,
    /// until another operation announces a change of this range without that.
    #[serde(default, skip_serializing_if = "is_no")]
    pub spurious_faults: bool,
    /// True if the invalidations are left for later: TLBs may keep what this range was before, until another operation
    /// announces a change of this range without that, such as a flush. Until they have gone nobody merges the range.
    #[serde(default, skip_serializing_if = "is_no")]
    pub invalidated_later: bool,
}

/// The mapping of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// The output address.
    #[serde(with = "hex")]
    pub pa: u64,
    /// The attributes, as [`Attributes`] has them.
    #[serde(with = "hex")]
    pub attributes: u64,
    /// True if accesses translate; otherwise the mapping is present-invalid.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub valid: bool,
}

impl Mapping {
    /// A valid mapping.
    pub const fn new(pa: Pa, attributes: Attributes) -> Self {
        Self { pa: pa.0, attributes: attributes.bits(), valid: true }
    }

    /// The mapping of the address that lies `bytes` further.
    pub(crate) const fn at(self, bytes: u64) -> Self {
        Self { pa: self.pa.wrapping_add(bytes), ..self }
    }
}

impl Expected {
    /// A range that will map to consecutive physical memory from `to` on, or to nothing.
    pub const fn new(va: Va, bytes: u64, to: Option<Mapping>) -> Self {
        let [nowhere_writable, spurious_faults, invalidated_later] = [false; 3];
        Self { va: va.0, bytes, to, nowhere_writable, spurious_faults, invalidated_later }
    }

    /// The same, with the promise that the pages cannot be written by any other address either.
    #[must_use]
    pub const fn nowhere_writable(self) -> Self {
        Self { nowhere_writable: true, ..self }
    }

    /// The same, where the caller handles faults of TLBs that still have stricter permissions.
    #[must_use]
    pub const fn spurious_faults(self) -> Self {
        Self { spurious_faults: true, ..self }
    }

    /// The same, where invalidations are left for later.
    #[must_use]
    pub const fn invalidated_later(self) -> Self {
        Self { invalidated_later: true, ..self }
    }

    /// Returns the change that maps the addresses of a run.
    pub const fn of_run(run: &Run, geometry: Geometry) -> Self {
        let bytes = run.descriptors << geometry.level_shift(run.level);
        Self::new(run.va, bytes, Some(Mapping::new(run.oa, run.attributes)))
    }

    /// The last address.
    pub(crate) const fn last(&self) -> u64 {
        self.va.wrapping_add(self.bytes).wrapping_sub(1)
    }
}

impl Event {
    /// A store of one descriptor, by a CPU that did not read it before.
    pub const fn write(cpu: CpuId, table: Pa, index: usize, value: u64) -> Self {
        Self::Write { cpu, table: table.0, index, value, count: 1, step: 0, was: None }
    }

    /// Returns the CPU that takes the step.
    pub const fn cpu(&self) -> CpuId {
        match *self {
            Self::Write { cpu, .. }
            | Self::Dsb { cpu, .. }
            | Self::Isb { cpu }
            | Self::Exception { cpu }
            | Self::Tlbi { cpu, .. }
            | Self::Msr { cpu, .. }
            | Self::Reset { cpu }
            | Self::Park { cpu }
            | Self::Unpark { cpu }
            | Self::Report { cpu }
            | Self::Alloc { cpu, .. }
            | Self::Free { cpu, .. }
            | Self::Begin { cpu, .. }
            | Self::Done { cpu, .. }
            | Self::Give { cpu, .. }
            | Self::Take { cpu, .. }
            | Self::Code { cpu, .. }
            | Self::Cache { cpu, .. }
            | Self::Execute { cpu, .. }
            | Self::Access { cpu, .. }
            | Self::ReadBegin { cpu }
            | Self::ReadEnd { cpu }
            | Self::Link { cpu, .. }
            | Self::Release { cpu }
            | Self::Leave { cpu }
            | Self::Cas { cpu, .. }
            | Self::Update { cpu, .. } => cpu,
        }
    }
}

/// As an engineer would note it down.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu {}  ", self.cpu())?;
        match self {
            Self::Write { table, index, value, count: 1, .. } => {
                write!(f, "write {table:#x}[{index}] = {value:#018x}")
            }
            Self::Write { table, index, value, count, step, .. } => {
                write!(
                    f,
                    "write {table:#x}[{index}..{}] = {value:#018x}, step {step:#x}",
                    index.saturating_add(*count)
                )
            }
            Self::Dsb { kind, .. } => write!(f, "dsb {kind}"),
            Self::Isb { .. } => write!(f, "isb"),
            Self::Exception { .. } => write!(f, "exception"),
            Self::Tlbi { op, operand: 0, .. } => write!(f, "tlbi {op}"),
            Self::Tlbi { op, operand, .. } => write!(f, "tlbi {op}, {operand:#x}"),
            Self::Msr { register, value, .. } => write!(f, "msr {register}, {value:#x}"),
            Self::Reset { .. } => write!(f, "reset"),
            Self::Park { .. } => write!(f, "park"),
            Self::Unpark { .. } => write!(f, "unpark"),
            Self::Report { .. } => write!(f, "report"),
            Self::Alloc { table, .. } => write!(f, "alloc {table:#x}"),
            Self::Free { table, .. } => write!(f, "free {table:#x}"),
            Self::Begin { name, changes, .. } => {
                write!(f, "begin {name}")?;
                changes.iter().try_for_each(|c| write!(f, " {:#x}+{:#x}", c.va, c.bytes))
            }
            Self::Done { ok: true, .. } => write!(f, "done"),
            Self::Done { ok: false, .. } => write!(f, "done, refused"),
            Self::Give { pa, bytes, .. } => write!(f, "give {pa:#x}+{bytes:#x}"),
            Self::Take { pa, bytes, .. } => write!(f, "take {pa:#x}+{bytes:#x}"),
            Self::Code { pa, .. } => write!(f, "code {pa:#x}"),
            Self::Cache { op, pa, .. } => write!(f, "{op} {pa:#x}"),
            Self::Execute { pa, .. } => write!(f, "execute {pa:#x}"),
            Self::Cas { table, index, was, value, .. } => {
                write!(f, "cas {table:#x}[{index}] = {value:#018x}, if it is {was:#018x}")
            }
            Self::Update { table, index, what: Update::Accessed, .. } => {
                write!(f, "walker sets the access flag of {table:#x}[{index}]")
            }
            Self::Update { table, index, what: Update::Dirty, .. } => {
                write!(f, "walker makes {table:#x}[{index}] writable-dirty")
            }
            Self::Access { va, how, .. } => write!(f, "{how} at {va:#x}"),
            Self::Link { table, words, .. } => write!(f, "links {table:#x} with {} words", words.len()),
            Self::Release { .. } => write!(f, "release"),
            Self::Leave { .. } => write!(f, "leaves"),
            Self::ReadBegin { .. } => write!(f, "begins to read"),
            Self::ReadEnd { .. } => write!(f, "has read"),
        }
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ishst => "ishst",
            Self::Ish => "ish",
            Self::Nshst => "nshst",
            Self::Nsh => "nsh",
            Self::Oshst => "oshst",
            Self::Osh => "osh",
            Self::St => "st",
            Self::Sy => "sy",
            Self::Ishnxs => "ishnxs",
            Self::Nshnxs => "nshnxs",
            Self::Oshnxs => "oshnxs",
            Self::Synxs => "synxs",
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Tag => "read tags",
        })
    }
}

impl fmt::Display for CacheOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DcCvau => "dc cvau",
            Self::IcIvau => "ic ivau",
            Self::DcIvac => "dc ivac",
            Self::DcCivac => "dc civac",
            Self::DcCvac => "dc cvac",
        })
    }
}

const fn one() -> usize {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde asks for
const fn is_one(n: &usize) -> bool {
    *n == 1
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_no(b: &bool) -> bool {
    !*b
}
