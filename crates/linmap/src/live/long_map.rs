//! New mappings of many entries: the range is claimed, and mapped piece by piece.
//!
//! What is below an entry of a table that is in use is built with nothing held, and published by one store. The claim keeps the table
//! where it is.

use crate::build::Counters;
use crate::format::{Geometry, LeafSize, Span};
use crate::live::attempt::Call;
use crate::live::error::ChangeError;
use crate::live::fill::{Fill, Links};
use crate::live::lock_set::GIGABYTE;
use crate::live::map::{Mapping, Survey};
use crate::live::stop::Stop;
use crate::live::tlb_batch::TlbBatch;
use crate::plan::Leaves;
use crate::platform::Platform;

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
            let (window, mut links) = (self.window::<P>(g, first), Links::none());
            let mut fill = Fill::new(self, Some(P::HOLD.max(1)), Some(&mut links));
            let goes_on = call.attempts(window, |locked| {
                let next = fill.leaves_from(locked, window)?;
                if fill.has_stored {
                    // The next holder may park the CPUs.
                    locked.publish_barrier();
                }
                Ok(next)
            })?;
            next = goes_on.flatten();
            if !links.are_none() {
                let counters = Counters::new();
                let built = links.build(self, (call.state, &counters), &call.reserve);
                let lost = call.attempts(window, |locked| {
                    let lost = links.lost(self, locked)?;
                    if lost.is_none() {
                        links.publish(self, locked);
                        locked.counters().include(&counters.stats());
                        // The next holder may map something below these tables.
                        locked.publish_barrier();
                    }
                    Ok(lost)
                })?;
                if let Some(at) = lost.flatten() {
                    links.discard((g, &counters), &call.reserve);
                    next = Some(at);
                }
                built?;
            }
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
    pub(crate) fn after(&self, last: u64) -> Option<u64> {
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
}
