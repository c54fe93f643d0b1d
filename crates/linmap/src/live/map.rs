//! New mappings where nothing is mapped.
//!
//! *Survey*: check that nothing is mapped there, and count the tables that are needed. *Reserve* them. *Fill* (`fill.rs`): store leaves
//! where they fit, build subtrees off line for all other entries, and publish each of them by one store after a barrier. A long range is
//! claimed, and its subtrees are built while no lock is held. The claim keeps the tables above them where they are.

use crate::build::Counters;
use crate::format::{Geometry, LeafSize, Span};
use crate::live::attempt::Call;
use crate::live::error::ChangeError;
use crate::live::fill::{Fill, Links};
use crate::live::lock_set::GIGABYTE;
use crate::live::locked::Locked;
use crate::live::mapping::{Mapping, Survey, visit};
use crate::live::stop::Stop;
use crate::live::tlb_batch::TlbBatch;
use crate::plan::Leaves;
use crate::platform::Platform;

impl Mapping {
    /// Maps everything, or nothing.
    ///
    /// # Errors
    ///
    /// An existing mapping; a descriptor that the library would not write; out of frames; a claim in the way. Returns
    /// false if it is too long for one hold; nothing has been done then.
    pub(crate) fn map<P: Platform>(&self, call: &mut Call<'_, P>) -> Result<bool, ChangeError> {
        let done = call.attempts(self.span, |locked| {
            let survey = self.survey(locked)?;
            if survey.entries > P::HOLD as u64 {
                return Err(Stop::TooLong);
            }
            locked.has_frames(survey.tables)?;
            self.fill(locked, survey.tables)?;
            TlbBatch::new().finish(locked);
            Ok(())
        })?;
        Ok(done.is_some())
    }

    /// Checks that nothing is mapped in the range, of no more entries than a hold may have.
    ///
    /// # Errors
    ///
    /// Something is, it has more entries, or it takes more locks.
    fn survey<P: Platform>(&self, locked: &Locked<'_, P>) -> Result<Survey<'_>, Stop> {
        let table = locked.deepest(locked.root(), self.span);
        let mut survey = Survey::new(self, P::HOLD);
        visit(locked, &table, self.span, &mut survey)?;
        Ok(survey)
    }

    /// Maps the range. It has been surveyed in the same hold, and takes so many tables.
    #[inline(never)]
    fn fill<P: Platform>(&self, locked: &Locked<'_, P>, tables: u64) -> Result<(), Stop> {
        if tables == 0 {
            Fill::new(self, None, None).leaves_from(locked, self.span)?;
            return Ok(());
        }
        let mut next = Some(self.span.first);
        while let Some(first) = next {
            let mut links = Links::none();
            next =
                Fill::new(self, None, Some(&mut links)).leaves_from(locked, Span { first, ..self.span })?;
            let counters = locked.counters();
            links.build(self, (locked.state, counters), locked.reserve).map_err(ChangeError::from)?;
            links.publish(self, locked);
        }
        Ok(())
    }

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
