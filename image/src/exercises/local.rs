//! All of the linear map becomes not global, in place, while all CPUs read and write through it; and stays so when leaves are
//! split, changed and merged. This is what a kernel does that finds out late that it hides itself from user space (KPTI).
//!
//! There is no way back in place: the map stays so until the end of this boot.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use linmap::arch::Entry;
use linmap::error::ChangeError;
use linmap::{Attributes, Change, ChangeFlags, Policy, Va};

use super::scratch::scratch;
use super::tally::Tally;
use crate::probe::{try_read, try_write};
use crate::system::System;
use crate::{parking, smp};

/// Makes the map so. Returns true if all went well.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let range = &system.memory.scratch.range;
    let Some(start) = scratch(system, "local", 1) else { return true };
    let tally = Tally::start("local", system);
    let bytes = range.end.0 - range.start.0;
    let test =
        Test { system, tally: &tally, start, bytes, over: AtomicBool::new(false), uses: AtomicU64::new(0) };
    let before = test.leaves();
    smp::on_all(&|cpu| if cpu == 0 { test.first() } else { test.other(cpu) });
    let after = test.leaves();
    tally.expect(
        after[0] == 0 && after[1] == before[0] + before[1],
        format_args!("{after:?} leaves, and {before:?} before"),
    );
    tally.conclude(
        format_args!(
            "{} leaves were global, and {} are not, after {} accesses",
            before[0],
            after[1],
            test.uses.load(Relaxed)
        ),
        &[("global", before[0]), ("local", after[1]), ("accesses", test.uses.load(Relaxed))],
    )
}

struct Test<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
    /// The scratch range in the linear map.
    start: Va,
    bytes: u64,
    over: AtomicBool,
    uses: AtomicU64,
}

impl Test<'_> {
    /// Counts the leaves of the linear map: those that are global, and those that are not. Invalid ones, too.
    fn leaves(&self) -> [u64; 2] {
        let mut leaves = [0; 2];
        let range = linmap::layout::linear_range(self.system.geometry);
        _ = self.system.space.on(&self.system.platform()).read(|reader| {
            reader.visit(range, |seen| {
                if let Entry::Leaf(leaf) = seen.entry {
                    leaves[usize::from(leaf.attributes.contains(Attributes::NOT_GLOBAL))] += 1;
                }
                ControlFlow::Continue(())
            })
        });
        leaves
    }

    #[inline(never)]
    fn first(&self) {
        let (space, g) = (&self.system.space, self.system.geometry);
        let (first, last) = linmap::layout::linear_range(g);
        let pages = ((last.0 - first.0) >> g.page_shift()) + 1;
        // SAFETY: permissions stay, and no CPU uses another ASID.
        let made = parking::again(|| unsafe {
            let platform = self.system.platform();
            space.on(&platform).change(first, pages, Change::NOT_GLOBAL, ChangeFlags::SKIP_HOLES)
        });
        self.tally.done(made, "the map does not become local");
        self.tally.expect(
            Change::new(Attributes::empty(), Attributes::NOT_GLOBAL).is_none(),
            "there is a way back",
        );
        self.stays_so();
        self.over.store(true, Relaxed);
    }

    /// Splits a leaf, changes a page, and merges again.
    fn stays_so(&self) {
        let (space, g) = (&self.system.space, self.system.geometry);
        let middle = Va((self.start.0 + self.bytes / 2) & !(g.page_size() - 1));
        for change in [Change::READ_ONLY, Change::WRITABLE, Change::INVALID, Change::VALID] {
            // SAFETY: memory without an owner, and not a word that another CPU uses.
            let done =
                parking::again(|| unsafe { space.on(&self.system.platform()).protect(middle, 1, change) });
            let refused = matches!(done, Err(ChangeError::NeedsResize { policy: Policy::Fixed, .. }));
            self.tally.expect(done.is_ok() || refused, format_args!("{change:?}: {done:?}"));
            self.tally.expect(self.leaves()[0] == 0, format_args!("{change:?} makes a leaf global"));
        }
        let pages = self.bytes >> g.page_shift();
        let merged = parking::again(|| space.on(&self.system.platform()).collapse(self.start, pages));
        self.tally.done(merged, "nothing merges");
    }

    /// Uses words of the scratch range at its start, one of this CPU in each of some pages.
    #[inline(never)]
    fn other(&self, cpu: usize) {
        let (page, mut round) = (self.system.geometry.page_size(), cpu as u64);
        while !self.over.load(Relaxed) {
            round += 1;
            let at = Va(self.start.0 + round % 16 * page + 8 * cpu as u64);
            // SAFETY: memory without an owner, and this CPU's word of it.
            let written = unsafe { try_write(at, round) };
            self.tally
                .expect(written.is_ok() && try_read(at) == Ok(round), format_args!("{at} cannot be used"));
            self.uses.fetch_add(2, Relaxed);
        }
    }
}
