//! Ranges of physical memory: lengths, alignment of the ends, intersections. Pure.

use core::ops::Range;

use crate::format::Pa;

/// Returns the length of a range in bytes.
pub(super) fn bytes(range: &Range<Pa>) -> u64 {
    range.end.0.saturating_sub(range.start.0)
}

/// Rounds down to a multiple of `size`.
pub(super) fn down(pa: Pa, size: u64) -> Pa {
    Pa(pa.0 & !(size - 1))
}

/// Rounds up to a multiple of `size`, or down to the highest one if there is none above.
pub(super) fn up(pa: Pa, size: u64) -> Pa {
    down(Pa(pa.0.saturating_add(size - 1)), size)
}

/// Returns the intersection of two ranges.
pub(super) fn clip(range: &Range<Pa>, to: &Range<Pa>) -> Range<Pa> {
    let start = range.start.max(to.start);
    start..range.end.min(to.end).max(start)
}

/// Returns the first range that ends after `pa`, of ranges in order that do not overlap.
pub(super) fn first_after(ranges: &[Range<Pa>], pa: Pa) -> Option<&Range<Pa>> {
    ranges.get(ranges.partition_point(|r| r.end <= pa))
}

/// Returns the bytes of `ram` outside `mapped`.
pub(super) fn dropped_bytes(ram: &[Range<Pa>], mapped: &Range<Pa>) -> u64 {
    ram.iter().map(|r| bytes(r) - bytes(&clip(r, mapped))).sum()
}
