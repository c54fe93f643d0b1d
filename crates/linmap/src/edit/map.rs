//! New mappings where nothing is mapped.
//!
//! *Survey*: check that nothing is mapped there, and count the tables that are needed. *Reserve* them. *Fill* (`fill.rs`): store leaves
//! where they fit, build subtrees off line for all other entries, and publish each of them by one store after a barrier. A long range is
//! claimed, and its subtrees are built outside a hold. The claim keeps the tables above them where they are.

use crate::batch::TlbBatch;
use crate::build::Counters;
use crate::edit::call::{Call, Caller};
use crate::edit::cover::GIGABYTE;
use crate::edit::editor::Editor;
use crate::edit::error::ChangeError;
use crate::edit::fill::{Fill, Links};
use crate::edit::guard::Guard;
use crate::edit::mapping::{Mapping, Survey, visit};
use crate::edit::stop::Stop;
use crate::format::{Geometry, LeafSize, Span};
use crate::plan::Leaves;
use crate::read::visit_span;

impl Mapping {
    /// Maps everything, or nothing. What it needs of the stack, the fast way does not.
    ///
    /// # Errors
    ///
    /// An existing mapping; a descriptor that the library would not write; out of frames; a claim in the way.
    #[inline(never)]
    pub(crate) fn map<G: Guard>(&self, caller: Caller<'_, G>) -> Result<(), ChangeError> {
        let mut call = Call::new(caller);
        if self.in_one_hold(&mut call)? { Ok(()) } else { self.map_long(&mut call) }
    }

    /// Maps everything in one hold. Returns false if it is too long for that; nothing has been done then.
    ///
    /// # Errors
    ///
    /// As for [`map`](Self::map).
    fn in_one_hold<G: Guard>(&self, call: &mut Call<'_, G>) -> Result<bool, ChangeError> {
        let done = call.attempts(self.span, |editor| {
            let survey = self.survey(editor)?;
            if survey.entries > G::HOLD as u64 {
                return Err(Stop::TooLong);
            }
            editor.has_frames(survey.tables)?;
            self.fill(editor, survey.tables)?;
            TlbBatch::new().finish(editor);
            Ok(())
        })?;
        Ok(done.is_some())
    }

    /// Checks that nothing is mapped in the range, of no more entries than a hold may have.
    ///
    /// # Errors
    ///
    /// Something is, it has more entries, or it takes more than the guard covers.
    fn survey<G: Guard>(&self, editor: &Editor<'_, G>) -> Result<Survey<'_>, Stop> {
        let table = editor.deepest(editor.root(), self.span);
        let mut survey = Survey::new(self, G::HOLD);
        visit(editor, &table, self.span, &mut survey)?;
        Ok(survey)
    }

    /// Maps the range. It has been surveyed in the same hold, and takes so many tables.
    #[inline(never)]
    fn fill<G: Guard>(&self, editor: &Editor<'_, G>, tables: u64) -> Result<(), Stop> {
        if tables == 0 {
            Fill::new(self, None, None).leaves_from(editor, self.span)?;
            return Ok(());
        }
        let mut next = Some(self.span.first);
        while let Some(first) = next {
            let mut links = Links::none();
            next =
                Fill::new(self, None, Some(&mut links)).leaves_from(editor, Span { first, ..self.span })?;
            let counters = editor.guard.counters();
            links.build(self, (editor.tables(), counters), editor.reserve).map_err(ChangeError::from)?;
            links.publish(self, editor);
        }
        Ok(())
    }

    /// Maps everything, or nothing, piece by piece.
    ///
    /// # Errors
    ///
    /// As for [`map`](Self::map).
    #[cold]
    fn map_long<G: Guard>(&self, call: &mut Call<'_, G>) -> Result<(), ChangeError> {
        call.claim(self.span)?;
        let tables = self.survey_all(call)?;
        call.frames(tables)?;
        let g = call.tables().geometry();
        let mut next = Some(self.span.first);
        while let Some(first) = next {
            let (window, mut links) = (self.window::<G>(g, first), Links::none());
            let mut fill = Fill::new(self, Some(G::HOLD.max(1)), Some(&mut links));
            let goes_on = call.attempts(window, |editor| {
                let next = fill.leaves_from(editor, window)?;
                if fill.has_stored {
                    // The next holder may park the CPUs.
                    editor.publish_barrier();
                }
                Ok(next)
            })?;
            next = goes_on.flatten();
            if !links.are_none() {
                let counters = Counters::new();
                let built = links.build(self, (call.tables(), Some(&counters)), &call.reserve);
                let lost = call.attempts(window, |editor| {
                    let lost = links.lost(self, editor)?;
                    if lost.is_none() {
                        links.publish(self, editor);
                        editor.count(|all| all.include(&counters.stats()));
                        // The next holder may map something below these tables.
                        editor.publish_barrier();
                    }
                    Ok(lost)
                })?;
                if let Some(at) = lost.flatten() {
                    links.discard((g, Some(&counters)), &call.reserve);
                    next = Some(at);
                }
                built?;
            }
        }
        call.last_hold(self.span, |editor| TlbBatch::new().finish(editor))
    }

    /// Checks that nothing is mapped in the range. Returns the number of tables that it takes.
    ///
    /// # Errors
    ///
    /// Something is.
    fn survey_all<G: Guard>(&self, call: &mut Call<'_, G>) -> Result<u64, ChangeError> {
        let g = call.tables().geometry();
        let (mut tables, mut next) = (0, Some(self.span.first));
        while let Some(first) = next {
            let window = self.window::<G>(g, first);
            let surveyed = call.attempts(window, |editor| {
                let mut survey = Survey::new(self, G::HOLD.max(1));
                let table = editor.table_of(window);
                match visit_span(editor, &table, window, &mut survey) {
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
    /// one only if large leaves begin there, so that few entries may be of many gigabytes.
    fn window<G: Guard>(&self, g: Geometry, first: u64) -> Span {
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
        let bytes = entry.saturating_mul(G::HOLD.max(1) as u64);
        let last = first.saturating_add(bytes - 1) | ((1 << GIGABYTE) - 1);
        Span { first, last: self.span.last.min(last) }
    }
}
