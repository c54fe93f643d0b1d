//! Tables that are written with the MMU off. Such stores go to memory past the caches (D8.2.12.1 RWFZPW), while
//! walks and the stores of other CPUs are cacheable: the accesses have mismatched attributes (D8.2.5 RXGXKR, B2.11).
//!
//! Before such a store the line must have been cleaned or invalidated, or what a cache holds may be written back over it.
//! After it the line must be invalidated, or walkers may read what a cache holds (B2.11). A DSB separates the stores from
//! the maintenance, which is complete with another (D7.5.9.15). Each waits for loads and stores.
//!
//! Who wrote to a page before it was taken is not known: it may have been a cacheable store.

use std::collections::{BTreeMap, BTreeSet};

use super::frames::sequence;
use super::{Finding, Machine};
use crate::pages::State;
use crate::{CacheOp, CpuId, Rule};

/// log2 of the bytes of a cache line.
const LINE: u32 = 6;

/// Lines of tables, by their addresses.
#[derive(Default)]
pub(super) struct Uncached {
    /// Those that no cache holds modified, since their maintenance.
    clean: BTreeSet<u64>,
    /// Those with stores past the caches, which caches may hide.
    hidden: BTreeMap<u64, Hidden>,
    /// Maintenance without a DSB yet.
    begun: Vec<(CpuId, u64)>,
}

/// A line with a store past the caches.
struct Hidden {
    by: CpuId,
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
    pub(super) fn maintain(&mut self, cpu: CpuId, op: CacheOp, pa: u64) {
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
    pub(super) fn dsb(&mut self, cpu: CpuId) {
        let (done, begun) = self.begun.drain(..).partition(|b| b.0 == cpu);
        self.begun = begun;
        self.clean.extend(Vec::into_iter(done).map(|(_, line)| line));
        self.hidden.retain(|_, hidden| hidden.step != Step::Invalidating(cpu));
        for hidden in self.hidden.values_mut().filter(|h| h.by == cpu && h.step == Step::Stored) {
            hidden.step = Step::Ordered;
        }
    }

    /// A page is taken: what was in it does not count.
    pub(super) fn forget(&mut self, table: u64, bytes: u64) {
        let page = table..=table + (bytes - 1);
        self.clean.retain(|line| !page.contains(line));
        self.hidden.retain(|line, _| !page.contains(line));
        self.begun.retain(|(_, line)| !page.contains(line));
    }

    fn is_unused(&self) -> bool {
        self.clean.is_empty() && self.hidden.is_empty() && self.begun.is_empty()
    }
}

impl Machine {
    /// Judges stores into a table by their way to memory, past the caches or not.
    pub(super) fn store_through_caches(
        &mut self,
        cpu: CpuId,
        (table, index): (u64, usize),
        count: usize,
    ) -> Result<(), Finding> {
        let past = !self.cpu(cpu).registers.is_on();
        if !past && self.uncached.is_unused() {
            return Ok(());
        }
        let address = |slot: usize| table + 8 * slot as u64;
        let lines = address(index) >> LINE..=address(index + count - 1) >> LINE;
        for line in lines.map(|line| line << LINE) {
            if past {
                self.store_past_caches(cpu, table, line)?;
            } else {
                self.store_into_cache(cpu, table, line)?;
            }
        }
        Ok(())
    }

    fn store_past_caches(&mut self, cpu: CpuId, table: u64, line: u64) -> Result<(), Finding> {
        if !self.uncached.clean.contains(&line) {
            let fact = format!("cpu {cpu} stores to the table at {table:#x} with its MMU off");
            let may = format!(
                "a cache may hold the line at {line:#x} modified, and write it back over that: no DC IVAC, CIVAC or \
                 CVAC with a DSB came before"
            );
            return Err(Finding::new(Rule::Uncached, fact).on(cpu).and(may));
        }
        let hidden = Hidden { by: cpu, since: self.now, step: Step::Stored };
        self.uncached.hidden.insert(line, hidden);
        Ok(())
    }

    fn store_into_cache(&mut self, cpu: CpuId, table: u64, line: u64) -> Result<(), Finding> {
        if let Some(hidden) = self.uncached.hidden.get(&line) {
            let fact = format!("cpu {cpu} stores to the table at {table:#x} through its cache");
            let may = format!("the cache may hold the line as it was before {}", hidden.describe(line));
            return Err(Finding::new(Rule::Uncached, fact).on(cpu).and(may));
        }
        self.uncached.clean.remove(&line);
        self.uncached.begun.retain(|b| b.1 != line);
        Ok(())
    }

    /// Refuses a store with the MMU off over an entry that walkers may hold: that a walker may fetch the old entry from a
    /// cache after the TLBI is not modelled.
    pub(super) fn replaces_nothing(&self, cpu: CpuId, (root, old): (u64, u64)) -> Result<(), Finding> {
        if self.cpu(cpu).registers.is_on() || old & 1 == 0 || self.holders(root) == 0 {
            return Ok(());
        }
        Err(sequence(
            cpu,
            "a valid entry of a live table is replaced with the MMU off, which is not modelled",
        ))
    }

    /// Judges that no cache hides what a table says.
    pub(super) fn not_hidden(&self, cpu: CpuId, table: u64) -> Result<(), Finding> {
        let page = table..=table + (self.geometry().page_size() - 1);
        match self.uncached.hidden.range(page).next() {
            None => Ok(()),
            Some((&line, hidden)) => {
                let fact = format!(
                    "a walker may read the table at {table:#x} from a cache that holds it as it was before {}",
                    hidden.describe(line)
                );
                Err(Finding::new(Rule::Uncached, fact).on(cpu))
            }
        }
    }

    /// Judges the same for all tables of a map, as one CPU wrote them or as all did.
    pub(super) fn nothing_hidden(&self, cpu: CpuId, root: u64, by: Option<CpuId>) -> Result<(), Finding> {
        let hidden = self.uncached.hidden.iter().filter(|(_, h)| by.is_none_or(|by| by == h.by));
        for (line, _) in hidden {
            let table = line & !(self.geometry().page_size() - 1);
            if let Some(State::Linked(place)) = self.pages.get(table).map(|p| p.state)
                && self.current(place.root) == self.current(root)
            {
                self.not_hidden(cpu, table)?;
            }
        }
        Ok(())
    }
}

impl Hidden {
    /// Describes the store and what it lacks.
    fn describe(&self, line: u64) -> String {
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
