//! The state of a live map that many callers share: claims, what a repaint copies, and for each lock a share and what is pending.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::build::{Changes, SplitCosts, Tree};
use crate::edit::{Tables, Versions};
use crate::format::{Geometry, Half, Pa, Span};
use crate::plan::Stats;
use crate::share::claims::{Attention, Claims};
use crate::share::pending::Pending;
use crate::share::publishing::Publishing;
use crate::share::words::Share;

/// The state of a map outside its tables, for callers with at most so many locks.
// In this order: what each operation reads is at the beginning, where one instruction reaches it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MapState<const LOCKS: usize> {
    pub(crate) tables: Tables,
    pub(crate) attention: Attention,
    pub(crate) publishing: Publishing,
    /// The first address of an empty table above a gigabyte that was left where it is, with a bit that says so, or 0.
    left_empty: AtomicU64,
    /// The number of times that the CPUs were parked. They are parked by one CPU at a time.
    parkings: AtomicU64,
    pub(crate) copied: Copied,
    pub(crate) split_costs: SplitCosts,
    pub(crate) claims: Claims<LOCKS>,
    pub(crate) marks: Marks,
    pending: [Pending; LOCKS],
    shares: [Share; LOCKS],
}

impl<const LOCKS: usize> MapState<LOCKS> {
    /// Returns the state of a map that has just been built.
    pub(crate) fn of(tree: Tree) -> Self {
        let (geometry, half, stats) = (tree.geometry(), tree.half(), tree.stats());
        Self::over(tree.into_root().into_pa(), geometry, half, &stats)
    }

    /// Returns the state of a map with these counts below a root.
    pub(crate) fn over(root: Pa, geometry: Geometry, half: Half, stats: &Stats) -> Self {
        let mut state = Self::BLANK;
        state.begin((root, geometry, half), stats);
        state
    }

    /// Sets what depends on the tables, in a state that is blank.
    pub(crate) fn begin(&mut self, root: (Pa, Geometry, Half), stats: &Stats) {
        self.tables.begin(root);
        self.shares[0].counters.include(stats);
    }

    /// The state of no map yet. A state is larger than some stacks, so that it begins where it will stay, as a copy of this.
    /// All of it is zero, so that the copy is a fill, and a program has no constant of this size.
    #[allow(clippy::declare_interior_mutable_const, reason = "each use is a state of its own")]
    pub(crate) const BLANK: Self = {
        assert!(
            LOCKS.is_power_of_two() && LOCKS <= 64,
            "a space has the state of 1, 2, 4, 8, 16, 32 or 64 locks"
        );
        Self {
            tables: Tables::BLANK,
            attention: Attention::none(),
            publishing: Publishing::none(),
            left_empty: AtomicU64::new(0),
            parkings: AtomicU64::new(0),
            copied: Copied::none(),
            claims: Claims::new(),
            split_costs: SplitCosts::none(),
            marks: Marks::none(),
            pending: [const { Pending::none() }; LOCKS],
            shares: [const { Share::new() }; LOCKS],
        }
    };

    /// Returns the state that belongs to a lock.
    #[inline(always)]
    pub(crate) fn share(&self, number: usize) -> &Share {
        &self.shares[number & (LOCKS - 1)]
    }

    /// Returns the pending invalidations of a lock, for its holder.
    pub(crate) fn pending(&self, number: usize) -> &Pending {
        &self.pending[number & (LOCKS - 1)]
    }

    /// Returns the counts of leaves and tables. The caller holds all locks.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::EMPTY;
        self.shares.iter().for_each(|share| share.counters.add_to(&mut stats));
        stats
    }

    /// Returns the counts of operations. The caller holds all locks.
    pub(crate) fn changes(&self) -> Changes {
        let mut changes = Changes { parkings: self.parkings.load(Relaxed), ..Changes::default() };
        self.shares.iter().for_each(|share| share.counters.add_changes_to(&mut changes));
        changes
    }

    /// Notes the first address of an empty table that stays where it is, or that there is none. Returns what was noted before.
    pub(crate) fn leave_empty(&self, first: Option<u64>) -> Option<u64> {
        let before = self.left_empty.swap(first.map_or(0, |first| first | 1), Relaxed);
        (before != 0).then_some(before & !1)
    }

    /// Counts a parking.
    pub(crate) fn parked(&self) {
        self.parkings.fetch_add(1, Relaxed);
    }
}

impl<const LOCKS: usize> Versions for MapState<LOCKS> {
    fn version(&self) -> Option<u64> {
        let mut versions = self.shares.iter().map(Share::version);
        versions.try_fold(0, |sum, version| version.is_multiple_of(2).then_some(sum + version))
    }
}

/// The range that a repaint copies.
///
/// It is set before the repaint takes and drops every lock for the first time. So every change after that sees it.
#[derive(Debug)]
pub(crate) struct Copied {
    first: AtomicU64,
    last: AtomicU64,
}

impl Copied {
    /// Returns the state without a repaint: no range ends at address 0.
    pub(crate) const fn none() -> Self {
        Self { first: AtomicU64::new(0), last: AtomicU64::new(0) }
    }

    /// Sets the range.
    pub(crate) fn set(&self, span: Span) {
        self.first.store(span.first, Relaxed);
        self.last.store(span.last, Relaxed);
    }

    /// Forgets the range: nothing has to be marked any more.
    pub(crate) fn forget(&self) {
        self.last.store(0, Relaxed);
    }

    /// Returns the part of a span that is in the range.
    pub(crate) fn part_of(&self, span: Span) -> Option<Span> {
        let (first, last) = (self.first.load(Relaxed), self.last.load(Relaxed));
        let part = Span { first: span.first.max(first), last: span.last.min(last) };
        (last != 0 && part.first <= part.last).then_some(part)
    }
}

/// Words with marks of what a repaint has to copy again, as many as a map with few locks has. One with more has the others in its shares.
#[derive(Debug)]
pub(crate) struct Marks([AtomicU64; Self::FEW]);

impl Marks {
    /// The number of these words.
    pub(crate) const FEW: usize = 32;

    pub(crate) const fn none() -> Self {
        Self([const { AtomicU64::new(0) }; Self::FEW])
    }

    pub(crate) fn get(&self, number: usize) -> Option<&AtomicU64> {
        self.0.get(number)
    }
}
