//! A saved dump: its rows, and what else it says.

use linmap::arch::{Level, TableLimits};
use linmap::{Attributes, Geometry, Pa, Va};

use super::facts::{Cpu, Kernel};

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
    pub(crate) stretches: Vec<SavedRun>,
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
pub(crate) struct SavedRun {
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

/// The kind of the entries of a [`SavedRun`].
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

impl Saved {
    /// The most rows of a dump that is read.
    pub(super) const MAX_ROWS: usize = 1 << 22;
}

impl SavedRun {
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
