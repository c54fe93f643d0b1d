//! The old tree after the switch: its tables are subtracted from the counts and retired.
//!
//! No walker reaches it, and nobody changes it. Readers without a lock may still be in it, so it is read by loads and not
//! written.

use core::mem::take;
use core::ops::Range;

use crate::format::{Level, Pa};
use crate::live::{Call, LockSet, Locked};
use crate::plan::Stats;
use crate::platform::{Frame, Platform, with_locks};
use crate::read::Table;
use crate::repaint::copy::Tally;

/// Retires a root that no CPU uses, and everything below some of its entries. The other entries are shared with the live
/// root.
pub(crate) fn retire<P: Platform>(call: &Call<'_, P>, root: Pa, entries: Range<usize>) {
    let (locked, state) = (call.locked(LockSet::one(0)), call.state);
    let root = locked.table(root, state.geometry().root(), state.root_shift(), state.base());
    let mut old = OldTree { locked, gone: Stats::EMPTY, read: 0 };
    old.table(&root, entries);
    old.subtract();
}

struct OldTree<'a, P: Platform> {
    /// The locks are not held; the tree does not change.
    locked: Locked<'a, P>,
    /// The counts of what was retired and is not yet subtracted from the map's.
    gone: Stats,
    /// The number of entries that were read since.
    read: usize,
}

impl<P: Platform> OldTree<'_, P> {
    /// Retires a table after the tables below it.
    fn table(&mut self, table: &Table, entries: Range<usize>) {
        self.read += entries.len();
        if table.level == Level::PAGE {
            self.count_pages(table, entries);
        } else {
            self.below(table, entries);
        }
        self.gone.tables += 1;
        // SAFETY: all CPUs use the second tree and have dropped their TLB entries of this one, which owned the table.
        // Nothing reads it after this but readers without a lock, for whom the platform waits.
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
                let below = self.locked.below(table, index, entry);
                self.table(&below, 0..self.locked.geometry.entries(below.level));
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
        with_locks(self.locked.platform, 1, || self.locked.state.share(0).counters.exclude(&gone));
    }
}
