//! Tables that no walker reaches any more: they are subtracted from the counts and retired, with nothing held.
//!
//! Nobody changes them. Readers without a lock may still be in them, so they are read by loads and not written.

use core::mem::take;
use core::ops::Range;

use crate::format::{Level, Pa};
use crate::live::attempt::Call;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::tally::Tally;
use crate::plan::Stats;
use crate::platform::{Frame, Platform, with_locks};
use crate::read::Table;

/// Retires tables, and all tables below these entries of them. Other entries belong to another tree, or are holes. The counts are subtracted
/// with `lock` held. If `collapses`, the tables are counted as [collapsed](crate::Changes::collapses).
pub(crate) fn retire<P: Platform>(
    call: &Call<'_, P>,
    (lock, collapses): (LockSet, bool),
    tables: impl Iterator<Item = (Pa, Level, Range<usize>)>,
) {
    let mut old = OldTree { locked: call.locked(lock), collapses, gone: Stats::EMPTY, read: 0 };
    tables.for_each(|(table, level, entries)| old.table((table, level), entries));
    old.subtract();
}

/// Tables that are being retired.
struct OldTree<'a, P: Platform> {
    /// No lock is held; the tables do not change.
    locked: Locked<'a, P>,
    /// True if they count as collapsed.
    collapses: bool,
    /// The counts of what was retired and is not yet subtracted from the map's.
    gone: Stats,
    /// The number of entries that were read since.
    read: usize,
}

impl<P: Platform> OldTree<'_, P> {
    /// Retires a table, after the tables below these entries.
    fn table(&mut self, (pa, level): (Pa, Level), entries: Range<usize>) {
        let table = &self.locked.table(pa, level, self.locked.geometry.level_shift(level), 0);
        self.read += entries.len();
        if table.level == Level::PAGE {
            self.count_pages(table, entries);
        } else {
            self.below(table, entries);
        }
        self.gone.tables += 1;
        // SAFETY: no walker and no TLB has an entry that leads to the table, which owned those below it. Nothing reads it after this but
        // readers without a lock, for whom the platform waits.
        let frame = unsafe { Frame::from_pa(table.pa) };
        self.locked.platform.retire(self.locked.platform, frame);
        if self.read >= P::HOLD {
            self.subtract();
        }
    }

    /// Retires everything below entries of a table.
    fn below(&mut self, table: &Table, entries: Range<usize>) {
        for index in entries {
            let entry = self.locked.load(table, index);
            if entry.is_table(table.level) {
                let level = table.level.down(1);
                let below = entry.next_table(self.locked.geometry);
                self.table((below, level), 0..self.locked.geometry.entries(level));
            } else if entry.is_leaf(self.locked.geometry, table.level) {
                self.gone.add_leaves(table.level, entry.is_contiguous(), 1);
            }
        }
    }

    fn count_pages(&mut self, table: &Table, entries: Range<usize>) {
        let mut tally = Tally::default();
        for index in entries.step_by(8) {
            tally.add(&self.locked.slots(table).load_eight(index).map(|entry| entry.0), self.locked.geometry);
        }
        self.gone.add_leaves(Level::PAGE, false, tally.plain as u64);
        self.gone.add_leaves(Level::PAGE, true, tally.runs as u64);
    }

    /// Subtracts what was retired from the counts of the map, so that they are soon right.
    fn subtract(&mut self) {
        self.read = 0;
        let gone = take(&mut self.gone);
        with_locks(self.locked.platform, self.locked.locks.bits(), || {
            let counters = self.locked.counters();
            counters.exclude(&gone);
            if self.collapses {
                counters.collapsed(gone.tables);
            }
        });
    }
}
