//! The map does what mode and policy say: its leaves have the right sizes, and a page is split out of one live, with
//! the other CPUs parked, without any change of size, or not at all.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kernel_plan::admit;
use linmap::arm64::Cpu;
use linmap::error::ChangeError;
use linmap::layout::linear_range;
use linmap::policy::Decision;
use linmap::{Change, Changes, Hardware, Pa, Policy, Va};

use super::planned::planned;
use super::scratch::scratch;
use super::tally::Tally;
use crate::hardware::HARDWARE;
use crate::leaf::Leaf;
use crate::probe::{Fault, try_read, try_write};
use crate::system::System;
use crate::{cpu, crash, parking, smp};

/// Tries it from each CPU. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let (range, page) = (&system.memory.scratch.range, system.geometry.page_size());
    // In the first leaf, and within a run, if the leaf is large enough.
    let amid = ((range.start.0 + (range.end.0 - range.start.0) / 4) & !(page - 1)) + 3 * page;
    let pa = if amid + page < range.end.0 { Pa(amid) } else { range.start };
    let Some(start) = scratch(system, "modes", 1) else { return true };
    let page = Va(start.0 + (pa.0 - range.start.0));
    let tally = Tally::start("modes", system);
    let test = Test { system, tally: &tally, page };
    test.judge_mode();
    test.judge_leaves();
    let before = test.changes();
    for cpu in cpu::running() {
        test.judge_change(cpu);
    }
    let after = test.changes();
    let [splits, collapses, parkings] =
        [after.splits - before.splits, after.collapses - before.collapses, after.parkings - before.parkings];
    let (mode, policy, cpus) =
        (system.decision.mode.number(), system.decision.policy, cpu::running().count());
    tally.conclude(
        format_args!(
            "mode {mode}, policy {policy}: from {cpus} CPUs a page was made read-only and restored, in {splits} splits, {collapses} collapses and {parkings} parkings"
        ),
        &[
            ("mode", mode.into()),
            ("cpus", cpus as u64),
            ("splits", splits),
            ("collapses", collapses),
            ("parkings", parkings),
        ],
    )
}

struct Test<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
    /// A page within the first leaf of the scratch range, and within its runs.
    page: Va,
}

impl Test<'_> {
    fn changes(&self) -> Changes {
        self.system.space.on(&self.system.platform()).changes()
    }

    /// Reads the promise of each CPU, and decides again.
    fn judge_mode(&self) {
        let System { args, decision, space, .. } = self.system;
        let claims = AtomicU64::new(0);
        smp::on_all(&|cpu| {
            if admit::claims(args.bbml2, cpu, Cpu::features().bbm_promise()) {
                claims.fetch_or(1 << cpu, Relaxed);
            }
        });
        let claims = claims.into_inner();
        let claimed = |cpu: usize| claims >> cpu & 1 != 0;
        let others = cpu::running().skip(1).all(claimed);
        let again = Decision::when_all_reported(claimed(0), others, args.rodata, args.split);
        let is_same = (again.mode, again.policy) == (decision.mode, decision.policy);
        self.tally.expect(is_same, format_args!("what the CPUs say makes {again:?}"));
        self.tally.expect(space.policy() == decision.policy, "the map has another policy");
        let relied_on = HARDWARE.promise().never_aborts;
        self.tally.expect(relied_on == (claimed(0) && others), "what is relied on is not what CPUs promise");
    }

    /// The leaves are those that the policy plans.
    fn judge_leaves(&self) {
        let counted = self
            .system
            .space
            .on(&self.system.platform())
            .read(|reader| reader.count(linear_range(self.system.geometry)));
        self.tally
            .expect(counted == self.system.stats(), "the map does not have the counts that it should have");
        let crash = crash::reserved(self.system).map(|reserved| reserved.range().clone());
        if crash == self.system.memory.crash {
            let planned = planned(self.system, crash);
            self.tally.expect(planned == Some(counted), "the map is not made of what the policy plans");
        }
    }

    /// One CPU makes a page read-only and restores it.
    fn judge_change(&self, cpu: usize) {
        let (space, platform) = (self.system.space, self.system.platform());
        let (leaf, stats, before) =
            (Leaf::at(self.system, self.page), space.on(&platform).stats(), self.changes());
        let is_large = leaf.is_some_and(|leaf| leaf.pages(self.system) > 1);
        let refused = is_large && space.policy() == Policy::Fixed;
        self.probe(false);
        // SAFETY: memory without an owner.
        let change = |change| parking::again(|| unsafe { space.on(&platform).protect(self.page, 1, change) });
        smp::on(cpu, &|_| {
            let result = change(Change::READ_ONLY);
            let right = match result {
                Ok(()) => !refused,
                Err(ChangeError::NeedsResize { policy: Policy::Fixed, .. }) => refused,
                Err(_) => false,
            };
            self.tally.expect(right, format_args!("read-only: {result:?}"));
        });
        self.probe(!refused);
        let changed = self.changes();
        self.judge_sizes(is_large, &before, &changed);
        smp::on(cpu, &|_| {
            if !refused {
                self.tally.done(change(Change::WRITABLE), "writable");
            }
            self.tally.done(parking::again(|| space.on(&platform).collapse(self.page, 1)), "collapse");
        });
        self.probe(false);
        self.tally.expect(Leaf::at(self.system, self.page) == leaf, "another leaf than before");
        self.tally.expect(space.on(&platform).stats() == stats, "other leaves than before");
        // A leaf that was split through several levels comes back level by level.
        let (splits, collapses) =
            (changed.splits - before.splits, self.changes().collapses - changed.collapses);
        self.tally.expect(
            (splits == 0) == (collapses == 0),
            format_args!("{splits} splits, but {collapses} collapses"),
        );
    }

    /// The change took what the policy says.
    fn judge_sizes(&self, is_large: bool, before: &Changes, after: &Changes) {
        let (splits, parkings) = (after.splits - before.splits, after.parkings - before.parkings);
        let right = match self.system.space.policy() {
            // A run is dissolved without a table.
            Policy::Live => parkings == 0 && (is_large || splits == 0),
            Policy::Park => (parkings != 0) == is_large && (is_large || splits == 0),
            Policy::Pages => !is_large && splits == 0 && parkings == 0,
            Policy::Fixed => splits == 0 && parkings == 0,
        };
        self.tally.expect(right, format_args!("{splits} splits and {parkings} parkings"));
    }

    /// All CPUs try the page and its neighbours, if these have no owner.
    fn probe(&self, read_only: bool) {
        let System { geometry, memory, .. } = self.system;
        let (bytes, range) = (geometry.page_size(), &memory.scratch.range);
        let is_nobodys = |va: &Va| range.contains(&Pa(va.0.wrapping_sub(memory.layout.offset())));
        smp::on_all(&|cpu| {
            let beside = [self.page.0 - bytes, self.page.0 + bytes].map(Va).into_iter().filter(is_nobodys);
            for va in core::iter::once(self.page).chain(beside) {
                let read_only = read_only && va == self.page;
                let own = Va(va.0 + 8 * cpu as u64);
                // SAFETY: memory without an owner.
                let write = unsafe { try_write(own, own.0) };
                let right =
                    if read_only { matches!(write, Err(Fault::Permission(_))) } else { write.is_ok() };
                let read = try_read(own);
                self.tally
                    .expect(right && read == Ok(own.0), format_args!("{va}: write {write:?}, read {read:?}"));
            }
        });
    }
}
