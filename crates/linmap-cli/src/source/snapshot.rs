//! A copy of tables, each read once, in little memory: entries that grow in equal steps are one run.
//!
//! Tables of pages are mostly such runs, so that 128 MiB of tables become a few. All tables of a level are read
//! together, level by level, and none twice, whatever points to it: the time is bounded by the memory, not by the
//! contents of tables. Nothing here judges; a table that cannot be read is recorded for the report.
//!
//! The tables of a machine that runs can be read again: those that differ are replaced, and no longer reached ones go.

mod pass;
mod runs;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use linmap::arch::{Descriptor, Entry, Level};
use linmap::read::ReadTables;
use linmap::{Geometry, Half, Pa, Slot, Va};

use super::memory::{Physical, Unreadable};
use super::{Request, Step, Wanted};
use runs::{Run, Runs};

/// The most tables: those of 8 TiB in 4K pages.
const MAX_TABLES: usize = 1 << 22;
/// The most memory for runs and words, in words of 8 bytes.
const MAX_WORDS: usize = 1 << 25;
/// The number of tables that are read at once.
const BATCH: usize = 256;

/// A table that is not in the snapshot, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the level {} table at {table}{} cannot be read: {why}", level.number(), translates(*va))]
pub(crate) struct Unread {
    /// Its address.
    pub(crate) table: Pa,
    /// Its level.
    pub(crate) level: Level,
    /// The first address that it translates; 0 if that was not recorded.
    pub(crate) va: Va,
    /// The reason.
    pub(crate) why: Unreadable,
}

fn translates(va: Va) -> String {
    if va == Va(0) { String::new() } else { format!(", which translates from {va} on,") }
}

/// There are more tables than a machine can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the tables at {root} do not end: {tables} were read and there are more; this is no kernel's map")]
pub(crate) struct TooMany {
    /// The root table.
    pub(crate) root: Pa,
    /// The number of tables that were read.
    pub(crate) tables: usize,
}

/// The place of a table's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stored {
    /// `count` runs from `first` on, which have `entries` entries together.
    Runs { first: u32, count: u16, entries: u16 },
    /// `count` words from `first` on, one for each entry.
    Words { first: u32, count: u16 },
}

/// Tables as they were when the source was read.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    tables: HashMap<Pa, Stored>,
    runs: Vec<Run>,
    words: Vec<u64>,
    unread: HashMap<(Pa, Level), Unread>,
    /// Why reading ended before everything wanted was read.
    ended: Option<Unreadable>,
    /// By level, the entries that were asked for last.
    last: [Cell<Last>; Level::COUNT],
}

/// The findings of one pass over the tables.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The tables that are new, or differ from what was known.
    pub(super) differing: HashSet<Pa>,
    /// The tables above the last level, each with its level.
    pub(super) upper: Vec<(Pa, Level)>,
}

/// The entries that were asked for last, as a walk asks for the next ones soon.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    table: Pa,
    /// The first index and the one after the last; equal if there are none.
    first: usize,
    end: usize,
    /// The entry at the first index, and the step to the next one.
    value: u64,
    step: u64,
}

/// A table to be read: its address, and the wanted slots, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pending {
    table: Pa,
    va: Va,
    first: usize,
    last: usize,
}

impl Snapshot {
    /// Reads the wanted tables below `root`.
    pub(super) fn read(
        from: &dyn Physical,
        geometry: Geometry,
        root: Pa,
        request: Request<'_>,
    ) -> Result<Self, TooMany> {
        let mut snapshot = Self::default();
        snapshot.read_again(from, (geometry, root), request, &|_, _| false)?;
        Ok(snapshot)
    }

    /// Reads the wanted tables that are not known, and those that `again` names. Tables that are not reached any more
    /// are forgotten, unless reading ended early.
    pub(super) fn read_again(
        &mut self,
        from: &dyn Physical,
        (geometry, root): (Geometry, Pa),
        request: Request<'_>,
        again: &dyn Fn(Level, Pa) -> bool,
    ) -> Result<Pass, TooMany> {
        (self.ended, self.last) = (None, Default::default());
        let (mut pass, mut reached) = (Pass::default(), HashSet::new());
        let Some(range) = request.wanted.range(geometry) else { return Ok(pass) };
        let base = Va(geometry.base(Half::Upper));
        let mut level = geometry.root();
        let mut pending = vec![clipped(geometry, level, root, base, range)];
        loop {
            let unknown = |table: Pa, known: bool| !known || again(level, table);
            self.read_level(
                from,
                geometry,
                (level, &pending),
                &unknown,
                &mut pass.differing,
                request.progress,
            )?;
            reached.extend(pending.iter().map(|table| table.table));
            if !self.unread.is_empty() {
                let here: HashSet<Pa> = pending.iter().map(|table| table.table).collect();
                self.unread.retain(|(table, at), _| *at != level || here.contains(table));
            }
            if self.ended.is_some() {
                return Ok(pass);
            }
            if level == Level::PAGE {
                self.tables.retain(|table, _| reached.contains(table));
                return Ok(pass);
            }
            pass.upper.extend(pending.iter().map(|table| (table.table, level)));
            pending = self.children(geometry, level, &pending, range);
            if pending.len() > MAX_TABLES {
                return Err(TooMany { root, tables: self.tables() });
            }
            level = level.next();
        }
    }

    /// Returns how many entries from the one that was asked for last on grow in equal steps, itself included, and the
    /// step; 1 if another table was asked for since then.
    #[inline]
    pub(crate) fn run(&self, slot: Slot, level: Level) -> (u64, u64) {
        let last = self.last[level.ordinal()].get();
        if last.table == slot.table && last.first <= slot.index && slot.index < last.end {
            return ((last.end - slot.index) as u64, last.step);
        }
        (1, 0)
    }

    /// Returns how many tables were read.
    pub(crate) fn tables(&self) -> usize {
        self.tables.len()
    }

    /// Returns the addresses of the tables that were read, in any order.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Pa> {
        self.tables.keys().copied()
    }

    /// Returns the reason that reading ended early, if it did. The missing tables are then not all listed as unread.
    pub(crate) const fn ended(&self) -> Option<&Unreadable> {
        self.ended.as_ref()
    }

    /// Returns the tables that could not be read, lowest address first.
    pub(crate) fn unread(&self) -> Vec<&Unread> {
        let mut unread: Vec<_> = self.unread.values().collect();
        unread.sort_by_key(|table| (table.va, table.level));
        unread
    }

    /// Reads the tables of one level that `is_wanted` names, by their address and whether they are known. Adds those
    /// that are new or differ to `differing`.
    fn read_level(
        &mut self,
        from: &dyn Physical,
        geometry: Geometry,
        (level, pending): (Level, &[Pending]),
        is_wanted: &dyn Fn(Pa, bool) -> bool,
        differing: &mut HashSet<Pa>,
        progress: &dyn Fn(Step),
    ) -> Result<(), TooMany> {
        let is_wanted = |table: &&Pending| is_wanted(table.table, self.tables.contains_key(&table.table));
        let mut new: Vec<&Pending> = pending.iter().filter(is_wanted).collect();
        // In order of address, so that a file is read forwards.
        new.sort_by_key(|table| (table.table, table.va));
        new.dedup_by_key(|table| table.table);
        let bytes = geometry.entries(level) * 8;
        let mut words = Vec::new();
        for batch in new.chunks(BATCH) {
            let at: Vec<Pa> = batch.iter().map(|table| table.table).collect();
            from.read_each(&at, bytes, &mut |index, read| {
                let (table, va) = (at[index], batch[index].va);
                match read {
                    Ok(bytes) => {
                        words.clear();
                        words.extend(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
                        self.unread.remove(&(table, level));
                        if self.holds(table, &words) {
                            return;
                        }
                        self.store(table, &words);
                    }
                    Err(why) => {
                        self.tables.remove(&table);
                        self.unread.insert((table, level), Unread { table, level, va, why });
                    }
                }
                differing.insert(table);
            });
            let kept = self.words.len() + 2 * self.runs.len() + 32 * self.unread.len();
            if self.tables.len() > MAX_TABLES || kept > MAX_WORDS {
                return Err(TooMany { root: at[0], tables: self.tables.len() });
            }
            progress(Step { what: "reading tables", done: self.tables.len() as u64, total: None });
            self.ended = from.ended();
            if self.ended.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the tables that these ones point to, each once.
    fn children(
        &self,
        geometry: Geometry,
        level: Level,
        tables: &[Pending],
        range: (Va, Va),
    ) -> Vec<Pending> {
        let (mut children, mut known) = (Vec::new(), HashSet::new());
        for parent in tables {
            let Some(stored) = self.tables.get(&parent.table) else { continue };
            for index in parent.first..=parent.last {
                let Some(descriptor) = self.word(*stored, index) else { break };
                if let Entry::Table(table) = descriptor.decode(geometry, level) {
                    let va = Va(parent.va.0.wrapping_add((index as u64) << geometry.level_shift(level)));
                    let child = clipped(geometry, level.next(), table, va, range);
                    if known.insert((table, child.first, child.last)) {
                        children.push(child);
                    }
                    if children.len() > MAX_TABLES {
                        return children;
                    }
                }
            }
        }
        children
    }

    /// Stores a table.
    fn store(&mut self, table: Pa, words: &[u64]) {
        let first = self.runs.len();
        self.runs.extend(Runs { words, at: 0 });
        let count = self.runs.len() - first;
        // A run takes two words. Both pools end long before an index needs more than 32 bits.
        let stored = if 2 * count < words.len() {
            Stored::Runs { first: first as u32, count: count as u16, entries: words.len() as u16 }
        } else {
            self.runs.truncate(first);
            self.words.extend(words);
            Stored::Words { first: (self.words.len() - words.len()) as u32, count: words.len() as u16 }
        };
        self.tables.insert(table, stored);
    }

    /// Returns the run of entries around an index of a stored table, or `None` beyond its end.
    fn around(&self, table: Pa, stored: Stored, index: usize) -> Option<Last> {
        match stored {
            Stored::Words { first, count } => {
                let word = (index < usize::from(count)).then(|| self.words.get(first as usize + index));
                let value = *word.flatten()?;
                Some(Last { table, first: index, end: index + 1, value, step: 0 })
            }
            Stored::Runs { first, count, entries } => {
                let runs = self.runs.get(first as usize..first as usize + usize::from(count))?;
                let after = runs.partition_point(|run| usize::from(run.start) <= index);
                let run = runs.get(after.checked_sub(1)?).filter(|_| index < usize::from(entries))?;
                let end = runs.get(after).map_or(entries, |next| next.start);
                let step = if run.shift == 0 { 0 } else { 1 << run.shift };
                let (first, end) = (run.start.into(), end.into());
                Some(Last { table, first, end, value: run.value, step })
            }
        }
    }

    /// Returns one entry of a stored table, or `None` beyond its end.
    fn word(&self, stored: Stored, index: usize) -> Option<Descriptor> {
        self.around(Pa(0), stored, index).map(|around| around.at(index))
    }

    #[inline(never)]
    fn look_up(&self, slot: Slot, level: Level) -> Result<Descriptor, Unread> {
        let stored = self.tables.get(&slot.table);
        let around = stored.and_then(|stored| self.around(slot.table, *stored, slot.index));
        let around = around.ok_or_else(|| self.missing(slot, level))?;
        self.last[level.ordinal()].set(around);
        Ok(around.at(slot.index))
    }

    #[cold]
    fn missing(&self, slot: Slot, level: Level) -> Unread {
        let unread = self.unread.get(&(slot.table, level)).cloned();
        let why = self.ended.clone().unwrap_or(Unreadable::NotWanted);
        unread.unwrap_or(Unread { table: slot.table, level, va: Va(0), why })
    }
}

impl ReadTables for Snapshot {
    type Error = Unread;

    #[inline]
    fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Unread> {
        let last = self.last[level.ordinal()].get();
        if last.table == slot.table && last.first <= slot.index && slot.index < last.end {
            return Ok(last.at(slot.index));
        }
        self.look_up(slot, level)
    }
}

impl Last {
    /// Returns the entry at one of these indices.
    #[inline]
    const fn at(&self, index: usize) -> Descriptor {
        Descriptor(self.value.wrapping_add(self.step.wrapping_mul((index - self.first) as u64)))
    }
}

impl Wanted {
    /// Returns the first and last address, or `None` if they are not in the upper half.
    fn range(self, geometry: Geometry) -> Option<(Va, Va)> {
        let base = Va(geometry.base(Half::Upper));
        let (first, last) = match self {
            Self::All => (base, Va(u64::MAX)),
            Self::Range(first, last) => (first.max(base), last),
        };
        (first <= last).then_some((first, last))
    }
}

/// Returns the slots of a table that translate addresses of a range.
fn clipped(geometry: Geometry, level: Level, table: Pa, va: Va, (first, last): (Va, Va)) -> Pending {
    let slot = |to: Va| (to.0.saturating_sub(va.0) >> geometry.level_shift(level)) as usize;
    let end = geometry.entries(level) - 1;
    Pending { table, va, first: slot(first).min(end), last: slot(last).min(end) }
}

#[cfg(test)]
mod tests;
