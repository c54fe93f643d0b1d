//! Readers without a lock: a table that one of them may have come to is given back after it has read.

use super::frames::sequence;
use super::{Finding, Machine};
use crate::pages::State;
use crate::{CpuId, Event, Rule};

impl Machine {
    /// Lets a CPU end the section of reading that it began last.
    pub(super) fn read_ends(&mut self, cpu: CpuId) -> Result<(), Finding> {
        let this = self.cpu_mut(cpu);
        if this.reads_since.pop().is_none() {
            return Err(sequence(cpu, format!("cpu {cpu} ends what it never began to read")));
        }
        if this.reads_since.is_empty() {
            this.came_to.clear();
        }
        Ok(())
    }

    /// Notes the table that a CPU reads. That is no event, but it shows where a reader is.
    pub(super) fn note_read(&mut self, cpu: CpuId, table: u64) {
        let this = self.cpu_mut(cpu);
        if !this.reads_since.is_empty() && !this.came_to.contains(&table) {
            this.came_to.push(table);
        }
    }

    /// Judges that no reader can be in a table page that is no table any more.
    pub(super) fn not_under_reader(&self, table: u64, what: &str) -> Result<(), Finding> {
        if self.cpus.iter().all(|c| c.reads_since.is_empty()) {
            return Ok(());
        }
        let until = self.live_until(table);
        let can_be_in = |c: &super::Cpu| {
            let since = *c.reads_since.first()?;
            (until.is_some_and(|until| since <= until) || c.came_to.contains(&table)).then_some(since)
        };
        let mut readers = self.cpus.iter().enumerate().filter_map(|(n, c)| Some((n as CpuId, can_be_in(c)?)));
        let Some((cpu, since)) = readers.next() else { return Ok(()) };
        let until = until.map_or_else(String::new, |until| format!(", in a tree until event {until},"));
        let fact = format!("the table at {table:#x}{until} {what}");
        let by = format!("cpu {cpu} reads since event {since}, and may have come to it");
        Err(Finding::new(Rule::UnderReader, fact).on(cpu).and(by))
    }

    /// Returns the event until which a reader could come to a table, if it ever could.
    fn live_until(&self, table: u64) -> Option<usize> {
        let page = self.pages.get(table)?;
        match page.state {
            State::Linked(place) if self.holders(place.root) == 0 => self.left_at.get(&place.root).copied(),
            State::Linked(_) => Some(self.now),
            State::Unlinked | State::Offline => page.live_until,
            State::Free => None,
        }
    }

    /// The roots in use before an event after which one may be left.
    pub(super) fn roots_before(&self, event: &Event) -> Vec<u64> {
        match event {
            Event::Msr { .. } | Event::Reset { .. } => self.roots().collect(),
            _ => Vec::new(),
        }
    }

    /// Notes which of these roots no CPU uses any more.
    pub(super) fn note_left(&mut self, before: &[u64]) {
        for &root in before {
            if !self.roots().any(|used| used == root) {
                self.left_at.insert(root, self.now);
            }
        }
    }

    fn roots(&self) -> impl Iterator<Item = u64> {
        self.cpus.iter().flat_map(|c| c.ttbr.iter().flatten()).map(|t| t.root)
    }
}
