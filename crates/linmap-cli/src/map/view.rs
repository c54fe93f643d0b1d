//! One view of every SOURCE: tables that can be walked.

use linmap::arch::{Descriptor, Level};
use linmap::read::{Bounded, BoundedError, ReadTables};
use linmap::{Geometry, Half, Pa, Slot, Va};

use super::rebuilt::{Inconsistent, Rebuilt};
use crate::source::{Cpu, Kernel, Opened, Saved, Snapshot, Tables, Unread};

/// The most slots of a saved dump that a walk reads: 4 TiB in 4K pages.
const MAX_SLOTS: u64 = 1 << 30;
/// The most uses of a table on average; tables can be shared.
const USES: u64 = 8;

/// Tables that can be walked, and the facts that they lack.
pub(crate) struct View<'o> {
    reader: Reader<'o>,
    pub(crate) geometry: Geometry,
    pub(crate) root: Pa,
    /// The tables that were read, or `None` for a saved dump.
    pub(crate) tables: Option<&'o Tables>,
    /// The saved dump, if it is one.
    pub(crate) saved: Option<&'o Saved>,
    /// True if output addresses are known; in a text dump they are not, and mean nothing here.
    pub(crate) has_addresses: bool,
    /// True if the descriptors of leaves and holes are the raw ones.
    pub(crate) has_descriptors: bool,
    /// Facts about the kernel.
    pub(crate) kernel: &'o Kernel,
    /// Facts about the CPUs.
    pub(crate) cpu: &'o Cpu,
    /// The first and last known address.
    pub(crate) extent: (Va, Va),
    name: &'o str,
}

enum Reader<'o> {
    Snapshot(&'o Snapshot),
    Saved(Box<Rebuilt<'o>>),
}

/// Why a walk did not finish.
pub(crate) type WalkError = BoundedError<Unread>;

impl<'o> View<'o> {
    /// Makes a view of an opened source.
    pub(crate) fn of(opened: &'o Opened) -> Result<Self, Inconsistent> {
        Ok(match opened {
            Opened::Tables(tables) => Self {
                reader: Reader::Snapshot(&tables.snapshot),
                geometry: tables.geometry,
                root: tables.root,
                tables: Some(tables),
                saved: None,
                has_addresses: true,
                has_descriptors: true,
                kernel: &tables.kernel,
                cpu: &tables.cpu,
                extent: (Va(tables.geometry.base(Half::Upper)), Va(u64::MAX)),
                name: &tables.name,
            },
            Opened::Saved(saved) => {
                let rebuilt = Rebuilt::of(saved)?;
                Self {
                    geometry: rebuilt.geometry(),
                    root: rebuilt.root(),
                    has_addresses: rebuilt.has_addresses(),
                    has_descriptors: rebuilt.has_descriptors(),
                    extent: rebuilt.extent(),
                    kernel: &saved.kernel,
                    cpu: &saved.cpu,
                    reader: Reader::Saved(rebuilt.into()),
                    tables: None,
                    saved: Some(saved),
                    name: &saved.name,
                }
            }
        })
    }

    /// Returns the name of what was read, for people.
    pub(crate) const fn name(&self) -> &'o str {
        self.name
    }

    /// Returns the name of the source; of a saved dump, the name of its source.
    pub(crate) fn origin(&self) -> &'o str {
        self.saved.and_then(|saved| saved.origin.as_deref()).unwrap_or(self.name)
    }

    /// Returns facts that are not known, as they were not saved or not read in time.
    pub(crate) fn missing(&self) -> &'o [String] {
        match (self.saved, self.tables) {
            (Some(saved), _) => &saved.missing,
            (None, tables) => tables.map_or(&[], |tables| &tables.missing),
        }
    }

    /// Returns the known addresses in order: a saved dump can have several parts with gaps between them.
    pub(crate) fn known(&self) -> Vec<(Va, Va)> {
        let Some(dump) = self.saved.filter(|dump| !dump.parts.is_empty()) else { return vec![self.extent] };
        let mut known: Vec<(Va, Va)> = Vec::new();
        for (first, last) in dump.parts.iter().map(|part| part.range) {
            match known.last_mut() {
                Some(before) if before.1.0.checked_add(1) == Some(first.0) => before.1 = last,
                _ => known.push((first, last)),
            }
        }
        known
    }

    /// Returns true if all of a range is known.
    pub(crate) fn knows(&self, (first, last): (Va, Va)) -> bool {
        self.known().iter().any(|known| known.0 <= first && last <= known.1)
    }

    /// Returns a sentence: something of a saved dump is not in it.
    pub(crate) fn not_saved(&self, what: impl std::fmt::Display) -> String {
        let known =
            self.known().iter().map(|(first, last)| format!("from {first} to {last}")).collect::<Vec<_>>();
        format!("{}: {what}: not saved; it has what lies {}", self.name, known.join(", and "))
    }

    /// Returns the number of slots after which a walk gives up: more than there are, unless tables point to one
    /// another.
    pub(crate) fn limit(&self) -> u64 {
        let Some(tables) = self.tables else { return MAX_SLOTS };
        let slots = (tables.snapshot.tables() as u64).saturating_mul(self.geometry.page_size() / 8);
        slots.saturating_mul(USES).saturating_add(1 << 20)
    }

    /// Returns how many entries from the one that was read last on grow in equal steps, as far as that is known, and the
    /// step.
    #[inline]
    pub(crate) fn run(&self, slot: Slot, level: Level) -> (u64, u64) {
        match &self.reader {
            Reader::Snapshot(snapshot) => snapshot.run(slot, level),
            Reader::Saved(_) => (1, 0),
        }
    }

    /// Returns the tables, for one walk of bounded length.
    pub(crate) fn bounded(&self) -> Bounded<'_, Self> {
        Bounded::new(self, self.limit())
    }
}

impl ReadTables for View<'_> {
    type Error = Unread;

    #[inline]
    fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Unread> {
        match &self.reader {
            Reader::Snapshot(snapshot) => snapshot.entry(slot, level),
            Reader::Saved(rebuilt) => Ok(rebuilt.entry(slot, level)),
        }
    }
}
