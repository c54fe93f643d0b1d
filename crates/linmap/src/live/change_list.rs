//! Changes pages that are listed one by one, in any order. Pages that follow each other in the list are one range.

use crate::format::{LeafChange, Span, Va};
use crate::live::attempt::Call;
use crate::live::driver::Spans;
use crate::live::error::ChangeError;
use crate::live::in_place::InPlaceChange;
use crate::live::map_state::MapState;
use crate::live::protect::protect;
use crate::platform::Platform;

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
pub(crate) fn change_ranges<P: Platform, I: Iterator<Item = Va> + Clone>(
    state: &MapState,
    platform: &P,
    ranges: Ranges<I>,
    (change, later): (LeafChange, bool),
) -> Result<(), ChangeError> {
    let mut listed = 0;
    for span in ranges.clone() {
        let pages = span.last.wrapping_sub(span.first).wrapping_add(1) >> state.geometry().page_shift();
        state.span(Va(span.first), pages)?;
        listed += pages;
    }
    let Some(spans) = Spans::of::<P>(ranges, listed) else { return Ok(()) };
    match spans.only() {
        Some(span) => protect(state, platform, (change, later, span)),
        None => change_spans(state, platform, &spans, (change, later)),
    }
}

/// Changes several spans. One has no use for the stack that this takes.
#[inline(never)]
fn change_spans<P: Platform>(
    state: &MapState,
    platform: &P,
    spans: &Spans<impl Iterator<Item = Span> + Clone>,
    (change, later): (LeafChange, bool),
) -> Result<(), ChangeError> {
    spans.run(&mut Call::of(state, platform, later), &mut InPlaceChange::new(change, later))
}
