//! Ranges of physical memory: their lengths, their ends at boundaries, and what of one is in another. Pure.

use core::ops::Range;

use crate::format::Pa;

/// The length of a range.
pub(super) fn bytes(range: &Range<Pa>) -> u64 {
    range.end.0.saturating_sub(range.start.0)
}

/// To the boundary before.
pub(super) fn down(pa: Pa, size: u64) -> Pa {
    Pa(pa.0 & !(size - 1))
}

/// To the next boundary, or to the last one that there is.
pub(super) fn up(pa: Pa, size: u64) -> Pa {
    down(Pa(pa.0.saturating_add(size - 1)), size)
}

/// The part of a range that is in another.
pub(super) fn clip(range: &Range<Pa>, to: &Range<Pa>) -> Range<Pa> {
    let start = range.start.max(to.start);
    start..range.end.min(to.end).max(start)
}

/// The bytes of `ram` outside `mapped`.
pub(super) fn dropped_bytes(ram: &[Range<Pa>], mapped: &Range<Pa>) -> u64 {
    ram.iter().map(|r| bytes(r) - bytes(&clip(r, mapped))).sum()
}
