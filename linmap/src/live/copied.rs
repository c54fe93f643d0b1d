//! The addresses that a repaint has copied so far.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::format::Span;

/// The addresses that a repaint has copied: those from the start of its range on to some address.
///
/// It grows in holds of a lock of each address that is added. So whoever changes an address in a hold of its locks sees
/// whether it has been copied.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Copied {
    first: AtomicU64,
    last: AtomicU64,
}

impl Copied {
    /// Returns the state in which nothing has been copied.
    pub(crate) const fn none() -> Self {
        Self { first: AtomicU64::new(u64::MAX), last: AtomicU64::new(0) }
    }

    /// Notes that a span has been copied, which contains all that was copied before.
    pub(crate) fn set(&self, span: Span) {
        self.first.store(span.first, Relaxed);
        self.last.store(span.last, Relaxed);
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        self.set(Span { first: u64::MAX, last: 0 });
    }

    /// Returns the part of a span that has been copied.
    pub(crate) fn part_of(&self, span: Span) -> Option<Span> {
        let (first, last) = (self.first.load(Relaxed), self.last.load(Relaxed));
        let part = Span { first: span.first.max(first), last: span.last.min(last) };
        (part.first <= part.last).then_some(part)
    }
}
