//! Whatever a SOURCE was, as one thing whose tables can be walked.

use linmap::{Bounded, Descriptor, Geometry, Half, Level, Pa, ReadTables, Refused, Slot, Va};

use super::rebuilt::{Inconsistent, Rebuilt};
use crate::source::{Cpu, Kernel, Opened, Saved, Snapshot, Tables, Unread};

/// As many slots of a saved dump are read before a walk gives up: 4 TiB in 4K pages.
const MOST_SLOTS: u64 = 1 << 30;
/// Tables may be used more than once, but no more often than this on the average.
const USES: u64 = 8;

/// Tables that can be walked, and what they lack.
pub(crate) struct View<'o> {
    reader: Reader<'o>,
    pub(crate) geometry: Geometry,
    pub(crate) root: Pa,
    /// Where all of it was read from, unless it was saved.
    pub(crate) tables: Option<&'o Tables>,
    /// The dump, if it was saved.
    pub(crate) saved: Option<&'o Saved>,
    /// Whether output addresses are known; in a text dump they are not, and stand for nothing here.
    pub(crate) has_addresses: bool,
    /// Whether the descriptors of leaves and holes are as they were; what only has their meaning has none.
    pub(crate) has_descriptors: bool,
    /// What is known of the kernel.
    pub(crate) kernel: &'o Kernel,
    /// What is known of the CPUs.
    pub(crate) cpu: &'o Cpu,
    /// The first and last address that anything is known of.
    pub(crate) extent: (Va, Va),
    name: &'o str,
}

enum Reader<'o> {
    Snapshot(&'o Snapshot),
    Saved(Box<Rebuilt<'o>>),
}

/// Why a walk did not come to its end.
pub(crate) type WalkError = Refused<Unread>;

impl<'o> View<'o> {
    /// Looks at what was opened.
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

    /// What was read, for people.
    pub(crate) const fn name(&self) -> &'o str {
        self.name
    }

    /// What was read first: the source that a saved dump was made of.
    pub(crate) fn origin(&self) -> &'o str {
        self.saved.and_then(|saved| saved.origin.as_deref()).unwrap_or(self.name)
    }

    /// What cannot be known, as it was not saved, or not read in time.
    pub(crate) fn missing(&self) -> &'o [String] {
        match (self.saved, self.tables) {
            (Some(saved), _) => &saved.missing,
            (None, tables) => tables.map_or(&[], |tables| &tables.missing),
        }
    }

    /// The addresses that anything is known of, in order: a saved dump may be of several parts with gaps between.
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

    /// Whether anything is known of all of a range.
    pub(crate) fn knows(&self, (first, last): (Va, Va)) -> bool {
        self.known().iter().any(|known| known.0 <= first && last <= known.1)
    }

    /// Says that something of a saved dump is not in it.
    pub(crate) fn not_saved(&self, what: impl std::fmt::Display) -> String {
        let known =
            self.known().iter().map(|(first, last)| format!("from {first} to {last}")).collect::<Vec<_>>();
        format!("{}: {what}: not saved; it has what lies {}", self.name, known.join(", and "))
    }

    /// After how many slots a walk gives up: more than there are, unless tables point to one another.
    pub(crate) fn limit(&self) -> u64 {
        let Some(tables) = self.tables else { return MOST_SLOTS };
        let slots = (tables.snapshot.tables() as u64).saturating_mul(self.geometry.page_size() / 8);
        slots.saturating_mul(USES).saturating_add(1 << 20)
    }

    /// The tables, for one walk of bounded length.
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
