//! How far a repaint has come, and what has changed since where it had been.
//!
//! Read and written under the lock on live tables alone, so that plain loads and stores do.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::format::Span;

/// What the operations on a map tell a repaint.
#[derive(Debug)]
pub(crate) struct Noted {
    under_way: AtomicBool,
    /// What has been copied. If nothing has, the last address is 0 and the first is behind it.
    first: AtomicU64,
    last: AtomicU64,
    /// What has changed since.
    stretches: [Stretch; Self::STRETCHES],
    used: AtomicUsize,
}

#[derive(Debug)]
struct Stretch {
    first: AtomicU64,
    last: AtomicU64,
}

impl Stretch {
    fn get(&self) -> Span {
        Span { first: self.first.load(Relaxed), last: self.last.load(Relaxed) }
    }

    fn set(&self, span: Span) {
        self.first.store(span.first, Relaxed);
        self.last.store(span.last, Relaxed);
    }
}

impl Noted {
    /// More are joined: what lies between two of them is copied with them.
    const STRETCHES: usize = 32;

    /// No repaint is under way.
    pub(crate) const fn new() -> Self {
        Self {
            under_way: AtomicBool::new(false),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            stretches: [const { Stretch { first: AtomicU64::new(0), last: AtomicU64::new(0) } };
                Self::STRETCHES],
            used: AtomicUsize::new(0),
        }
    }

    /// A repaint begins, unless one is under way.
    pub(crate) fn begin(&self) -> bool {
        !self.under_way.swap(true, Relaxed)
    }

    /// It has returned.
    pub(crate) fn end(&self) {
        self.forget();
        self.under_way.store(false, Relaxed);
    }

    /// Nothing has to be noted any more.
    pub(crate) fn forget(&self) {
        self.first.store(u64::MAX, Relaxed);
        self.last.store(0, Relaxed);
        self.used.store(0, Relaxed);
    }

    /// This has been copied.
    pub(crate) fn copied(&self, span: Span) {
        self.first.store(span.first, Relaxed);
        self.last.store(span.last, Relaxed);
    }

    /// Translations of a span change, or will in the same hold of the lock. Where nothing is under way that
    /// is a load and a branch.
    #[inline(always)]
    pub(crate) fn changes(&self, span: Span) {
        if span.first <= self.last.load(Relaxed) {
            self.note(span);
        }
    }

    #[cold]
    fn note(&self, span: Span) {
        let first = span.first.max(self.first.load(Relaxed));
        let last = span.last.min(self.last.load(Relaxed));
        if first <= last && !broken!(ChangeForgotten) {
            self.add(Span { first, last });
        }
    }

    /// Adds what has to be copied again, joined to the nearest where there is no room.
    pub(crate) fn add(&self, new: Span) {
        let used = self.used.load(Relaxed);
        let apart = |old: Span| new.first.saturating_sub(old.last).max(old.first.saturating_sub(new.last));
        let nearest = self.stretches[..used].iter().min_by_key(|s| apart(s.get()));
        match nearest {
            Some(near) if apart(near.get()) <= 1 || used == Self::STRETCHES => {
                let old = near.get();
                near.set(Span { first: old.first.min(new.first), last: old.last.max(new.last) });
            }
            _ => {
                self.stretches[used].set(new);
                self.used.store(used + 1, Relaxed);
            }
        }
    }

    /// Takes out one of the stretches that have to be copied again.
    pub(crate) fn take(&self) -> Option<Span> {
        let last = self.used.load(Relaxed).checked_sub(1)?;
        self.used.store(last, Relaxed);
        Some(self.stretches[last].get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn all(noted: &Noted) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = core::iter::from_fn(|| noted.take()).map(|s| (s.first, s.last)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn what_has_been_copied_is_noted_and_joined() {
        let noted = Noted::new();
        noted.changes(Span { first: 0, last: u64::MAX });
        assert_eq!(all(&noted), []);
        assert!(noted.begin() && !noted.begin());
        noted.changes(Span { first: 0, last: 0xfff });
        noted.copied(Span { first: 0x1000, last: 0x8fff });
        for (first, last) in
            [(0, 0x1fff), (0x3000, 0x3fff), (0x2000, 0x2fff), (0x8000, 0xffff), (0x9000, 0x9fff)]
        {
            noted.changes(Span { first, last });
        }
        let found = all(&noted);
        assert_eq!(found.last(), Some(&(0x8000, 0x8fff)));
        assert!(
            found.iter().all(|s| s.0 >= 0x1000)
                && found.iter().any(|s| *s == (0x1000, 0x3fff) || s.1 == 0x3fff)
        );
        noted.copied(Span { first: 0, last: u64::MAX });
        // One too many goes to its nearest.
        for n in 0..=Noted::STRETCHES as u64 {
            noted.changes(Span { first: (n * n) << 20, last: ((n * n) << 20) + 1 });
        }
        let found = all(&noted);
        assert_eq!(found.len(), Noted::STRETCHES);
        assert_eq!(found[Noted::STRETCHES - 1], (961 << 20, (1024 << 20) + 1));
        noted.end();
        assert!(noted.begin());
        noted.changes(Span { first: 0x1000, last: 0x1fff });
        assert_eq!(all(&noted), []);
    }
}
