//! The contents of a SOURCE: tables with facts about their kernel, or a dump.

use std::ops::Range;
use std::time::Duration;

use linmap::{Geometry, Pa, Va};

use super::dump::Saved;
use super::error::Problem;
use super::facts::{Cpu, Kernel};
use super::memory::{Memory, Unreadable};
use super::pause::{Limit, Within};
use super::regime::{Regime, translate};
use super::seconds::Seconds;
use super::snapshot::Snapshot;
use super::wanted::Request;
use super::{boot_line, search};

/// The contents of a SOURCE.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Tables, as the hardware sees them.
    Tables(Box<Tables>),
    /// A dump of them.
    Saved(Box<Saved>),
}

/// The place of tables: the name of what has them, for people, their root and geometry, and the memory that they are in.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) regime: Regime,
    pub(super) memory: Memory,
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
    /// The tables: a [`linmap::read::ReadTables`] of bounded size. A table that cannot be read is in it as such, with the
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

impl Tables {
    /// Reads tables from memory that is not halted for it.
    pub(super) fn read(place: Place, kernel: Kernel, request: Request<'_>) -> Result<Self, Problem> {
        Ok(Self { kernel, ..Self::read_within(Limit::NONE, place, request)? })
    }

    /// Reads tables while a guest is halted. After the limit, tables that were not read are missing.
    pub(super) fn read_within(limit: Limit, place: Place, request: Request<'_>) -> Result<Self, Problem> {
        let Regime { root, geometry } = place.regime;
        let from = Within { memory: place.memory.from(), limit };
        let snapshot = Snapshot::read(&from, geometry, root, request)?;
        Self::of(snapshot, place)
    }

    /// Returns tables that were read, if there is a root among them.
    pub(super) fn of(snapshot: Snapshot, place: Place) -> Result<Self, Problem> {
        let Place { name, regime, memory } = place;
        let Regime { root, geometry } = regime;
        match (snapshot.ended(), snapshot.unread().first()) {
            (Some(Unreadable::Gone(_)), _) => Err(Problem::Lost),
            (_, Some(unread)) if unread.level == geometry.root() => Err(Problem::Root((*unread).clone())),
            _ => {
                let notes = memory.from().remark().into_iter().collect();
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
                    notes,
                })
            }
        }
    }

    /// Learns facts about the kernel from memory that can still be read.
    pub(super) fn learn(&mut self) {
        let (regime, memory) = (self.regime(), self.memory.from());
        self.kernel.info = search::by_pointer(&self.snapshot, regime, memory);
        self.kernel.command_line = boot_line::find(&self.snapshot, regime, memory);
    }

    /// Notes the facts that can be missing if a halt ended early.
    pub(super) fn lack(&mut self, ended: Option<Unreadable>) {
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

    /// Fills `into` from the kernel's memory at an address. Returns false if any of it is not mapped, or cannot be read any more.
    pub(crate) fn read_virtual(&self, va: Va, into: &mut [u8]) -> bool {
        let (page, mut done) = (self.geometry.page_size(), 0);
        while done < into.len() {
            let Some(here) = va.0.checked_add(done as u64) else { return false };
            let Ok(Some(to)) = translate(&self.snapshot, self.regime(), Va(here)) else { return false };
            let left = usize::try_from(page - here % page).unwrap_or(usize::MAX);
            let end = into.len().min(done.saturating_add(left));
            if self.memory.from().read(to.oa, &mut into[done..end]).is_err() {
                return false;
            }
            done = end;
        }
        true
    }

    /// Returns the memory of the device tree that the kernel has mapped, as far as memory can still be read.
    pub(crate) fn device_tree(&self) -> Option<Range<Pa>> {
        boot_line::place(&self.snapshot, self.regime(), self.memory.from())
    }

    pub(super) fn regime(&self) -> Regime {
        Regime { root: self.root, geometry: self.geometry }
    }
}

/// Adds a note about the guest to the result of reading, good or bad.
pub(super) fn with_note(read: Result<Tables, Problem>, note: Option<String>) -> Result<Tables, Problem> {
    match (read, note) {
        (read, None) => read,
        (Err(why), Some(note)) => Err(Problem::Noted { why: why.into(), note }),
        (Ok(mut tables), Some(note)) => {
            tables.notes.push(note);
            Ok(tables)
        }
    }
}
