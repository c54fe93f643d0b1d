//! The driver: an operation on the leaves of one span or several does all of what it says, or nothing.
//!
//! All spans are surveyed, cut and changed in one hold that covers all of them. If these are more entries than a hold may have, or ways down
//! to too many spans, they change under a claim and piece by piece. If there are more spans than can be claimed together, they
//! change group by group: as many as are sure to fit into a hold, or, where a span is too long for one, as can be claimed.
//! All groups are surveyed before the first of them changes, so that nothing is refused later.
//!
//! The leaves at the ends of one span are cut where it changes, with the change in the tables that replace them. Those of several are cut
//! first, span by span and without a claim, since that takes table pages and changes no translation. Then it is tried again. Nobody
//! merges them before the operation ends.

use core::iter::{Once, once};
use core::slice::from_ref;

use crate::batch::TlbBatch;
use crate::edit::call::Call;
use crate::edit::cover::Cover;
use crate::edit::cuts::Cuts;
use crate::edit::editor::Editor;
use crate::edit::error::ChangeError;
use crate::edit::guard::{Group, Guard, TOGETHER};
use crate::edit::pieces::Pieces;
use crate::edit::survey::{Survey, Surveyor};
use crate::format::{LeafChange, Level, Span, Va};
use crate::plan::Policy;
use crate::read::Table;

/// An operation on the leaves of some spans.
pub(crate) trait Operation<G: Guard> {
    /// Returns what becomes of each leaf: whether it may, and whether it has to be cut.
    fn change(&self) -> LeafChange;

    /// Returns true if leaves that reach beyond a span are cut. Otherwise they are refused.
    fn cuts(&self) -> bool {
        true
    }

    /// Returns the invalidations of what was stored so far.
    fn batch(&mut self) -> &mut TlbBatch;

    /// Stores to the leaves of a piece of a span. `alike` if the same bits change in all leaves, and none of them is in another span.
    /// What TLBs may hold goes into the batch. Cannot fail.
    fn apply(&mut self, editor: &Editor<'_, G>, way: &mut Way, at: Piece, alike: bool);

    /// Returns the pieces of a span in which it changes under a claim.
    fn pieces(&mut self, span: Span) -> Pieces {
        Pieces::of(span)
    }

    /// Ends a hold after which there are others of the same operation.
    fn end_piece(&mut self, editor: &Editor<'_, G>) {
        editor.publish_barrier();
    }

    /// Ends the last hold of some spans. Other spans may follow.
    fn end(&mut self, editor: &Editor<'_, G>);

    /// Does what is left to do after a hold, with nothing held. It has ended.
    #[inline(always)]
    fn after(&mut self, call: &Call<'_, G>) {
        _ = call;
    }
}

/// A piece of a span.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) piece: Span,
    pub(crate) span: Span,
}

/// The spans of an operation: one or more.
pub(crate) struct Spans<S> {
    all: S,
    count: usize,
    first: Span,
    cover: Cover,
    /// The number of pages that are read where the spans come from a list of pages.
    listed: u64,
}

/// The number of entries of a hold that a way down to a span counts as.
const WALK: usize = 15;

/// A pass over all groups of spans.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    /// They are surveyed: nothing is stored if the change of any is refused.
    Look,
    /// Leaves are cut, with translations as they are.
    Cut,
    Change,
}

/// The outcome of an attempt.
#[derive(PartialEq)]
enum Tried {
    Done,
    /// Nothing has been stored: some leaves have to be cut first.
    Cut,
}

/// Returns what it takes to store to some spans.
#[inline(always)]
fn cover_of<G: Guard>(spans: impl Iterator<Item = Span>) -> Cover {
    spans.map(G::for_stores).fold(Cover::NOTHING, Cover::and)
}

/// The deepest table that translates a range. It is looked for again only for a range that is elsewhere, and where there may be a deeper
/// one by now. It serves one hold, in which its entries may change.
pub(crate) struct Way {
    table: Option<Table>,
}

impl Way {
    pub(crate) const fn new() -> Self {
        Self { table: None }
    }

    #[inline(always)]
    pub(crate) fn to<G: Guard>(&mut self, editor: &Editor<'_, G>, span: Span) -> Table {
        match self.table {
            Some(table) if table.span_of_all(editor.geometry).covers(span.first, span.last) => table,
            _ => {
                let table = editor.deepest(editor.root(), span);
                // Below a table that is not of the last level there may be a deeper one for another range.
                self.table = (table.level == Level::PAGE).then_some(table);
                table
            }
        }
    }
}

impl Spans<Once<Span>> {
    /// Returns one span.
    pub(crate) fn one<G: Guard>(span: Span) -> Self {
        Self { all: once(span), count: 1, first: span, cover: G::for_stores(span), listed: 0 }
    }
}

impl<S: Iterator<Item = Span> + Clone> Spans<S> {
    /// Returns these spans, or `None` if there are none. They come from a list of so many pages, or from none.
    pub(crate) fn of<G: Guard>(all: S, listed: u64) -> Option<Self> {
        let (first, mut count) = (all.clone().next()?, 0);
        let cover = cover_of::<G>(all.clone().inspect(|_| count += 1));
        Some(Self { all, count, first, cover, listed })
    }

    /// Returns the span, if there is only one.
    pub(crate) fn only(&self) -> Option<Span> {
        (self.count == 1).then_some(self.first)
    }

    /// Changes all leaves of the spans, or none.
    ///
    /// # Errors
    ///
    /// The survey's errors; out of frames; a change of size that the policy or the CPUs do not permit; a claim in the way. Leaves may have
    /// been cut. If another caller changes what is mapped in several groups of spans meanwhile, groups before may have changed.
    #[inline(always)]
    pub(crate) fn run<G: Guard>(
        &self,
        call: &mut Call<'_, G>,
        operation: &mut impl Operation<G>,
    ) -> Result<(), ChangeError> {
        // A list is read in the hold, also where many of its pages are one leaf, and each span takes a way down.
        let is_short =
            self.listed <= G::HOLD as u64 && self.count.saturating_mul(WALK) <= G::HOLD.saturating_add(WALK);
        if is_short && self.in_hold(call, operation, (self.cover, self.all.clone()), Pass::Change)?.is_some()
        {
            return Ok(());
        }
        match self.only() {
            Some(span) => claimed_alone(call, operation, span),
            None => self.in_groups(call, operation),
        }
    }

    /// Changes several spans that are too much for one hold: under one claim, or group by group.
    #[cold]
    #[inline(never)]
    fn in_groups<G: Guard>(
        &self,
        call: &mut Call<'_, G>,
        operation: &mut impl Operation<G>,
    ) -> Result<(), ChangeError> {
        let _kept = call.guard.keeps_cuts();
        let several = self.count > TOGETHER;
        let passes: &[Pass] = if several { &[Pass::Look, Pass::Cut, Pass::Change] } else { &[Pass::Change] };
        let mut splits = false;
        for &pass in passes {
            if pass == Pass::Cut && !splits {
                continue;
            }
            let mut spans = self.all.clone();
            loop {
                let count = if several { self.fit(call, spans.clone()) } else { 0 };
                let group = spans.clone().take(count);
                let cover = cover_of::<G>(group.clone());
                if count > 0
                    && let Some(tried) = self.in_hold(call, operation, (cover, group), pass)?
                {
                    splits |= tried == Tried::Cut;
                    spans.by_ref().take(count).for_each(|_| {});
                    continue;
                }
                let Some(group) = Group::next(&mut spans) else { break };
                splits |= in_pieces(call, operation, group.spans(), pass)? == Tried::Cut;
            }
        }
        Ok(())
    }

    /// Does what a pass does for some spans in one hold, after what it cuts. Returns `None` if it takes several holds.
    #[inline(always)]
    fn in_hold<G: Guard>(
        &self,
        call: &mut Call<'_, G>,
        operation: &mut impl Operation<G>,
        (cover, spans): (Cover, impl Iterator<Item = Span> + Clone),
        pass: Pass,
    ) -> Result<Option<Tried>, ChangeError> {
        loop {
            let kind = (self.only().is_some(), pass == Pass::Change);
            let tried = hold(call, operation, (cover, spans.clone()), kind)?;
            if pass == Pass::Look || tried != Some(Tried::Cut) {
                return Ok(tried);
            }
            spans.clone().try_for_each(|span| cut(call, (operation.change(), &[]), span))?;
        }
    }

    /// Returns how many spans have no more entries than a hold may have, whatever their leaves are.
    fn fit<G: Guard>(&self, call: &Call<'_, G>, spans: impl Iterator<Item = Span>) -> usize {
        let shift = call.tables().geometry().page_shift();
        let fits = spans.scan(G::HOLD, |left, Span { first, last }| {
            let pages = usize::try_from((last - first) >> shift).unwrap_or(usize::MAX).saturating_add(1);
            *left = left.checked_sub(pages.saturating_add(WALK))?;
            Some(())
        });
        fits.count()
    }
}

/// Changes one span in several holds, under a claim. The leaves at its ends are cut under it, too.
///
/// # Errors
///
/// As for [`Spans::run`].
#[cold]
#[inline(never)]
fn claimed_alone<G: Guard>(
    call: &mut Call<'_, G>,
    operation: &mut impl Operation<G>,
    span: Span,
) -> Result<(), ChangeError> {
    call.claim(span)?;
    let survey = surveyed(call, operation.change(), from_ref(&span))?;
    may_cut(call.tables().policy(), operation, &survey)?;
    change_claimed(call, operation, span, &survey)?;
    call.unclaim();
    Ok(())
}

/// Does one pass for several spans in several holds: under a claim if they change. The claim is made without table pages, as nothing is cut
/// while it is held: leaves are cut after it, and then it is tried again.
///
/// # Errors
///
/// As for [`Spans::run`].
#[inline(never)]
fn in_pieces<G: Guard>(
    call: &mut Call<'_, G>,
    operation: &mut impl Operation<G>,
    spans: &[Span],
    pass: Pass,
) -> Result<Tried, ChangeError> {
    loop {
        if pass == Pass::Change {
            call.claim_all(spans.iter().copied())?;
        }
        let survey = surveyed(call, operation.change(), spans)?;
        may_cut(call.tables().policy(), operation, &survey)?;
        if pass == Pass::Change && survey.changes() && !survey.splits() {
            store(call, operation, spans, false)?;
        }
        call.unclaim();
        match (survey.splits(), pass) {
            (false, _) => return Ok(Tried::Done),
            (true, Pass::Look) => return Ok(Tried::Cut),
            _ => spans.iter().try_for_each(|span| cut(call, (operation.change(), &[]), *span))?,
        }
    }
}

/// Refuses an operation that does not cut, if a survey has found a leaf that reaches beyond its span.
///
/// # Errors
///
/// The operation does not cut.
fn may_cut<G: Guard>(
    policy: Policy,
    operation: &impl Operation<G>,
    survey: &Survey,
) -> Result<(), ChangeError> {
    match survey.cut {
        Some(at) if !operation.cuts() => Err(ChangeError::NeedsResize { va: Va(at), policy }),
        _ => Ok(()),
    }
}

/// Tries some spans in one hold, in which they change if it `stores`. Only if one of them is all, its ends are cut in it. Returns `None`
/// if it takes several holds.
///
/// # Errors
///
/// As for [`Spans::run`].
#[inline(never)]
fn hold<G: Guard>(
    call: &mut Call<'_, G>,
    operation: &mut impl Operation<G>,
    (cover, spans): (Cover, impl Iterator<Item = Span> + Clone),
    (is_only, stores): (bool, bool),
) -> Result<Option<Tried>, ChangeError> {
    let tried = call.attempts_with(cover, spans.clone(), |editor| {
        // The way to the first span is in every hold.
        let (mut surveyor, mut way) =
            (Surveyor::new(operation.change(), G::HOLD.saturating_add(WALK)), Way::new());
        for span in spans.clone() {
            surveyor.take(WALK)?;
            surveyor.add(editor, &way.to(editor, span), (span, span))?;
        }
        let survey = surveyor.found();
        may_cut(editor.policy, operation, survey)?;
        if survey.splits() {
            let (Some(span), true, true) = (spans.clone().next(), stores, is_only) else {
                return Ok(Tried::Cut);
            };
            let change = operation.change();
            Cuts::at_ends(editor, (change, &[], span), survey.resizes, Some(operation.batch()))?;
        }
        if !stores || !survey.changes() {
            return Ok(Tried::Done);
        }
        let alike = is_only && survey.is_alike();
        for span in spans.clone() {
            editor.guard.mark(span);
            operation.apply(editor, &mut way, Piece { piece: span, span }, alike);
            // What is left to a flush is noted at once: the batch may join it with addresses that are not covered.
            operation.batch().leave(editor);
        }
        operation.end(editor);
        Ok(Tried::Done)
    })?;
    operation.after(call);
    Ok(tried)
}

/// Surveys some spans piece by piece.
///
/// # Errors
///
/// The survey's.
#[inline(never)]
pub(crate) fn surveyed<G: Guard>(
    call: &mut Call<'_, G>,
    change: LeafChange,
    spans: &[Span],
) -> Result<Survey, ChangeError> {
    let mut surveyor = Surveyor::new(change, usize::MAX);
    for &span in spans {
        call.pieces(span, |editor, piece| {
            surveyor.add(editor, &editor.deepest(editor.root(), piece), (span, piece))
        })?;
    }
    Ok(*surveyor.found())
}

/// Cuts the leaves at the ends of a span, which the call has claimed, with the change in the tables that replace them. `in_use` is the
/// first of them that is in use.
///
/// # Errors
///
/// Out of frames; a change of size that the policy or the CPUs do not permit.
#[inline(never)]
fn cut_claimed<G: Guard>(
    call: &mut Call<'_, G>,
    operation: &mut impl Operation<G>,
    span: Span,
    in_use: Option<u64>,
) -> Result<(), ChangeError> {
    let change = operation.change();
    call.attempts_at_ends(span, |editor| {
        let batch = operation.batch();
        Cuts::at_ends(editor, (change, &[], span), in_use, Some(&mut *batch))?;
        batch.leave(editor);
        // The next holder may change what is left of these leaves.
        editor.publish_barrier();
        Ok(())
    })
}

/// Changes some spans, which the call has claimed, piece by piece. They end in a hold of their own.
///
/// # Errors
///
/// None, since they are claimed.
#[inline(never)]
pub(crate) fn store<G: Guard>(
    call: &mut Call<'_, G>,
    operation: &mut impl Operation<G>,
    spans: &[Span],
    alike: bool,
) -> Result<(), ChangeError> {
    for &span in spans {
        let mut pieces = operation.pieces(span);
        while call.next_piece(&mut pieces, &mut |editor, piece| {
            operation.apply(editor, &mut Way::new(), Piece { piece, span }, alike);
            operation.batch().leave(editor);
            operation.end_piece(editor);
            Ok(())
        })? {
            operation.after(call);
        }
    }
    match spans.last() {
        Some(span) => call.last_hold(*span, |editor| operation.end(editor)),
        None => Ok(()),
    }
}

/// Changes a span piece by piece, which the call has claimed and surveyed.
///
/// # Errors
///
/// Out of frames; a change of size that the policy or the CPUs do not permit.
#[inline(always)]
pub(crate) fn change_claimed<G: Guard>(
    call: &mut Call<'_, G>,
    operation: &mut impl Operation<G>,
    span: Span,
    found: &Survey,
) -> Result<(), ChangeError> {
    if found.splits() {
        cut_claimed(call, operation, span, found.resizes)?;
    }
    if found.changes() { store(call, operation, &[span], found.is_alike()) } else { Ok(()) }
}

/// Cuts the leaves that contain the ends of a span, for a change of it. Translations stay as they are. Other changes may follow.
///
/// # Errors
///
/// As for a change of one span.
#[cold]
#[inline(never)]
pub(crate) fn cut<G: Guard>(
    call: &mut Call<'_, G>,
    (change, later): (LeafChange, &[LeafChange]),
    span: Span,
) -> Result<(), ChangeError> {
    call.attempts_at_ends(span, |editor| {
        let mut surveyor = Surveyor::new(change, usize::MAX);
        for va in [span.first, span.last] {
            let end = Span { first: va, last: va };
            surveyor.add(editor, &editor.deepest(editor.root(), end), (span, end))?;
        }
        if surveyor.found().splits() {
            Cuts::at_ends(editor, (change, later, span), surveyor.found().resizes, None)?;
            editor.publish_barrier();
        }
        Ok(())
    })
}
