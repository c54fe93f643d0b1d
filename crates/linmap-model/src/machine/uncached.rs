//! Tables that are written with the MMU off. Such stores go to memory past the caches (D8.2.12.1 RWFZPW), while
//! walks and the stores of other CPUs are cacheable: the accesses have mismatched attributes (D8.2.5 RXGXKR, B2.11).
//!
//! Before such a store the line must have been cleaned or invalidated, or what a cache holds may be written back over it.
//! After it the line must be invalidated, or walkers may read what a cache holds (B2.11). A DSB separates the stores from
//! the maintenance, which is complete with another (D7.5.9.15). Each waits for loads and stores.
//!
//! Who wrote to a page before it was taken is not known: it may have been a cacheable store.

use super::frames::sequence;
use super::{Finding, Machine};
use crate::cache_lines::{Hidden, LINE};
use crate::pages::State;
use crate::{CpuId, Rule};

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
        let hidden = Hidden::new(cpu, self.now);
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
