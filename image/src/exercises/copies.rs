//! The costs of the tables of 1 GB in pages, built, walked, copied and freed, as when a process forks and unmaps its memory.
//!
//! The tables are of the lower half and in no TTBR. Nothing is accessed through them, so the pages may have any owner.
//! Each table is built twice and counted the second time, so that table pages come from where they usually do.

use core::ops::ControlFlow;

use arrayvec::ArrayVec;
use linmap::arch::{Entry, Level};
use linmap::layout::Run;
use linmap::{Attributes, Frame, Half, Pa, SharedSpace, Stats, Tree, Va};

use super::counted::{counted, has_room};
use super::tally::Tally;
use super::walks;
use crate::report;
use crate::system::System;

/// The bytes mapped.
const BYTES: u64 = 1 << 30;
const START: Va = Va(BYTES);
const LAST: Va = Va(2 * BYTES - 1);

/// The most runs of leaves that one visit of the tables collects.
const RUNS: usize = 32;

/// Counts this for pages that are not adjacent in memory, as a process has them, and the copy also for pages
/// that all are.
pub(crate) fn count(tally: &Tally<'_>, system: &System<'_>) {
    let copies = Copies { tally, system };
    // Two trees, and their upper levels.
    let tables = 2 * (copies.pages() / (system.geometry.page_size() / 8) + 4);
    if !has_room(
        system,
        tables * system.geometry.page_size(),
        "build_tables, copy_tables, unmap_tables, walk_all",
    ) {
        return;
    }
    copies.apart();
    copies.adjacent();
}

struct Copies<'a> {
    tally: &'a Tally<'a>,
    system: &'a System<'a>,
}

impl Copies<'_> {
    fn pages(&self) -> u64 {
        BYTES >> self.system.geometry.page_shift()
    }

    /// Maps pages in pairs whose second one comes first in memory.
    fn apart(&self) {
        let page = self.system.geometry.page_size();
        let backing = |va: Va| Pa((va.0 - START.0 + self.memory().0) ^ page);
        let build = || self.tree(1, page);
        let Some(first) = self.tally.done(build(), "1 GB cannot be mapped") else { return };
        first.discard(self.system.frames);
        let (tree, window) = counted(self.system, build);
        let Some(tree) = self.tally.done(tree, "1 GB cannot be mapped") else { return };
        let leaves = [self.leaves(tree.stats()), ("tables", Some(tree.stats().tables))];
        report::window("build_tables", &window, &leaves);
        let source = SharedSpace::adopt(tree);
        self.walk_all(&source);
        walks::count_in(self.tally, self.system, "walk_pages", &source, (START, BYTES), backing);
        if let Some(copy) = self.copy("copy_tables", &source) {
            self.unmap(&copy);
            self.discard(&copy);
        }
        self.discard(&source);
    }

    fn adjacent(&self) {
        let tree = self.tally.done(self.tree(self.pages(), 0), "1 GB cannot be mapped");
        let Some(source) = tree.map(SharedSpace::adopt) else { return };
        if let Some(copy) = self.copy("copy_tables_adjacent", &source) {
            self.discard(&copy);
        }
        self.discard(&source);
    }

    /// Returns the memory of the pages: from the first gigabyte with RAM on.
    fn memory(&self) -> Pa {
        let first = self.system.memory.layout.ram().first();
        Pa(first.map_or(0, |range| range.start.0 & !(BYTES - 1)))
    }

    /// Maps runs of so many pages, whose addresses in memory have the bits `flipped`.
    fn tree(&self, descriptors: u64, flipped: u64) -> Result<Tree, linmap::error::BuildError> {
        let (bytes, memory) = (descriptors << self.system.geometry.page_shift(), self.memory());
        let run = |n| Run {
            va: Va(START.0 + n * bytes),
            oa: Pa((memory.0 + n * bytes) ^ flipped),
            level: Level::PAGE,
            contiguous: false,
            descriptors,
            attributes: Attributes::KERNEL_DATA,
        };
        Tree::build(self.system.frames, self.system.geometry, Half::Lower, (0..BYTES / bytes).map(run))
    }

    /// Counts a walk of all leaves.
    fn walk_all(&self, space: &SharedSpace) {
        let (walked, window) = counted(self.system, || {
            space.on(&self.system.platform()).read(|reader| reader.count((START, LAST)))
        });
        self.tally.expect(walked == self.stats(space), "the tables hold something else");
        report::window("walk_all", &window, &[self.leaves(walked), ("tables", Some(walked.tables))]);
    }

    /// Counts a copy of the tables, in another tree.
    fn copy(&self, name: &str, source: &SharedSpace) -> Option<SharedSpace> {
        let copy = || source.on(&self.system.platform()).copy((START, LAST));
        self.tally.done(copy(), "1 GB cannot be copied")?.discard(self.system.frames);
        let (copied, window) = counted(self.system, copy);
        let copied = self.tally.done(copied, "1 GB cannot be copied").map(SharedSpace::adopt)?;
        let (stats, same) = (self.stats(&copied), self.stats(source));
        let is_same = stats == same && self.is_same(&copied, source);
        self.tally.expect(is_same, format_args!("{name}: the copy is not what it was made from"));
        let (of, tables) = (self.leaves(same).1, Some(stats.tables));
        report::window(name, &window, &[self.leaves(stats), ("source_leaves", of), ("tables", tables)]);
        Some(copied)
    }

    /// Returns true if two trees map the same. Out of line, as it needs much of the stack.
    #[inline(never)]
    fn is_same(&self, one: &SharedSpace, other: &SharedSpace) -> bool {
        Runs::of(self.system, one).eq(Runs::of(self.system, other))
    }

    /// Counts unmapping all of it by one call.
    fn unmap(&self, space: &SharedSpace) {
        let (platform, before) = (self.system.platform(), self.stats(space));
        // SAFETY: the tables are in no TTBR, so nothing uses the addresses.
        let unmap = || unsafe { space.on(&platform).unmap(START, self.pages()) };
        let (done, window) = counted(self.system, unmap);
        let after = self.stats(space);
        if self.tally.done(done, "1 GB cannot be unmapped").is_none() {
            return;
        }
        self.tally.expect(after == Stats::ROOT, "something stays mapped");
        let tables = [("tables_before", Some(before.tables)), ("tables_after", Some(after.tables))];
        report::window("unmap_tables", &window, &[self.leaves(before), tables[0], tables[1]]);
    }

    fn stats(&self, space: &SharedSpace) -> Stats {
        space.on(&self.system.platform()).stats()
    }

    fn leaves(&self, stats: Stats) -> (&'static str, Option<u64>) {
        let sizes = self.system.geometry.leaf_sizes();
        ("leaves", Some(sizes.iter().map(|size| stats.descriptors(*size)).sum()))
    }

    /// Gives all tables back.
    fn discard(&self, space: &SharedSpace) {
        // SAFETY: the root of a tree that was adopted; as it was never in a TTBR, no walker reaches it. It is not
        // used again.
        let tree =
            unsafe { Tree::from_root(Frame::from_pa(space.root()), self.system.geometry, Half::Lower) };
        tree.discard(self.system.frames);
    }
}

/// Iterates over the valid leaves, joined into runs.
struct Runs<'a> {
    system: &'a System<'a>,
    space: &'a SharedSpace,
    /// Those collected, and how many of them have been returned.
    found: ArrayVec<Run, RUNS>,
    behind: usize,
    /// The address at which the next visit starts.
    next: Va,
}

impl<'a> Runs<'a> {
    fn of(system: &'a System<'a>, space: &'a SharedSpace) -> Self {
        Self { system, space, found: ArrayVec::new(), behind: 0, next: START }
    }

    /// Collects the next ones.
    fn look(&mut self) {
        self.behind = 0;
        self.found.clear();
        let (found, mut next) = (&mut self.found, Va(LAST.0 + 1));
        let _ = self.space.on(&self.system.platform()).read(|reader| {
            reader.visit((self.next, LAST), |&linmap::read::Visited { va, level, entry, .. }| {
                let Entry::Leaf(leaf) = entry else { return ControlFlow::Continue(()) };
                let shift = self.system.geometry.level_shift(level);
                let (contiguous, attributes) = (leaf.contiguous, leaf.attributes);
                let run = Run { va, oa: leaf.oa, level, contiguous, descriptors: 1, attributes };
                if let Some(last) = found.last_mut().filter(|last| goes_on(last, &run, shift)) {
                    last.descriptors += 1;
                } else if found.try_push(run).is_err() {
                    next = va;
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })
        });
        self.next = next;
    }
}

/// Returns true if a leaf continues a run, in both kinds of addresses, with the same attributes.
fn goes_on(run: &Run, leaf: &Run, shift: u32) -> bool {
    let bytes = run.descriptors << shift;
    (leaf.va.0, leaf.oa.0) == (run.va.0 + bytes, run.oa.0 + bytes)
        && (leaf.level, leaf.contiguous, leaf.attributes) == (run.level, run.contiguous, run.attributes)
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.behind == self.found.len() && self.next <= LAST {
            self.look();
        }
        let run = *self.found.get(self.behind)?;
        self.behind += 1;
        Some(run)
    }
}
