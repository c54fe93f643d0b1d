//! Empty tables that an operation retires after its last invalidation, when no walker can reach them. Readers without a lock may still be
//! in them, so they are not written.

use crate::format::Pa;
use crate::live::locked::Locked;
use crate::live::tlb_batch::TlbBatch;
use crate::platform::{Frame, Platform};

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
    pub(crate) fn add<P: Platform>(&mut self, table: Pa, batch: &mut TlbBatch, locked: &Locked<'_, P>) {
        batch.with_tables();
        self.tables[self.used] = table;
        self.used += 1;
        if self.used == Self::ROOM {
            batch.finish(locked);
            *batch = TlbBatch::new();
            self.retire(locked);
        }
    }

    /// Retires all of them. The batch that they were in must be finished.
    pub(crate) fn retire<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        for table in &self.tables[..core::mem::take(&mut self.used)] {
            // SAFETY: no entry of a live table points to it, and no walker or walk cache leads to it, because the batch is
            // finished. The tree that contained it owned it, and nothing reads it after this but readers without a lock, for
            // whom the platform waits.
            let frame = unsafe { Frame::from_pa(*table) };
            locked.platform.retire(locked.platform, frame);
        }
    }
}
