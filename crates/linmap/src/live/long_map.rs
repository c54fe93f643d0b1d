//! New mappings of many entries: the range is claimed, and mapped piece by piece.
//!
//! A table above page tables is published empty, and what is below it later. So no hold builds more than one table beyond
//! the number of entries that it may write.

use crate::build::fill;
use crate::format::{Descriptor, Geometry, LeafSize, Span};
use crate::live::attempt::Call;
use crate::live::error::ChangeError;
use crate::live::lock_set::GIGABYTE;
use crate::live::locked::{LeafVisitor, Locked};
use crate::live::map::{Fill, Mapping, Survey};
use crate::live::stop::{Needs, Stop};
use crate::live::tlb_batch::TlbBatch;
use crate::plan::Leaves;
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
        let tables = self.survey_all(call)?;
        call.frames(tables)?;
        let g = call.state.geometry();
        let mut next = Some(self.span.first);
        while let Some(first) = next {
            let window = self.window::<P>(g, first);
            next = call.attempts(window, |locked| self.some(locked, window))?.flatten();
        }
        call.last_hold(self.span, |locked| TlbBatch::new().finish(locked))
    }

    /// Checks that nothing is mapped in the range. Returns the number of tables that it takes.
    ///
    /// # Errors
    ///
    /// Something is.
    fn survey_all<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<u64, ChangeError> {
        let g = call.state.geometry();
        let (mut tables, mut next) = (0, Some(self.span.first));
        while let Some(first) = next {
            let window = self.window::<P>(g, first);
            let surveyed = call.attempts(window, |locked| {
                let mut survey = Survey::new(self, P::HOLD.max(1));
                let table = locked.table_of(window);
                match locked.visit_leaves(&table, window, &mut survey) {
                    Err(Stop::TooLong) | Ok(()) => Ok((survey.tables, survey.next, survey.done)),
                    Err(other) => Err(other),
                }
            })?;
            let (more, stopped, done) = surveyed.unwrap_or_default();
            tables += more;
            // The last entry may end after the window.
            next = stopped.or(self.after(done.max(window.last)));
        }
        Ok(tables)
    }

    /// Returns the address after another, if it is in the range.
    fn after(&self, last: u64) -> Option<u64> {
        last.checked_add(1).filter(|next| *next <= self.span.last)
    }

    /// Returns what may be looked at in one hold, from an address of the range on. It ends with a gigabyte, and has more than
    /// one only if large leaves begin there, so that few entries may take many locks.
    fn window<P: Platform>(&self, g: Geometry, first: u64) -> Span {
        let in_one = Span { first, last: self.span.last.min(first | ((1 << GIGABYTE) - 1)) };
        if in_one.last == self.span.last {
            return in_one;
        }
        let fits = |size: &&LeafSize| {
            let within = size.bytes() - 1;
            (first | self.oa(first).0) & within == 0 && within <= self.span.last - first
        };
        let sizes = g.new_leaf_sizes();
        let largest = sizes.iter().filter(|_| self.leaves == Leaves::Largest).find(fits);
        let entry = largest.map_or(1, |leaf| leaf.bytes() / leaf.descriptors());
        let bytes = entry.saturating_mul(P::HOLD.max(1) as u64);
        let last = first.saturating_add(bytes - 1) | ((1 << GIGABYTE) - 1);
        Span { first, last: self.span.last.min(last) }
    }

    /// Maps as much from the start of a window on as a hold may write. Returns the address at which to go on.
    fn some<P: Platform>(&self, locked: &Locked<'_, P>, window: Span) -> Result<Option<u64>, Stop> {
        let mut paced = Paced { fill: Fill::new(self), left: P::HOLD.max(1), done: None, next: None };
        let table = locked.table_of(window);
        match locked.visit_leaves(&table, window, &mut paced) {
            Ok(()) | Err(Stop::TooLong) => {}
            Err(other) => return Err(other),
        }
        paced.fill.publish(locked);
        // The next holder may map something below these tables.
        locked.publish_barrier();
        // The last entry may end after the window.
        let last = paced.done.unwrap_or(window.last).max(window.last);
        Ok(paced.next.or(self.after(last)))
    }

    /// Publishes an empty table in the place of a hole.
    fn publish_empty<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        table: &Table,
        index: usize,
    ) -> Result<(), Stop> {
        let mut frame = locked.reserve.take().ok_or(Needs::Frames(1))?;
        fill::holes(&mut locked.reserve.slots(&mut frame)[..1 << locked.geometry.index_bits()]);
        locked.publish_barrier();
        let link = Descriptor::link(frame.into_pa(), locked.geometry).with(self.table_attributes(locked));
        if table.shift > GIGABYTE {
            locked.publish_upper(|| locked.store(table, index, link));
        } else {
            locked.store(table, index, link);
        }
        locked.counters().table();
        Ok(())
    }
}

/// Fills a range, up to a number of entries.
struct Paced<'m> {
    fill: Fill<'m>,
    /// The number of entries that may still be written.
    left: usize,
    /// The last address of the entries that were filled.
    done: Option<u64>,
    /// The address at which the next hold goes on, if this one stopped before the end.
    next: Option<u64>,
}

impl<P: Platform> LeafVisitor<P> for Paced<'_> {
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
        let is_leaf = mapping.is_leaf(locked, table, index);
        let has_locks = if is_leaf { locked.covers(at) } else { locked.may_publish(at) };
        let may_store = has_locks.and_then(|()| locked.sees_published());
        let part = mapping.part(at);
        match may_store {
            Err(needs) if self.done.is_none() => return Err(needs.into()),
            Ok(()) if self.left != 0 => {}
            _ => {
                self.next = Some(part.first);
                return Err(Stop::TooLong);
            }
        }
        if is_leaf {
            return Ok(self.leaves_from(locked, table, (index, last)));
        }
        if mapping.tables_below(g, table, part) > 1 {
            // It maps nothing yet, so a repaint under way need not know of it.
            self.next = Some(part.first);
            mapping.publish_empty(locked, table, index)?;
            return Err(Stop::TooLong);
        }
        locked.mark(part);
        self.done = Some(at.last);
        self.left = self.left.saturating_sub(g.entries(table.level.next()));
        self.fill.leaves(locked, table, (index, last), old)
    }
}

impl Paced<'_> {
    /// Stores leaves in the place of holes from one index on, no more than may still be written. Returns the index after
    /// them.
    fn leaves_from<P: Platform>(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
    ) -> usize {
        let mapping = self.fill.mapping;
        let mut end = mapping.leaves_end(locked, table, (index, last.min(index + (self.left - 1))));
        let until = |end: usize| Span { first: table.va(index), last: table.span_of(end - 1).last };
        if locked.covers(until(end)).is_err() {
            end = index + 1;
        }
        locked.mark(until(end));
        self.done = Some(until(end).last);
        self.left -= end - index;
        self.fill.leaves_from(locked, table, (index, end));
        end
    }
}
