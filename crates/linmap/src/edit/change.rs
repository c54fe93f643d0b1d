//! Changes the permissions or the validity of a range, or of pages that are listed one by one, whatever their leaves.
//!
//! Most changes are of one leaf, or of a page of one (`one_leaf.rs`). Any other range is one span for the driver (`driver.rs`). In a list,
//! pages that follow each other are one range.

use crate::edit::call::Call;
use crate::edit::caller::Caller;
use crate::edit::driver::Spans;
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::in_place::InPlaceChange;
use crate::edit::one_leaf::{Wanted, in_one_hold};
use crate::format::{LeafChange, Span, Va};

/// Changes all leaves of a span, or none.
///
/// # Errors
///
/// The survey's errors; out of frames; a change of size that the policy or the CPUs do not permit; a claim in the way.
#[inline(always)]
pub(crate) fn protect<G: Guard>(caller: Caller<'_, G>, wanted: Wanted) -> Result<(), ChangeError> {
    if in_one_hold(caller, &wanted)? { Ok(()) } else { leaves(caller, wanted) }
}

/// Changes the leaves of a span by the driver.
#[inline(never)]
fn leaves<G: Guard>(caller: Caller<'_, G>, (change, later, span): Wanted) -> Result<(), ChangeError> {
    Spans::one::<G>(span).run(&mut Call::of(caller, later), &mut InPlaceChange::new(change, later))
}

/// The ranges of a list of pages: each as long as pages follow each other.
#[derive(Clone)]
pub(crate) struct Ranges<I> {
    /// The bytes of a page.
    page: u64,
    pages: I,
    /// The page after the last range, if it is known.
    next: Option<Va>,
}

impl<I: Iterator<Item = Va> + Clone> Ranges<I> {
    pub(crate) const fn of(page: u64, pages: I) -> Self {
        Self { page, pages, next: None }
    }
}

impl<I: Iterator<Item = Va> + Clone> Iterator for Ranges<I> {
    /// A page that is unaligned or outside the half is first in its range, or the range ends outside the half.
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        let first = self.next.take().or_else(|| self.pages.next())?.0;
        let page = self.page;
        let mut end = first.wrapping_add(page);
        for va in self.pages.by_ref() {
            if va.0 != end {
                self.next = Some(va);
                break;
            }
            end = end.wrapping_add(page);
        }
        Some(Span { first, last: end.wrapping_sub(1) })
    }
}

/// Changes all leaves of some ranges of pages, or none.
///
/// # Errors
///
/// A page is unaligned or outside the half; as for a change of one range.
#[inline(never)]
pub(crate) fn change_ranges<G: Guard, I: Iterator<Item = Va> + Clone>(
    caller: Caller<'_, G>,
    ranges: Ranges<I>,
    (change, later): (LeafChange, bool),
) -> Result<(), ChangeError> {
    let mut listed = 0;
    for span in ranges.clone() {
        let pages =
            span.last.wrapping_sub(span.first).wrapping_add(1) >> caller.tables().geometry().page_shift();
        caller.tables().span(Va(span.first), pages)?;
        listed += pages;
    }
    let Some(spans) = Spans::of::<G>(ranges, listed) else { return Ok(()) };
    match spans.only() {
        Some(span) => protect(caller, (change, later, span)),
        None => change_spans(caller, &spans, (change, later)),
    }
}

/// Changes several spans. One has no use for the stack that this takes.
#[inline(never)]
fn change_spans<G: Guard>(
    caller: Caller<'_, G>,
    spans: &Spans<impl Iterator<Item = Span> + Clone>,
    (change, later): (LeafChange, bool),
) -> Result<(), ChangeError> {
    spans.run(&mut Call::of(caller, later), &mut InPlaceChange::new(change, later))
}
