//! The addresses that a repaint under way copies, and words for what it has to copy again.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::format::Span;

/// The range that a repaint copies.
///
/// It is set before the repaint takes and drops every lock for the first time. So every change after that sees it.
#[derive(Debug)]
pub(crate) struct Copied {
    first: AtomicU64,
    last: AtomicU64,
}

impl Copied {
    /// Returns the state without a repaint: no range ends at address 0.
    pub(crate) const fn none() -> Self {
        Self { first: AtomicU64::new(0), last: AtomicU64::new(0) }
    }

    /// Sets the range.
    pub(crate) fn set(&self, span: Span) {
        self.first.store(span.first, Relaxed);
        self.last.store(span.last, Relaxed);
    }

    /// Forgets the range: nothing has to be marked any more.
    pub(crate) fn forget(&self) {
        self.last.store(0, Relaxed);
    }

    /// Returns the part of a span that is in the range.
    pub(crate) fn part_of(&self, span: Span) -> Option<Span> {
        let (first, last) = (self.first.load(Relaxed), self.last.load(Relaxed));
        let part = Span { first: span.first.max(first), last: span.last.min(last) };
        (last != 0 && part.first <= part.last).then_some(part)
    }
}

/// Words with marks of what a repaint has to copy again, as many as a map with few locks has. One with more has the others in its shares.
#[derive(Debug)]
pub(crate) struct Marks([AtomicU64; Self::FEW]);

impl Marks {
    /// The number of these words.
    pub(crate) const FEW: usize = 32;

    pub(crate) const fn none() -> Self {
        Self([const { AtomicU64::new(0) }; Self::FEW])
    }

    pub(crate) fn get(&self, number: usize) -> Option<&AtomicU64> {
        self.0.get(number)
    }
}
