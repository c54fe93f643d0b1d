//! How long changes of the map take: its creation, a split and a collapse while the other CPUs rest and while they load
//! from that leaf, a parking, and a repaint.
//!
//! A map is created in an address space that no CPU is on. A split makes one page in the middle of the first leaf
//! read-only; under `split=park` the parking is part of it. The parking alone stores nothing, and is over when all are back. The repaint puts all of the linear map into pages, and a
//! collapse brings it back, but for the crash kernel's memory, which stays in pages.

use core::sync::atomic::AtomicBool;

use arrayvec::ArrayVec;
use kernel::measure::spread::spread;
use kernel_plan::measure::{Cell, Effort, Work};
use linmap::error::ChangeError;
use linmap::layout::linear_range;
use linmap::{Change, Hardware, Leaves, Policy, Va};

use super::workers::{self, nanoseconds};
use crate::clock::now;
use crate::console::say;
use crate::exercises::counted::has_room;
use crate::exercises::hot_costs::{Wrong, in_a_space};
use crate::exercises::tally::Tally;
use crate::hardware::{HARDWARE, lock_all};
use crate::leaf::Leaf;
use crate::system::System;
use crate::{cpu, crash, identity, interrupts, parking, repaint, report};

/// The most samples of one change.
const MOST: usize = 100;

type Samples = ArrayVec<u64, MOST>;

/// The changes of one map.
pub(super) struct Changes<'a> {
    pub(super) system: &'a System<'a>,
    pub(super) tally: &'a Tally<'a>,
    pub(super) effort: Effort,
}

impl Changes<'_> {
    /// Times all that the policy permits.
    #[inline(never)]
    pub(super) fn measure(&self) {
        self.create();
        self.park();
        let policy = self.system.space.policy();
        if !matches!(policy, Policy::Live | Policy::Park) {
            return;
        }
        let range = &self.system.memory.scratch.range;
        if let Some(leaf) = self.system.memory.layout.va(range.start).and_then(|va| Leaf::at(self.system, va))
        {
            self.split(leaf, ["split", "collapse"]);
            self.split_under_load(leaf);
        }
        self.repaint(policy);
    }

    /// Returns how often something is timed.
    fn times(&self, full: usize) -> usize {
        if self.effort == Effort::Full { full } else { 3 }
    }

    /// Times the creation of the whole map, in pages and in large leaves in turns.
    #[inline(never)]
    fn create(&self) {
        let System { geometry: g, memory, .. } = self.system;
        let tables = memory.layout.most_tables(Leaves::Pages) + 16;
        if !has_room(self.system, tables * g.page_size(), "create_pages, create_large") {
            return;
        }
        let mut samples = [Samples::new(), Samples::new()];
        for _ in 0..self.times(10) {
            for (n, leaves) in [Leaves::Pages, Leaves::Largest].into_iter().enumerate() {
                let took = in_a_space(self.system, |space| {
                    let began = now();
                    // SAFETY: no CPU is on these tables.
                    let created = unsafe { space.on(&self.system.platform()).create(&memory.layout, leaves) };
                    let took = now().wrapping_sub(began);
                    created.map_err(Wrong::Create)?;
                    Ok(took)
                });
                samples[n].extend(self.tally.done(took, "the map cannot be created again").map(nanoseconds));
            }
        }
        print("create_pages", &mut samples[0]);
        print("create_large", &mut samples[1]);
    }

    /// Times a split of a leaf and its collapse.
    #[inline(never)]
    fn split(&self, leaf: Leaf, names: [&str; 2]) {
        let page = Va(leaf.va.0 + leaf.size.bytes() / 2);
        let System { space, .. } = self.system;
        let platform = self.system.platform();
        // SAFETY: the scratch range has no owner, and nothing writes to it meanwhile.
        let protect = |change| unsafe { space.on(&platform).protect(page, 1, change) };
        let mut samples = [Samples::new(), Samples::new()];
        for _ in 0..self.times(MOST) {
            samples[0].extend(self.timed(|| protect(Change::READ_ONLY)));
            let done = parking::again(|| protect(Change::WRITABLE));
            self.tally.done(done, "a page cannot be made writable");
            samples[1].extend(self.timed(|| space.on(&platform).collapse(leaf.va, leaf.pages(self.system))));
        }
        self.tally.expect(
            Leaf::at(self.system, leaf.va) == Some(leaf),
            "the leaf that was split did not come back",
        );
        let [split, collapse] = &mut samples;
        print(names[0], split);
        print(names[1], collapse);
    }

    /// Does the same while the other CPUs load from the leaf, each from its share of it.
    #[inline(never)]
    fn split_under_load(&self, leaf: Leaf) {
        let others = cpu::running().count() as u64 - 1;
        let share = (leaf.size.bytes() / (others + 1)).checked_ilog2().map_or(0, |log| 1 << log);
        let cell = Cell { work: Work::Loads, share, cpus: others + 1, steps: 1000, turns: 1 };
        if others == 0 || share < 64 << 10u32 {
            return;
        }
        workers::fill(&cell, leaf.va);
        let over = AtomicBool::new(false);
        workers::first_and_others(&cell, leaf.va, &over, self.tally, || {
            self.split(leaf, ["split_loaded", "collapse_loaded"]);
        });
    }

    /// Does a change, again if a parking was called off, and returns the time of the last attempt.
    fn timed(&self, change: impl Fn() -> Result<(), ChangeError>) -> Option<u64> {
        let took = parking::again(|| {
            let began = now();
            change().map(|()| now().wrapping_sub(began))
        });
        self.tally.done(took, "a leaf cannot change its size").map(nanoseconds)
    }

    /// Times a parking, after a call that all CPUs answer.
    #[inline(never)]
    fn park(&self) {
        if identity::ttbr0() == 0 || cpu::running().any(|cpu| !interrupts::is_started(cpu)) {
            return;
        }
        let park = || {
            HARDWARE.call()?;
            let began = now();
            let held = lock_all();
            // SAFETY: the root in use, and no stores.
            unsafe { parking::park(self.system.space.root(), &[]) }?;
            drop(held);
            parking::settle();
            Ok::<_, ChangeError>(now().wrapping_sub(began))
        };
        let mut samples = Samples::new();
        for _ in 0..self.times(MOST) {
            samples.extend(self.tally.done(parking::again(park), "the CPUs do not park").map(nanoseconds));
        }
        print("park", &mut samples);
    }

    /// Times the repaint of the linear map, and undoes it.
    #[inline(never)]
    fn repaint(&self, policy: Policy) {
        let System { space, geometry: g, memory, .. } = self.system;
        let (platform, range) = (self.system.platform(), linear_range(*g));
        let tables = memory.layout.most_tables(Leaves::Pages) + 16;
        if !has_room(self.system, tables * g.page_size(), "repaint") {
            return;
        }
        let mut samples = Samples::new();
        let before = report::walked(self.system);
        for _ in 0..self.times(5) {
            let keep = repaint::kept(self.system);
            let repainted = parking::again(|| {
                let began = now();
                space.on(&platform).repaint(range, keep.as_slice()).map(|_| now().wrapping_sub(began))
            });
            samples.extend(self.tally.done(repainted, "the map cannot be repainted").map(nanoseconds));
            space.set_policy(policy);
            for (va, bytes) in self.apart_from_crash(range) {
                let collapsed = parking::again(|| space.on(&platform).collapse(va, bytes >> g.page_shift()));
                self.tally.done(collapsed, "the repainted map does not collapse");
            }
            let after = report::walked(self.system);
            self.tally.expect(
                after == before,
                format_args!("after a repaint the map is {after:?}, not {before:?}"),
            );
        }
        print("repaint", &mut samples);
    }

    /// Returns the parts of the linear map beside the crash kernel's memory, each an address and its bytes.
    fn apart_from_crash(&self, (first, last): (Va, Va)) -> ArrayVec<(Va, u64), 2> {
        let reserved = crash::reserved(self.system).map(|reserved| reserved.range().clone());
        let in_map = reserved.filter(|range| !range.is_empty()).and_then(|range| {
            let start = self.system.memory.layout.va(range.start)?;
            Some((start, Va(start.0 + (range.end.0 - range.start.0))))
        });
        // Without one, the first part is empty, and nothing lies between the two.
        let (start, end) = in_map.unwrap_or((first, first));
        let parts = [(first, start.0 - first.0), (end, last.0 - end.0 + 1)];
        parts.into_iter().filter(|(_, bytes)| *bytes != 0).collect()
    }
}

/// Prints the times of one kind of change, for people and for programs.
fn print(name: &str, samples: &mut Samples) {
    let Some([least, lower, median, upper, most]) = spread(samples) else { return };
    say!("measure: {name:15} {median} ns, {least} to {most}");
    say!(
        "linmap: {{\"measure\":{{\"changes\":{{\"{name}\":{{\"times\":{},\"ns\":[{least},{lower},{median},{upper},{most}]}}}}}}}}",
        samples.len()
    );
}
