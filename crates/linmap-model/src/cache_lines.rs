//! Cache lines of tables that were stored to past the caches, until their maintenance is complete (Arm ARM B2.11).

use std::collections::{BTreeMap, BTreeSet};

use crate::{CacheOp, CpuId};

/// log2 of the bytes of a cache line.
pub(crate) const LINE: u32 = 6;

/// Lines of tables, by their addresses.
#[derive(Default)]
pub(crate) struct Uncached {
    /// Those that no cache holds modified, since their maintenance.
    pub(crate) clean: BTreeSet<u64>,
    /// Those with stores past the caches, which caches may hide.
    pub(crate) hidden: BTreeMap<u64, Hidden>,
    /// Maintenance without a DSB yet.
    pub(crate) begun: Vec<(CpuId, u64)>,
}

/// A line with a store past the caches.
pub(crate) struct Hidden {
    pub(crate) by: CpuId,
    since: usize,
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The CPU has executed no DSB since.
    Stored,
    Ordered,
    /// Invalidated by this CPU, without a DSB yet.
    Invalidating(CpuId),
}

impl Uncached {
    /// A line is maintained to the point of coherency.
    pub(crate) fn maintain(&mut self, cpu: CpuId, op: CacheOp, pa: u64) {
        let line = pa >> LINE << LINE;
        match op {
            CacheOp::DcCvau | CacheOp::IcIvau => return,
            CacheOp::DcCvac => {}
            CacheOp::DcIvac | CacheOp::DcCivac => {
                if let Some(hidden) = self.hidden.get_mut(&line).filter(|h| h.step == Step::Ordered) {
                    hidden.step = Step::Invalidating(cpu);
                }
            }
        }
        self.begun.push((cpu, line));
    }

    /// A DSB for loads and stores, that other CPUs and their walkers observe.
    pub(crate) fn dsb(&mut self, cpu: CpuId) {
        let (done, begun) = self.begun.drain(..).partition(|b| b.0 == cpu);
        self.begun = begun;
        self.clean.extend(Vec::into_iter(done).map(|(_, line)| line));
        self.hidden.retain(|_, hidden| hidden.step != Step::Invalidating(cpu));
        for hidden in self.hidden.values_mut().filter(|h| h.by == cpu && h.step == Step::Stored) {
            hidden.step = Step::Ordered;
        }
    }

    /// A page is taken: what was in it does not count.
    pub(crate) fn forget(&mut self, table: u64, bytes: u64) {
        let page = table..=table + (bytes - 1);
        self.clean.retain(|line| !page.contains(line));
        self.hidden.retain(|line, _| !page.contains(line));
        self.begun.retain(|(_, line)| !page.contains(line));
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.clean.is_empty() && self.hidden.is_empty() && self.begun.is_empty()
    }
}

impl Hidden {
    pub(crate) const fn new(by: CpuId, since: usize) -> Self {
        Self { by, since, step: Step::Stored }
    }

    /// Describes the store and what it lacks.
    pub(crate) fn describe(&self, line: u64) -> String {
        let lacks = match self.step {
            Step::Stored => "a DSB of that CPU, then DC IVAC or CIVAC and a DSB",
            Step::Ordered => "DC IVAC or CIVAC after the DSB, and a DSB",
            Step::Invalidating(_) => "a DSB after DC IVAC or CIVAC",
        };
        format!(
            "cpu {} stored with its MMU off (event {}): the line at {line:#x} lacks {lacks}",
            self.by, self.since
        )
    }
}
