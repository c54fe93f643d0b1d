//! The longest stretch of instructions for which a lock is held, over changes of all RAM.
//!
//! The changes are made to tables of the lower half that are in no TTBR and map as much as there is RAM. So all of it can
//! change under the kernel. During a repaint a page changes before each hold, as if by another CPU.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use kernel::stress::Random;
use linmap::{AddressSpace, Attributes, Change, ChangeError, Combined, Frame, Half, Pa, Policy, Tree, Va};

use super::counted::has_room;
use super::tally::Tally;
use super::watched::{Watch, Watched};
use crate::frames::Frames;
use crate::system::System;
use crate::{pmu, report};

/// The first address.
const START: Va = Va(1 << 30);
/// The most changes during a repaint.
const MEANWHILE: u64 = 20_000;

type Platform<'a> = Combined<'a, Frames, Watched<'a>>;

/// Reports the longest hold of each operation; none where instructions are not counted.
#[inline(never)]
pub(super) fn measure(tally: &Tally<'_>, system: &System<'_>) {
    const NAMES: [&str; 6] = ["map", "split", "protect", "collapse", "repaint", "unmap"];
    let mut longest = NAMES.map(|name| (name, None));
    if system.counters.counted(0).is_some() {
        let (bytes, page) = (bytes(system), system.geometry.page_size());
        // Two trees in pages, and their upper levels.
        let tables = 2 * (bytes / page / (page / 8) + 64);
        if !has_room(system, tables * page, "longest_hold") {
            return;
        }
        let Some(tree) = tally.done(empty(system), "no table") else { return };
        let all = All { tally, system, space: AddressSpace::adopt(tree), pages: bytes / page };
        all.space.set_policy(Policy::Live);
        let holds = [all.map(), all.split(), all.protect(), all.collapse(), all.repaint(), all.unmap()];
        longest.iter_mut().zip(holds).for_each(|((_, longest), hold)| *longest = hold);
        all.discard();
    }
    report::holds(&longest);
}

/// Returns how much is mapped: as many bytes as there are of RAM, if the half has so many.
fn bytes(system: &System<'_>) -> u64 {
    let most = (1u64 << system.geometry.va_bits()) - 2 * START.0;
    system.machine.ram.bytes().min(most) & !(system.geometry.page_size() - 1)
}

fn empty(system: &System<'_>) -> Result<Tree, linmap::BuildError> {
    Tree::build(system.frames, system.geometry, Half::Lower, core::iter::empty())
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

struct All<'a> {
    tally: &'a Tally<'a>,
    system: &'a System<'a>,
    space: AddressSpace,
    pages: u64,
}

impl All<'_> {
    /// Does something through a platform with this watcher.
    fn watched_by<R>(&self, watch: &dyn Watch, work: impl FnOnce(&Platform<'_>) -> R) -> R {
        let watched = Watched { watch, yields: false, idle: true };
        // SAFETY: the locks are those of `HARDWARE`, which are the only ones on live tables.
        work(&unsafe { Combined::new(self.system.frames, &watched) })
    }

    /// Does something, and returns its longest hold.
    fn hold<E: fmt::Display>(
        &self,
        between: Option<&(dyn Fn() + Sync)>,
        work: impl FnOnce(&Platform<'_>) -> Result<(), E>,
    ) -> Option<u32> {
        let (held, began, longest) = (AtomicUsize::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let holds = Holds { between, held, began, longest };
        self.tally.done(self.watched_by(&holds, work), "all RAM cannot be changed")?;
        self.tally.expect(holds.held.into_inner() == 0, "a lock is still held");
        self.system.counters.counted(holds.longest.into_inner())
    }

    fn map(&self) -> Option<u32> {
        let first = self.system.memory.layout.ram().first();
        let oa = Pa(first.map_or(0, |range| range.start.0 & !(START.0 - 1)));
        // SAFETY: no CPU uses the tables.
        self.hold(None, |p| unsafe { self.space.map(p, START, self.pages, oa, Attributes::KERNEL_DATA) })
    }

    fn split(&self) -> Option<u32> {
        self.hold(None, |p| self.space.split_to_pages(p, START, self.pages))
    }

    /// From here on all is in pages.
    fn protect(&self) -> Option<u32> {
        let all = |change| {
            // SAFETY: no CPU uses the tables.
            self.hold(None, |p| unsafe { self.space.protect(p, START, self.pages, change) })
        };
        all(Change::READ_ONLY).max(all(Change::WRITABLE))
    }

    fn collapse(&self) -> Option<u32> {
        self.hold(None, |p| self.space.collapse(p, START, self.pages))
    }

    /// From the largest leaves to pages, while others change.
    fn repaint(&self) -> Option<u32> {
        let number = AtomicU64::new(0);
        let between = || self.change_a_page(number.fetch_add(1, Relaxed));
        let whole = (Va(0), Va((1 << self.system.geometry.va_bits()) - 1));
        self.hold(Some(&between), |p| self.space.repaint(p, whole, &[]).map(|_| ()))
    }

    /// Changes a page somewhere, unless it has to wait.
    fn change_a_page(&self, number: u64) {
        if number >= MEANWHILE {
            return;
        }
        let page = Random::from(number).below(self.pages as usize) as u64;
        let va = Va(START.0 + (page << self.system.geometry.page_shift()));
        let change = if number.is_multiple_of(2) { Change::READ_ONLY } else { Change::WRITABLE };
        // SAFETY: no CPU uses the tables.
        let changed = self.watched_by(&Nothing, |p| unsafe { self.space.protect(p, va, 1, change) });
        if !matches!(changed, Err(ChangeError::Busy { .. })) {
            self.tally.done(changed, "a page cannot be changed meanwhile");
        }
    }

    fn unmap(&self) -> Option<u32> {
        // SAFETY: no CPU uses the tables.
        self.hold(None, |p| unsafe { self.space.unmap(p, START, self.pages) })
    }

    /// Gives all tables back.
    fn discard(&self) {
        // SAFETY: the root of a tree that was adopted; as it was never in a TTBR, no walker reaches it. It is not
        // used again.
        let tree =
            unsafe { Tree::from_root(Frame::from_pa(self.space.root()), self.system.geometry, Half::Lower) };
        tree.discard(self.system.frames);
    }
}
