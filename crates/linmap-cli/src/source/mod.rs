//! SOURCEs: page tables of an arm64 kernel, from everything that they can be read from.
//!
//! [`open`] reads all wanted tables once, while the kernel is halted if possible, and returns a copy of them
//! ([`Snapshot`]) with the known facts about the kernel. Nothing that is read is trusted.
//!
//! - `argument`: SOURCE on the command line.  `error`: everything that can be wrong with one.
//! - `wanted`: the tables to be read.  `opened`, `dump`, `facts`: the contents.  `seconds`: durations for people.
//! - `snapshot`: the copy.  `regime`: root and geometry, from registers and VMCOREINFO; pure.
//! - `vmcoreinfo`: the kernel's facts about itself.  `memory`: physical memory.
//! - `pause`: how long a guest may be halted.  `interrupts`: signals wait until it runs again.
//! - `mark`: finds a guest that a killed run left halted.  `boot_line`: the arguments of the boot loader.
//! - `core`, `kcore`, `gdb`, `qemu`, `saved`: one module for each kind of SOURCE.
//! - `file`, `input`, `bytes`: files and pipes, and their contents.  `kdump`: filtered, compressed cores.
//! - `flattened`, `packed`: forms that are unpacked first.  `compressed`: those that are not read.

mod argument;
mod boot_line;
mod bytes;
mod compressed;
mod core;
mod dump;
mod error;
mod facts;
mod file;
mod flattened;
mod gdb;
mod input;
mod interrupts;
mod kcore;
mod kdump;
mod mapped;
mod mark;
mod memory;
mod opened;
mod packed;
mod pause;
mod qemu;
mod regime;
mod saved;
mod search;
mod seconds;
mod snapshot;
mod socket;
mod vmcoreinfo;
mod wanted;

pub(crate) use argument::Source;
pub(crate) use dump::{EntryKind, Restriction, Saved, SavedPart, SavedRegions, SavedRun};
pub(crate) use error::{SourceError, is_address};
pub(crate) use facts::{Cpu, Kernel};
pub(crate) use opened::{Opened, Tables};
pub(crate) use pause::Pause;
pub(crate) use qemu::{Monitor, MonitorError};
pub(crate) use saved::SCHEMA as DUMP_SCHEMA;
pub(crate) use saved::{cpu_document, kernel_document, limits_document, row as dump_row};
pub(crate) use seconds::Seconds;
pub(crate) use snapshot::{Snapshot, Unread};
pub(crate) use vmcoreinfo::VmcoreInfo;
pub(crate) use wanted::{Request, Wanted};

use crate::progress::Step;

/// Reads the wanted tables of a SOURCE. If a guest has to be halted, `pause` says for how long.
pub(crate) fn open(source: &Source, request: Request<'_>, pause: Pause) -> Result<Opened, SourceError> {
    let opened = match source {
        Source::File(path) => file::open(path, request),
        Source::Standard => file::open_standard(request),
        Source::Gdb(address) => gdb::open(address, request, pause).map(|t| Opened::Tables(t.into())),
        Source::Qemu(path) => qemu::open(path, request, pause).map(|t| Opened::Tables(t.into())),
        Source::Live => kcore::open(request).map(|t| Opened::Tables(t.into())),
    };
    opened.map_err(|why| SourceError { subject: source.clone(), why })
}

#[cfg(test)]
mod tests;
