//! The longest hold of a call: the most instructions for which it has a lock.
//!
//! The calls change tables that are in no TTBR, on one CPU.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use linmap::{Combined, Frame, Half, Policy, SharedSpace, Tree};

use super::tally::Tally;
use super::watched::{Watch, Watched};
use crate::frames::Frames;
use crate::pmu;
use crate::system::System;

type Platform<'a> = Combined<'a, Frames, Watched<'a>>;

/// Measures holds, and reports mistakes.
pub(super) struct Meter<'a> {
    pub(super) tally: &'a Tally<'a>,
    pub(super) system: &'a System<'a>,
}

/// The holds of locks by one CPU.
struct Holds<'a> {
    /// Called when no lock is held, before one is taken.
    between: Option<&'a (dyn Fn() + Sync)>,
    /// The number of locks held.
    held: AtomicUsize,
    began: AtomicU32,
    longest: AtomicU32,
}

impl Watch for Holds<'_> {
    fn before(&self) {
        if let (0, Some(between)) = (self.held.load(Relaxed), self.between) {
            between();
        }
    }

    fn taken(&self, _: usize, _: bool) {
        if self.held.fetch_add(1, Relaxed) == 0 {
            self.began.store(pmu::instructions(), Relaxed);
        }
    }

    fn released(&self) {
        let now = pmu::instructions();
        if self.held.fetch_sub(1, Relaxed) == 1 {
            self.longest.fetch_max(now.wrapping_sub(self.began.load(Relaxed)), Relaxed);
        }
    }
}

/// A watcher of changes that are not measured.
struct Nothing;

impl Watch for Nothing {}

impl Meter<'_> {
    /// Returns a map of nothing, in which leaves change their sizes live.
    pub(super) fn empty(&self, half: Half) -> Option<SharedSpace> {
        let System { frames, geometry, .. } = self.system;
        let tree = Tree::empty(*frames, *geometry, half);
        let space = SharedSpace::adopt(self.tally.done(tree, "no table")?);
        space.set_policy(Policy::Live);
        Some(space)
    }

    /// Gives all tables of such a map back.
    pub(super) fn discard(&self, space: SharedSpace, half: Half) {
        let System { frames, geometry, .. } = self.system;
        // SAFETY: the root of a tree that was adopted; as it was never in a TTBR, no walker reaches it. It is not
        // used again.
        let tree = unsafe { Tree::from_root(Frame::from_pa(space.root()), *geometry, half) };
        tree.discard(*frames);
    }

    fn watched_by<R>(&self, watch: &dyn Watch, work: impl FnOnce(&Platform<'_>) -> R) -> R {
        let watched = Watched { watch, yields: false, idle: true };
        // SAFETY: the locks are those of `HARDWARE`, which are the only ones on live tables.
        work(&unsafe { Combined::new(self.system.frames, &watched) })
    }

    /// Does something that is not measured.
    pub(super) fn unmeasured<R>(&self, work: impl FnOnce(&Platform<'_>) -> R) -> R {
        self.watched_by(&Nothing, work)
    }

    /// Does something, and returns its longest hold. `between` is called before each.
    pub(super) fn hold<E: fmt::Display>(
        &self,
        between: Option<&(dyn Fn() + Sync)>,
        work: impl FnOnce(&Platform<'_>) -> Result<(), E>,
    ) -> Option<u32> {
        let (held, began, longest) = (AtomicUsize::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let holds = Holds { between, held, began, longest };
        self.tally.done(self.watched_by(&holds, work), "tables that no CPU uses cannot be changed")?;
        self.tally.expect(holds.held.into_inner() == 0, "a lock is still held");
        self.system.counters.counted(holds.longest.into_inner())
    }
}
