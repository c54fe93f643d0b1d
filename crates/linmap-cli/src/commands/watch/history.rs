//! The readings so far: the first, the newest, and the changes between them.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use linmap::arch::LeafSize;
use linmap::{Geometry, Stats, Va};

use super::changes::{Change, Collector, Counts};
use super::kept::Kept;
use crate::commands::names::SymbolsArgument;
use crate::commands::reading::{Failure, facts, regions, release};
use crate::commands::stat::Findings;
use crate::map::image::Image;
use crate::map::owners::{Owner, Owners};
use crate::map::stretches::{self, Permissions};
use crate::map::sweep::{Compared, sweep};
use crate::map::view::View;
use crate::progress;
use crate::source::SavedRun;

/// The most changes that are remembered.
const REMEMBERED: usize = 100;

/// One reading of a map.
pub(super) struct Reading {
    /// When it was read.
    pub(super) at: SystemTime,
    /// How long all of that took, and how long a guest was halted for it.
    pub(super) took: Duration,
    pub(super) halted: Option<Duration>,
    /// The name of what was read, and facts about it, for people.
    pub(super) name: String,
    pub(super) facts: String,
    pub(super) release: Option<String>,
    pub(super) geometry: Geometry,
    pub(super) stats: Stats,
    pub(super) in_pages: bool,
    /// Present-invalid bytes.
    pub(super) invalid: u64,
    rows: Vec<SavedRun>,
    range: (Va, Va),
    compared: Compared,
    owners: Owners,
}

impl Reading {
    /// Makes a reading of these addresses of a view; reading it began at `begun`.
    pub(super) fn of(
        view: &View<'_>,
        range: (Va, Va),
        symbols: &SymbolsArgument,
        kept: &mut Kept,
        begun: Instant,
    ) -> Result<Self, Failure> {
        let findings = Findings::of(view, range)?;
        let walk = Failure::walk(view);
        let image = Image::find(view).map_err(&walk)?;
        let owners = kept.owners(view, &regions(view, image.as_ref()), symbols)?;
        progress::begin("collecting rows");
        let rows = stretches::of(view, range, Permissions::Effective).map_err(Failure::rows(view))?;
        let invalid = findings.evidence.invalid.iter().map(|kind| kind.bytes).fold(0, u64::saturating_add);
        Ok(Self {
            at: SystemTime::now(),
            took: begun.elapsed(),
            halted: view.tables.and_then(|tables| tables.paused),
            name: view.name().to_owned(),
            facts: facts(view),
            release: release(view).map(|release| release.to_string()),
            geometry: view.geometry,
            stats: findings.survey.stats,
            in_pages: findings.evidence.in_pages(),
            invalid,
            rows,
            range,
            compared: Compared { addresses: view.has_addresses, unprinted: view.has_addresses },
            owners,
        })
    }

    /// Returns the seconds since 1970.
    pub(super) fn unix_time(&self) -> f64 {
        self.at.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
    }

    /// Returns the descriptors of each size of leaf, largest first.
    pub(super) fn leaves(&self) -> Vec<(LeafSize, u64)> {
        self.geometry.leaf_sizes().iter().map(|size| (*size, self.stats.descriptors(*size))).collect()
    }
}

/// A change that was seen, and who has the memory.
pub(super) struct Seen {
    /// The time from the first reading to the one that shows it.
    pub(super) after: Duration,
    pub(super) change: Change,
    /// The known owners.
    pub(super) who: Vec<Owner>,
    /// The number of the reading that shows it.
    pub(super) reading: u64,
}

/// All readings.
pub(super) struct History {
    /// The SOURCE, as on the command line.
    pub(super) source: String,
    pub(super) interval: Duration,
    begun: Instant,
    first: Option<Stats>,
    newest: Option<Reading>,
    /// The changes from the reading before, and since the first.
    pub(super) latest: Counts,
    pub(super) counts: Counts,
    /// The newest changes, newest first.
    pub(super) seen: VecDeque<Seen>,
    pub(super) readings: u64,
    pub(super) failures: u64,
    /// Why the last try failed, if it did.
    pub(super) error: Option<String>,
}

impl History {
    pub(super) fn new(source: String, interval: Duration) -> Self {
        Self {
            source,
            interval,
            begun: Instant::now(),
            first: None,
            newest: None,
            latest: Counts::default(),
            counts: Counts::default(),
            seen: VecDeque::new(),
            readings: 0,
            failures: 0,
            error: None,
        }
    }

    pub(super) const fn newest(&self) -> Option<&Reading> {
        self.newest.as_ref()
    }

    /// Returns the counts of the first reading with the geometry of the newest.
    pub(super) fn first(&self) -> Stats {
        self.first.unwrap_or_default()
    }

    /// Returns how often it was read, or tried to.
    pub(super) const fn tries(&self) -> u64 {
        self.readings + self.failures
    }

    /// Notes a try that failed.
    pub(super) fn failed(&mut self, why: String) {
        self.failures += 1;
        self.latest = Counts::default();
        self.error = Some(why);
    }

    /// Adds a reading. One of another geometry is of another kernel, and counts as a first one.
    pub(super) fn add(&mut self, reading: Reading) {
        self.readings += 1;
        self.error = None;
        self.latest = Counts::default();
        if let Some(before) = self.newest.as_ref().filter(|before| before.geometry == reading.geometry) {
            let mut collector = Collector::new(reading.geometry);
            let (a, b) =
                ((before.geometry, before.rows.as_slice()), (reading.geometry, reading.rows.as_slice()));
            sweep(a, b, reading.range, reading.compared, |found| collector.add(&found));
            self.latest = collector.counts;
            self.counts.add(collector.counts);
            let (after, number) = (self.begun.elapsed(), self.readings);
            for change in collector.changes {
                let who = who(&reading.owners, &change);
                self.seen.push_front(Seen { after, change, who, reading: number });
            }
            self.seen.truncate(REMEMBERED);
        } else {
            self.first = Some(reading.stats);
        }
        self.newest = Some(reading);
    }
}

impl Seen {
    /// Returns the owners for people, each with the evidence: `vmalloc [address]`; empty if none is known.
    pub(super) fn who(&self) -> String {
        let owner = |owner: &Owner| format!("{} [{}]", owner.text(), owner.by.id());
        self.who.iter().map(owner).collect::<Vec<_>>().join(", ")
    }
}

/// Returns who has the memory of a change.
fn who(owners: &Owners, change: &Change) -> Vec<Owner> {
    let mut found: Vec<_> = change.memory.iter().flat_map(|memory| owners.within(memory.clone())).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|number| owners.list()[number].clone()).collect()
}
