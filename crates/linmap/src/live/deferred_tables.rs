//! Tables that an operation retires after its last invalidation, when no walker can reach them. Readers without a lock
//! may still be in them, so they are not written.

use crate::format::{Level, Pa};
use crate::live::locked::Locked;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::{Frame, Platform};
use crate::read::Table;

/// Tables that are retired once TLBs and walk caches have dropped them.
pub(crate) struct DeferredTables {
    tables: [(Pa, Level); Self::ROOM],
    used: usize,
}

impl DeferredTables {
    /// The number of tables that wait for one batch of invalidations.
    const ROOM: usize = 8;

    /// Returns an empty list.
    pub(crate) const fn new() -> Self {
        Self { tables: [(Pa(0), Level::PAGE); Self::ROOM], used: 0 }
    }

    /// Adds a table at `level`, which no entry points to any more, and all tables below it. The batch already contains
    /// the addresses that it translated. A full list is retired at once.
    pub(crate) fn add<P: Platform>(
        &mut self,
        (table, level): (Pa, Level),
        batch: &mut TlbBatch,
        locked: &Locked<'_, P>,
    ) {
        batch.with_tables();
        self.tables[self.used] = (table, level);
        self.used += 1;
        if self.used == Self::ROOM {
            batch.finish(locked);
            *batch = TlbBatch::new();
            self.retire(locked);
        }
    }

    /// Retires all of them. The batch that they were in must be finished.
    pub(crate) fn retire<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        for (table, level) in &self.tables[..core::mem::take(&mut self.used)] {
            let shift = locked.geometry.level_shift(*level);
            retire(locked, &locked.table(*table, *level, shift, 0));
        }
    }
}

/// Retires a table and all tables below it, which walkers and walk caches do not lead to any more.
pub(crate) fn retire<P: Platform>(locked: &Locked<'_, P>, table: &Table) {
    if table.level != Level::PAGE {
        for index in 0..locked.geometry.entries(table.level) {
            let entry = locked.load(table, index);
            if entry.is_table(table.level) {
                retire(locked, &locked.below(table, index, entry));
            }
        }
    }
    // SAFETY: no entry of a live table points to it, and no walker or walk cache leads to it, because the batch is
    // finished. The tree that contained it owned it, and nothing reads it after this but readers without a lock, for
    // whom the platform waits.
    let frame = unsafe { Frame::from_pa(table.pa) };
    locked.platform.retire(locked.platform, frame);
}
