//! Pages of data that belong to someone else for a while: freed to another owner, or donated to a device or a guest.
//! From then on no CPU may use a translation that leads to them, by tables or because its TLB still holds it. A guest may
//! not either, by stage 2.

use super::frames::sequence;
use super::reach::{Held, Stages};
use super::{Finding, Machine};
use crate::{CpuId, Rule};

impl Machine {
    pub(super) fn give(&mut self, cpu: CpuId, pa: u64, bytes: u64) -> Result<(), Finding> {
        let (first, last) = self.whole_pages(cpu, pa, bytes)?;
        if let Some(((given, _), since)) = self.physical.given.first_in(first, last) {
            return Err(sequence(
                cpu,
                format!("the page at {given:#x} was given away by event {since} already"),
            ));
        }
        if let Some(table) = self.pages.taken_in(first, last) {
            let fact = format!("the page at {table:#x} is given away, and is a table page in use");
            return Err(Finding::new(Rule::Given, fact).on(cpu));
        }
        self.leading_to(Stages::Both, (first, last), &mut |held| {
            let fact = format!("cpu {cpu} gives the page at {:#x} away", held.pages().0);
            Err(self.contradicts(Rule::Given, fact, held))
        })?;
        self.physical.given.add(first, last, self.now);
        Ok(())
    }

    pub(super) fn take(&mut self, cpu: CpuId, pa: u64, bytes: u64) -> Result<(), Finding> {
        let (first, last) = self.whole_pages(cpu, pa, bytes)?;
        if !self.physical.given.has_all(first, last) {
            return Err(sequence(
                cpu,
                format!("of the pages from {first:#x} to {last:#x} some were not given away"),
            ));
        }
        self.physical.given.remove(first, last);
        Ok(())
    }

    /// Judges a translation that walkers may use from now on.
    pub(super) fn is_not_given(&self, held: &Held<'_>) -> Result<(), Finding> {
        let (first, last) = held.pages();
        let Some(((given, _), since)) = self.physical.given.first_in(first, last) else { return Ok(()) };
        let part = (held.part.0 + (given - first), held.part.1);
        let fact = format!("the page at {given:#x} was given away by event {since}");
        Err(self.contradicts(Rule::Given, fact, &Held { part, ..*held }))
    }

    /// Returns the first and last address of some pages.
    fn whole_pages(&self, cpu: CpuId, pa: u64, bytes: u64) -> Result<(u64, u64), Finding> {
        let page = self.geometry().page_size() - 1;
        match pa.checked_add(bytes.wrapping_sub(1)) {
            Some(last) if bytes != 0 && (pa | bytes) & page == 0 => Ok((pa, last)),
            _ => Err(sequence(cpu, format!("{pa:#x}+{bytes:#x} is not a range of whole pages"))),
        }
    }
}
