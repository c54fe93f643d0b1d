//! The costs of changes of the live map: a window around one call of the library, for each kind of leaf that a page may
//! be split out of.
//!
//! An *anchor*, the first page of the scratch range made read-only, fixes the leaves beside it: the next page is a
//! single one, the next contiguous run stays a run, the next block is in no run. Each is changed and restored once
//! before it is counted, so that table pages come from where they usually do.

use core::convert::Infallible;

use linmap::arch::LeafSize;
use linmap::error::ChangeError;
use linmap::{Change, MemoryType, Policy, Remake, Va};

use super::counted::counted;
use super::hot_costs;
use super::scratch::scratch;
use crate::console::say;
use crate::counters::Window;
use crate::leaf::Leaf;
use crate::system::System;
use crate::warning::warn;
use crate::{cpu, interrupts, parking, report};

/// The number of pairs of changes that the map must survive.
const PAIRS: u64 = 10_000;
/// The number of pages that are remade together.
const REMADE: u64 = 512;

/// Counts changes of all leaves that the map has, then checks that the map is restored. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let range = &system.memory.scratch.range;
    let Some(start) = scratch(system, "bench", 1) else { return true };
    let bench = Bench { system, start, bytes: range.end.0 - range.start.0 };
    let counted = bench.count();
    if let Err(what) = counted {
        say!("bench: {what}");
    }
    let hot = hot_costs::count(system);
    if let Err(what) = &hot {
        say!("bench: {what}");
    }
    bench.restores() & counted.is_ok() & hot.is_ok()
}

/// The reason why the counts are invalid.
#[derive(Clone, Copy)]
enum Wrong {
    /// A call failed.
    Failed(ChangeError),
    /// A leaf did not come back when the change was undone.
    Stays(&'static str, Va),
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Failed(e) => e.fmt(f),
            Self::Stays(name, va) => write!(f, "{name}: the leaf at {va} did not come back"),
        }
    }
}

impl From<ChangeError> for Wrong {
    fn from(e: ChangeError) -> Self {
        Self::Failed(e)
    }
}

struct Bench<'a> {
    system: &'a System<'a>,
    start: Va,
    bytes: u64,
}

impl Bench<'_> {
    fn count(&self) -> Result<(), Wrong> {
        let (g, policy) = (self.system.geometry, self.system.space.policy());
        if policy == Policy::Fixed {
            warn(format_args!("run=bench: the policy is fixed, so no page can come out of a larger leaf"));
            return Ok(());
        }
        parking::again(|| self.protect(self.start, 1, Change::READ_ONLY))?;
        let sizes = g.leaf_sizes();
        let size = |level, contiguous| {
            sizes.iter().find(|s| (s.level.number(), s.contiguous) == (level, contiguous))
        };
        for (name, size) in [
            ("protect_l1", size(1, false)),
            ("protect_l2", size(2, false)),
            ("protect_run", size(3, true)),
            ("protect_page", size(3, false)),
        ] {
            if let Some(leaf) = size.and_then(|s| self.neighbour(s)) {
                self.count_protect(name, leaf)?;
            }
        }
        let largest = [size(1, false), size(2, false)].into_iter().flatten().find_map(|s| self.neighbour(s));
        if let Some(leaf) = largest {
            self.count_remake("remake_page", leaf, 1)?;
            // From two thirds of it on there are so many.
            if leaf.pages(self.system) >= 3 * REMADE {
                self.count_remake("remake_pages", leaf, REMADE)?;
            }
        }
        if let Some(leaf) = size(2, false).and_then(|s| self.neighbour(s)) {
            self.count_collapse("collapse_l2", leaf)?;
            if policy == Policy::Park {
                self.count_parking(leaf)?;
            }
        }
        parking::again(|| self.protect(self.start, 1, Change::WRITABLE))?;
        Ok(())
    }

    /// Returns the anchor's neighbour of one size, if that is what is mapped there.
    fn neighbour(&self, size: &LeafSize) -> Option<Leaf> {
        let va = Va(self.start.0 + size.bytes());
        let inside = 2 * size.bytes() <= self.bytes;
        Leaf::at(self.system, va).filter(|leaf| inside && leaf.size == *size)
    }

    /// Counts one page in the middle of a leaf becoming read-only.
    fn count_protect(&self, name: &'static str, leaf: Leaf) -> Result<(), Wrong> {
        // Two thirds in: not the first page of anything larger.
        let within = (leaf.pages(self.system) * 2 / 3) << self.system.geometry.page_shift();
        let page = Va(leaf.va.0 + within);
        let change = || self.protect(page, 1, Change::READ_ONLY);
        let undo = || self.protect(page, 1, Change::WRITABLE).and_then(|()| self.collapse(leaf));
        self.count_change(name, leaf, change, undo)
    }

    /// Counts pages in the middle of a leaf becoming not cacheable, with a step that does nothing.
    #[inline(never)]
    fn count_remake(&self, name: &'static str, leaf: Leaf, pages: u64) -> Result<(), Wrong> {
        let System { space, geometry: g, .. } = self.system;
        let first = Va(leaf.va.0 + ((leaf.pages(self.system) * 2 / 3) << g.page_shift()));
        let becomes = |memory_type| {
            let (platform, remake) = (self.system.platform(), Remake::memory_type(memory_type));
            // SAFETY: the scratch range has no owner, and nobody accesses it.
            let done =
                unsafe { space.on(&platform).remake(first, pages, remake, || Ok::<(), Infallible>(())) };
            done.map_err(ChangeError::from)
        };
        let change = || becomes(MemoryType::NORMAL_NC);
        let undo = || becomes(MemoryType::NORMAL_TAGGED).and_then(|()| self.collapse(leaf));
        self.count_change(name, leaf, change, undo)
    }

    /// Counts a page that is split out of a leaf while CPUs are parked: on the CPU that asks, from when the last other
    /// one is away, and on all of them, from when they are asked until they are back.
    fn count_parking(&self, leaf: Leaf) -> Result<(), Wrong> {
        let page = Va(leaf.va.0 + leaf.size.bytes() / 2);
        parking::measure(true);
        let changed = parking::again(|| interrupts::masked(|| self.protect(page, 1, Change::READ_ONLY)));
        parking::measure(false);
        changed?;
        let counted = |instructions| self.system.counters.counted(instructions);
        let window =
            Window { instructions: counted(parking::last()), uses: parking::REWRITING, number: None };
        let all = counted(parking::measured()).map(u64::from);
        let cpus = Some(cpu::running().count() as u64);
        let bytes = Some(leaf.size.bytes());
        report::window(
            "park",
            &window,
            &[("leaf_bytes", bytes), ("cpus", cpus), ("stopped_instructions", all)],
        );
        parking::again(|| self.protect(page, 1, Change::WRITABLE))?;
        parking::again(|| self.collapse(leaf))?;
        self.is_back("park", leaf)
    }

    /// Counts a table of pages becoming a block again.
    fn count_collapse(&self, name: &'static str, leaf: Leaf) -> Result<(), Wrong> {
        let System { space, .. } = self.system;
        let split = || space.on(&self.system.platform()).split_to_pages(leaf.va, leaf.pages(self.system));
        // The last undoing leaves what the next one undoes.
        parking::again(split)?;
        self.count_change(name, leaf, || self.collapse(leaf), split)?;
        parking::again(|| self.collapse(leaf))?;
        self.is_back(name, leaf)
    }

    /// Does and undoes something twice, and counts the second time. Counts again if a parking was called off, so that
    /// nothing but the change is counted.
    #[inline(never)]
    fn count_change(
        &self,
        name: &'static str,
        leaf: Leaf,
        change: impl Fn() -> Result<(), ChangeError>,
        undo: impl Fn() -> Result<(), ChangeError>,
    ) -> Result<(), Wrong> {
        let before = Leaf::at(self.system, leaf.va);
        parking::again(&change)?;
        parking::again(&undo)?;
        let window = parking::again(|| {
            let (changed, window) = counted(self.system, &change);
            changed.map(|()| window)
        })?;
        report::window(name, &window, &[("leaf_bytes", Some(leaf.size.bytes()))]);
        parking::again(&undo)?;
        if Leaf::at(self.system, leaf.va) == before { Ok(()) } else { Err(Wrong::Stays(name, leaf.va)) }
    }

    fn is_back(&self, name: &'static str, leaf: Leaf) -> Result<(), Wrong> {
        if Leaf::at(self.system, leaf.va) == Some(leaf) { Ok(()) } else { Err(Wrong::Stays(name, leaf.va)) }
    }

    #[inline]
    fn protect(&self, va: Va, pages: u64, change: Change) -> Result<(), ChangeError> {
        let System { space, .. } = self.system;
        // SAFETY: the scratch range has no owner: nothing is executed from it, and only code that expects a fault
        // writes to it.
        unsafe { space.on(&self.system.platform()).protect(va, pages, change) }
    }

    #[inline]
    fn collapse(&self, leaf: Leaf) -> Result<(), ChangeError> {
        self.system.space.on(&self.system.platform()).collapse(leaf.va, leaf.pages(self.system))
    }

    /// Checks that the map is what it was at boot, after many changes that were undone and one collapse.
    fn restores(&self) -> bool {
        let (System { space, geometry: g, .. }, stats) = (self.system, self.system.stats());
        let platform = self.system.platform();
        let pages = self.bytes >> g.page_shift();
        let (mut random, mut refused) = (0x2545_f491_4f6c_dd1d_u64, 0i32);
        let mut next = |below: u64| {
            // xorshift64: the same numbers in every run.
            random ^= random << 13u32;
            random ^= random >> 7u32;
            random ^= random << 17u32;
            random % below
        };
        let mut failed = None;
        for _ in 0..PAIRS {
            let first = next(pages);
            // Mostly single pages, sometimes ranges of up to a few tables.
            let most = if next(4) == 0 { pages - first } else { 1 };
            let count = 1 + next(most.min(1000));
            let va = Va(self.start.0 + (first << g.page_shift()));
            let changed = parking::again(|| self.protect(va, count, Change::READ_ONLY));
            match changed.and_then(|()| parking::again(|| self.protect(va, count, Change::WRITABLE))) {
                Ok(()) => {}
                Err(ChangeError::NeedsResize { policy: Policy::Fixed, .. }) => refused += 1i32,
                Err(e) => _ = failed.get_or_insert(e),
            }
        }
        let collapsed = parking::again(|| space.on(&platform).collapse(self.start, pages));
        let walked = space.on(&platform).read(|reader| reader.count(linmap::layout::linear_range(*g)));
        if let Some(e) = failed.or(collapsed.err()) {
            say!("bench: {e}");
        }
        if walked != stats {
            say!("bench: the map was {stats:?} at boot, and is {walked:?}");
        }
        let ok = failed.is_none() && collapsed.is_ok() && walked == stats;
        say!(
            "linmap: {{\"tests\":{{\"bench-restore\":{{\"ok\":{ok},\"pairs\":{PAIRS},\"refused\":{refused}}}}}}}"
        );
        ok & report::check_frames(self.system)
    }
}
