//! A second look at tables that are known: which of them differ.

use linmap::arch::Level;
use linmap::{Geometry, Pa};

use super::runs::grows;
use super::{Pass, Snapshot, Stored};
use crate::source::memory::Physical;

impl Snapshot {
    /// Reads the upper tables of the last pass again, and those that differed in it. Returns false if an upper one is
    /// another now, or anything cannot be read: then `read_again` has to find what changed.
    ///
    /// It is short, as a guest is halted meanwhile.
    pub(in crate::source) fn confirm(
        &mut self,
        from: &dyn Physical,
        geometry: Geometry,
        pass: &Pass,
    ) -> bool {
        self.last = Default::default();
        let last = pass.differing.iter().map(|table| (*table, Level::PAGE));
        let last = last.filter(|(table, _)| !pass.upper.iter().any(|upper| upper.0 == *table));
        let all: Vec<(Pa, Level)> = pass.upper.iter().copied().chain(last).collect();
        let mut is_same = true;
        let mut words = Vec::new();
        for (table, level) in all {
            let mut bytes = vec![0; geometry.entries(level) * 8];
            is_same &= from.read(table, &mut bytes).is_ok();
            words.clear();
            words.extend(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
            if is_same && !self.holds(table, &words) {
                is_same = level == Level::PAGE;
                self.store(table, &words);
            }
            if !is_same {
                break;
            }
        }
        is_same && self.unread.is_empty()
    }

    /// Returns true if a table is known with these entries.
    pub(super) fn holds(&self, table: Pa, words: &[u64]) -> bool {
        match self.tables.get(&table) {
            None => false,
            Some(Stored::Words { first, count }) => {
                self.words.get(*first as usize..*first as usize + usize::from(*count)) == Some(words)
            }
            Some(Stored::Runs { first, count, entries }) => {
                let runs = self.runs.get(*first as usize..*first as usize + usize::from(*count));
                let runs = runs.unwrap_or_default();
                let ends = runs.iter().skip(1).map(|next| next.start).chain([*entries]);
                usize::from(*entries) == words.len()
                    && runs.iter().zip(ends).all(|(run, end)| {
                        let step = if run.shift == 0 { 0 } else { 1 << run.shift };
                        let part = words.get(usize::from(run.start)..usize::from(end));
                        part.is_some_and(|part| grows(part, run.value, step))
                    })
            }
        }
    }
}
