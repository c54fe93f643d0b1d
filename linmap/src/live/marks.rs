//! The parts of the map that have changed since a repaint copied them: a bit for each 64th of a gigabyte.
//!
//! The marks of a gigabyte are stored by the holder of its lock only. Gigabytes whose numbers differ by a multiple of 64
//! share their bits, so each of them is copied again.

use core::sync::atomic::Ordering::Relaxed;

use crate::format::Span;
use crate::live::lock_set::GIGABYTE;
use crate::live::map_state::MapState;
use crate::platform::{Hardware, with_locks};

/// The number of words with marks: one for each share.
pub(crate) const WORDS: usize = 64;

/// log2 of the bytes of a part: 16 MB.
const PART: u32 = GIGABYTE - 6;

/// Marks all parts of a span that have been copied. The caller holds the locks of all of it.
#[cold]
pub(crate) fn mark(state: &MapState, span: Span) {
    let Some(span) = state.copied.part_of(span) else { return };
    let (first, last) = (span.first >> GIGABYTE, span.last >> GIGABYTE);
    // After 64 gigabytes all shares have been seen.
    for gigabyte in first..=last.min(first + 63) {
        let part = |va: u64| va >> PART & 63;
        let from = if gigabyte == first { part(span.first) } else { 0 };
        let to = if gigabyte == last { part(span.last) } else { 63 };
        let bits = u64::MAX >> (63 - to) & u64::MAX << from;
        // The bits of whole gigabytes in between, where the first of 64 comes around again, are all set.
        let bits = if last - first >= 64 { u64::MAX } else { bits };
        let marks = &state.share(gigabyte as usize & 63).marks;
        marks.store(marks.load(Relaxed) | bits, Relaxed);
    }
}

/// Returns true if a word has marks. If the caller does not hold its lock, others may change that at once.
pub(crate) fn has_marks(state: &MapState, word: usize) -> bool {
    state.share(word).marks.load(Relaxed) != 0
}

/// Clears all marks, lock by lock. On return, whoever was in a hold when it was called has left it.
pub(crate) fn clear<H: Hardware>(state: &MapState, hardware: &H) {
    for lock in 0..H::LOCKS {
        with_locks(hardware, 1 << lock, || {
            (lock..WORDS).step_by(H::LOCKS).for_each(|word| state.share(word).marks.store(0, Relaxed));
        });
    }
}

/// The marked parts of a word in all gigabytes of a range, from one address on.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    word: usize,
    bits: u64,
    /// The first address that is not done with.
    pub(crate) from: u64,
}

impl Parts {
    /// Takes the marks of a word. The caller holds its lock.
    pub(crate) fn take(state: &MapState, word: usize, from: u64) -> Self {
        let marks = &state.share(word).marks;
        let bits = marks.load(Relaxed);
        marks.store(0, Relaxed);
        Self { word, bits, from }
    }

    /// Returns the next adjacent parts, as far as they are in a range.
    pub(crate) fn next(&self, range: Span) -> Option<Span> {
        let mut from = self.from;
        loop {
            let ahead = (self.word as u64).wrapping_sub(from >> GIGABYTE) % WORDS as u64;
            if ahead != 0 {
                from = ((from >> GIGABYTE) + ahead).checked_mul(1 << GIGABYTE)?;
            }
            if self.bits == 0 || from > range.last {
                return None;
            }
            let base = from & (u64::MAX << GIGABYTE);
            let left = self.bits & u64::MAX << (from >> PART & 63);
            if left != 0 {
                let start = left.trailing_zeros();
                let parts = (left >> start).trailing_ones();
                let first = base + (u64::from(start) << PART);
                let last = first + ((u64::from(parts) << PART) - 1);
                return Some(Span { first: first.max(from), last: last.min(range.last) });
            }
            from = base.checked_add(1 << GIGABYTE)?;
        }
    }
}
