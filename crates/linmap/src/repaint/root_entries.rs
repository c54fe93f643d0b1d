//! The range of a repaint, in entries of the root.

use crate::format::{Span, Va};
use crate::live::{AddressSpace, AdoptError, Call, ChangeError, LockSet, whole_entries};
use crate::platform::{Platform, with_locks};
use crate::repaint::error::RepaintError;

impl AddressSpace {
    /// Returns what the root has in a range: how many stores a [`repaint`](Self::repaint) in place makes while the CPUs are
    /// parked. The range is as for a repaint.
    ///
    /// # Errors
    ///
    /// A range outside the half or what belongs to this map, or with a part of an entry of the root.
    pub fn root_entries<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
    ) -> Result<RootEntries, RepaintError> {
        let (range, call) = (self.whole_entries(range)?, Call::new(self.state(), platform));
        let g = self.geometry();
        let locked = call.locked(LockSet::of::<P>(range));
        Ok(with_locks(platform, locked.locks.bits(), || {
            let (root, mut found) = (locked.root(), RootEntries::default());
            let (first, last) = (root.index_of(range.first), root.index_of(range.last));
            for entry in (first..=last).map(|index| locked.load(&root, index)) {
                found.tables += u64::from(entry.is_table(g.root()));
                found.leaves += u64::from(entry.is_leaf(g, g.root()));
            }
            found
        }))
    }

    /// Returns a range whose ends are those of entries of the root, or of contiguous runs of them.
    pub(super) fn whole_entries(&self, range: (Va, Va)) -> Result<Span, RepaintError> {
        let (g, state) = (self.geometry(), self.state());
        let span = whole_entries(g, state.half(), range).map_err(|error| match error {
            AdoptError::PartOfEntry { va } => RepaintError::PartOfEntry { va },
            _ => {
                let pages = (range.1.0.wrapping_sub(range.0.0) >> g.page_shift()) + 1;
                RepaintError::OutsideHalf { va: range.0, pages }
            }
        })?;
        match state.owns(span) {
            Err(ChangeError::NotOwned { va }) => Err(RepaintError::NotOwned { va }),
            _ => Ok(span),
        }
    }
}

/// The entries of a root in a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RootEntries {
    /// The number of those that point to a table.
    pub tables: u64,
    /// The number of leaves. A root has leaves where it has as few levels as 39 bits of 4K pages; a repaint puts a table in
    /// the place of each.
    pub leaves: u64,
}
