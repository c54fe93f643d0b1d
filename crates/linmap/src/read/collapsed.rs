//! Counts the leaves and tables that a map would have after a collapse, without one.
//!
//! It goes through the tables once, and decides for each, when it has seen its last entry, what a collapse decides: one leaf
//! or a hole in its place, or runs in it.

use crate::format::{Attributes, Descriptor, Entry, Geometry, Level, Pa, TableLimits, Va};
use crate::plan::Stats;
use crate::read::count::translated;
use crate::read::cursor::{Source, Visitor, visit_span};
use crate::read::reader::{ReadTables, Reading};
use crate::read::table::{Entries, Table};

/// Counts the leaves and tables from `first` to `last`, both included, as they would be after
/// [`collapse`](crate::Live::collapse) of all that the tables map there. The tables stay as they are.
///
/// It is the most that a collapse reaches: claims and pending invalidations are not in the tables. A table with restrictions
/// is taken to stay. A leaf that [stays split](crate::Attributes::STAYS_SPLIT) stays as it is.
///
/// # Errors
///
/// The reader's error for the first slot that cannot be read.
pub fn count_collapsed<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
) -> Result<Stats, R::Error> {
    let mut seen = Collapsed { geometry, tables: [Seen::NOTHING; Level::COUNT] };
    if let Some((base, span)) = translated(geometry, range) {
        let source = Reading { reader, geometry };
        visit_span(&source, &Table::root(root, geometry, base), span, &mut seen)?;
    }
    let mut stats = seen.tables[geometry.root().ordinal()].stats;
    stats.tables += 1;
    Ok(stats)
}

/// A walk under way: the tables that it is in, by level.
struct Collapsed {
    geometry: Geometry,
    tables: [Seen; Level::COUNT],
}

/// Entries of a table, those seen up to now.
#[derive(Clone, Copy)]
struct Seen {
    /// The leaves and tables that remain, those of the tables below included, this one not.
    stats: Stats,
    /// The entry that would continue those from the first on, if all up to now are alike.
    next: Option<u64>,
    /// The same for those from the last possible start of a run on, and their number.
    run: Option<(u64, usize)>,
    entries: usize,
}

impl Seen {
    const NOTHING: Self = Self { stats: Stats::EMPTY, next: None, run: None, entries: 0 };
}

impl Collapsed {
    /// Adds the next entry of a table: a leaf, a hole, or a table that stays, which is `None`.
    fn add(&mut self, table: &Table, index: usize, entry: Option<Descriptor>) {
        let (g, level) = (self.geometry, table.level);
        let seen = &mut self.tables[level.ordinal()];
        let raw = entry.map(|entry| entry.without_contiguous());
        let leaf = entry.and_then(|entry| match entry.decode(g, level) {
            Entry::Leaf(leaf) => Some(leaf),
            _ => None,
        });
        if let Some(leaf) = leaf {
            seen.stats.add_leaves(level, leaf.contiguous, 1);
        }
        let valid = leaf.filter(|leaf| leaf.valid && !leaf.attributes.contains(Attributes::STAYS_SPLIT));
        let step = if valid.is_some() { 1 << table.shift } else { 0 };
        let follows = |raw: Descriptor| raw.0.wrapping_add(step);
        let is_aligned = |bytes: u64| valid.is_some_and(|leaf| leaf.oa.0 & (bytes - 1) == 0);
        let begins = || {
            let above = level != g.root() && g.makes_leaf(Level::new(level.number() - 1));
            raw == Some(Descriptor::HOLE) || above && is_aligned((g.entries(level) as u64) << table.shift)
        };
        let goes_on =
            if index == 0 { begins() } else { seen.next.is_some() && seen.next == raw.map(|raw| raw.0) };
        seen.next = raw.filter(|_| goes_on).map(follows);
        let members = g.run_to_make(level);
        let plain = valid.filter(|leaf| !leaf.contiguous);
        seen.run = match (seen.run, raw) {
            _ if plain.is_none() || members == 1 => None,
            (_, Some(raw)) if index.is_multiple_of(members) => {
                is_aligned((members as u64) << table.shift).then(|| (follows(raw), 1))
            }
            (Some((next, n)), Some(raw)) if next == raw.0 => Some((follows(raw), n + 1)),
            _ => None,
        };
        if seen.run.is_some_and(|(_, n)| n == members) {
            let [single, in_runs] = &mut seen.stats.descriptors[level.leaf_ordinal()];
            (*single, *in_runs) = (*single - members as u64, *in_runs + members as u64);
        }
        seen.entries += 1;
    }

    /// Returns what can take the place of a table that has been seen, if something can.
    fn leaf(&self, table: &Table, link: Descriptor) -> Option<Descriptor> {
        let (g, seen) = (self.geometry, &self.tables[table.level.ordinal()]);
        let last = seen.next.filter(|_| seen.entries == g.entries(table.level))?;
        if !TableLimits::of(link).is_empty() {
            return None;
        }
        if last == 0 {
            return Some(Descriptor::HOLE);
        }
        let first = last.wrapping_sub((g.entries(table.level) as u64) << table.shift);
        Some(Descriptor(first).parent(table.level))
    }
}

impl<R: ReadTables> Visitor<Reading<'_, R>> for Collapsed {
    type Stop = R::Error;
    type Scratch = ();

    fn begin(&mut self, table: &Table) {
        self.tables[table.level.ordinal()] = Seen::NOTHING;
    }

    fn leaves(&mut self, _: &Reading<'_, R>, (): &mut (), at: Entries<'_>) -> Result<usize, R::Error> {
        self.add(at.table, at.index, Some(at.entry));
        Ok(at.index + 1)
    }

    fn enter(&mut self, _: &Reading<'_, R>, (): &mut (), _: Entries<'_>) -> Result<bool, R::Error> {
        Ok(true)
    }

    fn leave(
        &mut self,
        source: &Reading<'_, R>,
        table: &Table,
        index: usize,
        below: &Table,
    ) -> Result<(), R::Error> {
        let leaf = self.leaf(below, source.load(table, index)?);
        if leaf.is_none() {
            let mut stats = self.tables[below.level.ordinal()].stats;
            stats.tables += 1;
            self.tables[table.level.ordinal()].stats.include(&stats);
        }
        self.add(table, index, leaf);
        Ok(())
    }
}
