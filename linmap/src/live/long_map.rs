//! New mappings of many entries: the range is claimed, and mapped piece by piece.
//!
//! A table above page tables is published empty, and what is below it later. So no hold builds more than one table beyond
//! the number of entries that it may write.

use crate::build::fill_holes;
use crate::format::{Descriptor, Span};
use crate::live::attempt::Call;
use crate::live::error::ChangeError;
use crate::live::lock_set::GIGABYTE;
use crate::live::locked::{LeafVisitor, Locked};
use crate::live::map::{Fill, Mapping};
use crate::live::stop::{Needs, Stop};
use crate::live::tlb_batch::TlbBatch;
use crate::platform::{Memory, Platform};
use crate::read::Table;

impl Mapping {
    /// Maps everything, or nothing, piece by piece.
    ///
    /// # Errors
    ///
    /// As for [`map`](Self::map).
    #[cold]
    pub(crate) fn map_long<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<(), ChangeError> {
        call.claim(self.span)?;
        let mut tables = 0;
        call.pieces(self.span, |locked, piece| {
            tables += self.survey(locked, piece, usize::MAX)?.tables;
            Ok(())
        })?;
        call.frames(tables)?;
        let mut next = Some(self.span.first);
        while let Some(first) = next {
            let window = Span { first, last: self.span.last.min(first | ((1 << GIGABYTE) - 1)) };
            next = call.attempts(window, |locked| self.some(locked, window))?.flatten();
        }
        call.last_hold(self.span, |locked| TlbBatch::new().finish(locked))
    }

    /// Maps as much from the start of a window on as a hold may write. Returns the address at which to go on.
    fn some<P: Platform>(&self, locked: &Locked<'_, P>, window: Span) -> Result<Option<u64>, Stop> {
        let mut paced = Paced { fill: Fill::new(*self), left: P::HOLD.max(1), done: None, next: None };
        let table = locked.deepest(locked.root(), window);
        match locked.visit_leaves(&table, window, &mut paced) {
            Ok(()) | Err(Stop::TooLong) => {}
            Err(other) => return Err(other),
        }
        paced.fill.publish(locked);
        // The next holder may map something below these tables.
        locked.publish_barrier();
        // The last entry may end after the window.
        let last = paced.done.unwrap_or(window.last).max(window.last);
        let after = last.checked_add(1).filter(|next| *next <= self.span.last);
        Ok(paced.next.or(after))
    }

    /// Publishes an empty table in the place of a hole.
    fn publish_empty<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
    ) -> Result<(), Stop> {
        let mut frame = locked.reserve.take().ok_or(Needs::Frames(1))?;
        fill_holes(&mut locked.reserve.slots(&mut frame)[..1 << locked.geometry.index_bits()]);
        locked.publish_barrier();
        let link = Descriptor::link(frame.into_pa(), locked.geometry).with(self.table_attributes(locked));
        locked.store(table, index, link);
        locked.counters().table();
        Ok(())
    }
}

/// Fills a range, up to a number of entries.
struct Paced {
    fill: Fill,
    /// The number of entries that may still be written.
    left: usize,
    /// The last address of the entries that were filled.
    done: Option<u64>,
    /// The address at which the next hold goes on, if this one stopped before the end.
    next: Option<u64>,
}

impl<P: Platform> LeafVisitor<P> for Paced {
    // The walk, which has a frame of the stack for each level, is not to have that of this.
    #[inline(never)]
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let (g, mapping, at) = (locked.geometry, self.fill.mapping, table.span_of(index));
        if let Err(needs) = locked.covers(at)
            && self.done.is_none()
        {
            return Err(needs.into());
        }
        let part = mapping.part(at);
        if self.left == 0 || locked.covers(at).is_err() {
            self.next = Some(part.first);
            return Err(Stop::TooLong);
        }
        let tables = match mapping.is_leaf(locked, table, index) {
            true => 0,
            false => mapping.tables_below(g, table, part),
        };
        locked.mark(part);
        if tables > 1 {
            self.next = Some(part.first);
            mapping.publish_empty(locked, table, index)?;
            return Err(Stop::TooLong);
        }
        self.done = Some(at.last);
        self.left = self.left.saturating_sub(if tables == 0 { 1 } else { g.entries(table.level.next()) });
        self.fill.leaves(locked, table, (index, last), old)
    }
}
