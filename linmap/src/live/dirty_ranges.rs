//! The ranges that a repaint has copied and that have changed since.
//!
//! Read and written under the lock on live tables only, so plain loads and stores suffice.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::format::Span;

/// The progress of a repaint, and the copied ranges that operations have changed since.
#[derive(Debug)]
pub(crate) struct DirtyRanges {
    under_way: AtomicBool,
    /// The copied range. If nothing has been copied, the last address is 0 and the first is after it.
    first: AtomicU64,
    last: AtomicU64,
    /// The ranges that have changed since.
    ranges: [Range; Self::RANGES],
    used: AtomicUsize,
}

#[derive(Debug)]
struct Range {
    first: AtomicU64,
    last: AtomicU64,
}

impl Range {
    fn get(&self) -> Span {
        Span { first: self.first.load(Relaxed), last: self.last.load(Relaxed) }
    }

    fn set(&self, span: Span) {
        self.first.store(span.first, Relaxed);
        self.last.store(span.last, Relaxed);
    }
}

impl DirtyRanges {
    /// If there are more, ranges are joined, and the addresses between them are copied again, too.
    const RANGES: usize = 32;

    /// Returns the state without a repaint.
    pub(crate) const fn new() -> Self {
        Self {
            under_way: AtomicBool::new(false),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            ranges: [const { Range { first: AtomicU64::new(0), last: AtomicU64::new(0) } }; Self::RANGES],
            used: AtomicUsize::new(0),
        }
    }

    /// Begins a repaint. Returns false if one is already under way.
    pub(crate) fn begin(&self) -> bool {
        !self.under_way.swap(true, Relaxed)
    }

    /// Ends the repaint.
    pub(crate) fn end(&self) {
        self.forget();
        self.under_way.store(false, Relaxed);
    }

    /// Clears all ranges; nothing has to be marked any more.
    pub(crate) fn forget(&self) {
        self.first.store(u64::MAX, Relaxed);
        self.last.store(0, Relaxed);
        self.used.store(0, Relaxed);
    }

    /// Records that a range has been copied.
    pub(crate) fn copied(&self, span: Span) {
        self.first.store(span.first, Relaxed);
        self.last.store(span.last, Relaxed);
    }

    /// Marks a span whose translations change now or later in the same hold of the lock. Without a repaint this costs a
    /// load and a branch.
    #[inline(always)]
    pub(crate) fn mark(&self, span: Span) {
        if span.first <= self.last.load(Relaxed) {
            self.mark_copied(span);
        }
    }

    #[cold]
    fn mark_copied(&self, span: Span) {
        let first = span.first.max(self.first.load(Relaxed));
        let last = span.last.min(self.last.load(Relaxed));
        if first <= last {
            self.add(Span { first, last });
        }
    }

    /// Adds a range to copy again. If there is no room, it is joined with the nearest one.
    pub(crate) fn add(&self, new: Span) {
        let used = self.used.load(Relaxed);
        let apart = |old: Span| new.first.saturating_sub(old.last).max(old.first.saturating_sub(new.last));
        let nearest = self.ranges[..used].iter().min_by_key(|s| apart(s.get()));
        match nearest {
            Some(near) if apart(near.get()) <= 1 || used == Self::RANGES => {
                let old = near.get();
                near.set(Span { first: old.first.min(new.first), last: old.last.max(new.last) });
            }
            _ => {
                self.ranges[used].set(new);
                self.used.store(used + 1, Relaxed);
            }
        }
    }

    /// Removes and returns a range that has to be copied again.
    pub(crate) fn take(&self) -> Option<Span> {
        let last = self.used.load(Relaxed).checked_sub(1)?;
        self.used.store(last, Relaxed);
        Some(self.ranges[last].get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn all(dirty: &DirtyRanges) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = core::iter::from_fn(|| dirty.take()).map(|s| (s.first, s.last)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn what_was_copied_and_changes_is_marked_and_joined() {
        let dirty = DirtyRanges::new();
        dirty.mark(Span { first: 0, last: u64::MAX });
        assert_eq!(all(&dirty), []);
        assert!(dirty.begin() && !dirty.begin());
        dirty.mark(Span { first: 0, last: 0xfff });
        dirty.copied(Span { first: 0x1000, last: 0x8fff });
        for (first, last) in
            [(0, 0x1fff), (0x3000, 0x3fff), (0x2000, 0x2fff), (0x8000, 0xffff), (0x9000, 0x9fff)]
        {
            dirty.mark(Span { first, last });
        }
        let found = all(&dirty);
        assert_eq!(found.last(), Some(&(0x8000, 0x8fff)));
        assert!(
            found.iter().all(|s| s.0 >= 0x1000)
                && found.iter().any(|s| *s == (0x1000, 0x3fff) || s.1 == 0x3fff)
        );
        dirty.copied(Span { first: 0, last: u64::MAX });
        // The last range exceeds the room, and is joined with its nearest.
        for n in 0..=DirtyRanges::RANGES as u64 {
            dirty.mark(Span { first: (n * n) << 20, last: ((n * n) << 20) + 1 });
        }
        let found = all(&dirty);
        assert_eq!(found.len(), DirtyRanges::RANGES);
        assert_eq!(found[DirtyRanges::RANGES - 1], (961 << 20, (1024 << 20) + 1));
        dirty.end();
        assert!(dirty.begin());
        dirty.mark(Span { first: 0x1000, last: 0x1fff });
        assert_eq!(all(&dirty), []);
    }
}
