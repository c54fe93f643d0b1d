//! Tables that were taken out of a live tree, until no walker can be in them.

use crate::build::discard_table;
use crate::format::{Level, Pa};
use crate::live::locked::Access;
use crate::live::tlb_batch::Batch;
use crate::platform::{Frame, Platform};

/// Tables that go back to the memory once TLBs and walk caches have forgotten them.
pub(crate) struct Retired {
    tables: [(Pa, Level); Self::ROOM],
    used: usize,
}

impl Retired {
    /// So many wait for one batch of invalidations.
    const ROOM: usize = 8;

    /// None.
    pub(crate) const fn new() -> Self {
        Self { tables: [(Pa(0), Level::PAGE); Self::ROOM], used: 0 }
    }

    /// Adds a table at `level`, which no entry points to any more, and all below it. What it translated is
    /// in the batch. Where there is no room for more, all go.
    pub(crate) fn add<P: Platform>(
        &mut self,
        (table, level): (Pa, Level),
        batch: &mut Batch,
        access: &Access<'_, P>,
    ) {
        batch.with_tables();
        self.tables[self.used] = (table, level);
        self.used += 1;
        if self.used == Self::ROOM {
            batch.finish(access);
            *batch = Batch::new();
            self.give(access);
        }
    }

    /// Gives all back. The batch that they were in is finished.
    pub(crate) fn give<P: Platform>(&mut self, access: &Access<'_, P>) {
        for (table, level) in &self.tables[..core::mem::take(&mut self.used)] {
            // SAFETY: no entry points to the table, and no walker or walk cache leads to it: the batch is
            // finished. The tree that it was in owned it.
            let frame = unsafe { Frame::from_pa(*table) };
            if !broken!(NotGivenBack) {
                discard_table(access.platform, access.geometry, *level, frame);
            }
        }
    }
}
