//! Tables that no walker reaches any more are retired: empty ones in the hold that took them out, after its last invalidation, and whole
//! trees with nothing held.
//!
//! Nobody changes them. Readers without a lock may still be in them, so they are read by loads and not written.

use core::mem::take;
use core::ops::Range;

use crate::batch::TlbBatch;
use crate::edit::call::Call;
use crate::edit::cover::Cover;
use crate::edit::editor::Editor;
use crate::edit::guard::Guard;
use crate::format::{Level, Pa};
use crate::plan::Stats;
use crate::platform::Frame;
use crate::read::{Table, Tally};

/// Retires tables, and all tables below these entries of them. Other entries belong to another tree, or are holes. The counts are subtracted
/// in holds with this cover. If `collapses`, the tables are counted as [collapsed](crate::Changes::collapses).
pub(crate) fn retire<G: Guard>(
    call: &Call<'_, G>,
    (cover, collapses): (Cover, bool),
    tables: impl Iterator<Item = (Pa, Level, Range<usize>)>,
) {
    let mut old = OldTree { editor: call.editor(cover), collapses, gone: Stats::EMPTY, read: 0 };
    tables.for_each(|(table, level, entries)| old.table((table, level), entries));
    old.subtract();
}

/// Tables that are being retired.
struct OldTree<'a, G: Guard> {
    /// There is no hold; the tables do not change.
    editor: Editor<'a, G>,
    /// True if they count as collapsed.
    collapses: bool,
    /// The counts of what was retired and is not yet subtracted from the map's.
    gone: Stats,
    /// The number of entries that were read since.
    read: usize,
}

impl<G: Guard> OldTree<'_, G> {
    /// Retires a table, after the tables below these entries.
    fn table(&mut self, (pa, level): (Pa, Level), entries: Range<usize>) {
        let table = &self.editor.table(pa, level, self.editor.geometry.level_shift(level), 0);
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
        G::retire(self.editor.platform, frame);
        if self.read >= G::HOLD {
            self.subtract();
        }
    }

    /// Retires everything below entries of a table.
    fn below(&mut self, table: &Table, entries: Range<usize>) {
        for index in entries {
            let entry = self.editor.load(table, index);
            if entry.is_table(table.level) {
                let level = table.level.down(1);
                let below = entry.next_table(self.editor.geometry);
                self.table((below, level), 0..self.editor.geometry.entries(level));
            } else if entry.is_leaf(self.editor.geometry, table.level) {
                self.gone.add_leaves(table.level, entry.is_contiguous(), 1);
            }
        }
    }

    fn count_pages(&mut self, table: &Table, entries: Range<usize>) {
        let mut tally = Tally::default();
        for index in entries.step_by(8) {
            tally.add(&self.editor.slots(table).load_eight(index).map(|entry| entry.0), self.editor.geometry);
        }
        self.gone.add_leaves(Level::PAGE, false, tally.plain as u64);
        self.gone.add_leaves(Level::PAGE, true, tally.runs as u64);
    }

    /// Subtracts what was retired from the counts of the map, so that they are soon right.
    fn subtract(&mut self) {
        self.read = 0;
        let gone = take(&mut self.gone);
        self.editor.guard.hold(self.editor.platform, || {
            self.editor.count(|counters| {
                counters.exclude(&gone);
                if self.collapses {
                    counters.collapsed(gone.tables);
                }
            });
        });
    }
}

/// Tables that are retired once TLBs and walk caches have dropped them.
pub(crate) struct DeferredTables {
    tables: [Pa; Self::ROOM],
    used: usize,
}

impl DeferredTables {
    /// The number of tables that wait for one batch of invalidations.
    const ROOM: usize = 8;

    /// Returns an empty list.
    pub(crate) const fn new() -> Self {
        Self { tables: [Pa(0); Self::ROOM], used: 0 }
    }

    /// Adds a table that no entry points to any more, and with no table below it. The batch already contains the addresses that it
    /// translated. A full list is retired at once.
    pub(crate) fn add<G: Guard>(&mut self, table: Pa, batch: &mut TlbBatch, editor: &Editor<'_, G>) {
        batch.with_tables();
        self.tables[self.used] = table;
        self.used += 1;
        if self.used == Self::ROOM {
            batch.finish(editor);
            self.retire(editor);
        }
    }

    /// Retires all of them. The batch that they were in must be finished.
    pub(crate) fn retire<G: Guard>(&mut self, editor: &Editor<'_, G>) {
        for table in &self.tables[..core::mem::take(&mut self.used)] {
            // SAFETY: no entry of a live table points to it, and no walker or walk cache leads to it, because the batch is
            // finished. The tree that contained it owned it, and nothing reads it after this but readers without a lock, for
            // whom the platform waits.
            let frame = unsafe { Frame::from_pa(*table) };
            G::retire(editor.platform, frame);
        }
    }
}
