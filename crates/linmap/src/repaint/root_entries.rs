//! The range of a repaint, in entries of the root.

use crate::edit::{AdoptError, Call, ChangeError, Guard};
use crate::format::{Span, Va};
use crate::platform::{Platform, with_locks};
use crate::repaint::error::RepaintError;
use crate::share::{Hold, SharedSpace, whole_entries};

impl<const LOCKS: usize> SharedSpace<LOCKS> {
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
        let (range, call) = (self.whole_entries(range)?, Call::new(self.caller(platform)));
        let g = self.geometry();
        let editor = call.editor(Hold::<P, LOCKS>::for_stores(range));
        Ok(with_locks(platform, editor.guard.cover().bits(), || {
            let (root, mut found) = (editor.root(), RootEntries::default());
            let (first, last) = (root.index_of(range.first), root.index_of(range.last));
            for entry in (first..=last).map(|index| editor.load(&root, index)) {
                found.tables += u64::from(entry.is_table(g.root()));
                found.leaves += u64::from(entry.is_leaf(g, g.root()));
            }
            found
        }))
    }

    /// Returns a range whose ends are those of entries of the root, or of contiguous runs of them.
    pub(super) fn whole_entries(&self, range: (Va, Va)) -> Result<Span, RepaintError> {
        let (g, tables) = (self.geometry(), self.tables());
        let span = whole_entries(g, tables.half(), range).map_err(|error| match error {
            AdoptError::PartOfEntry { va } => RepaintError::PartOfEntry { va },
            _ => {
                let pages = (range.1.0.wrapping_sub(range.0.0) >> g.page_shift()) + 1;
                RepaintError::OutsideHalf { va: range.0, pages }
            }
        })?;
        match tables.owns(span) {
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
