//! Where the linear map is: its offset, chosen or given, and the physical memory that it reaches then. Pure.

use core::ops::Range;

use crate::format::{Geometry, Half, Level, Pa, Va};
use crate::plan::ranges::{down, dropped_bytes, up};

/// The first and last address of the linear map: the lower part of the upper half.
pub const fn linear_range(geometry: Geometry) -> (Va, Va) {
    let start = geometry.base(Half::Upper);
    (Va(start), Va(start + (1 << (geometry.va_bits() - 1)) - 1))
}

/// The offset and the physical range that the linear half then reaches.
///
/// Of the offsets at which the first RAM is mapped, one that drops the fewest bytes, to within an L2
/// block; among those, the one that keeps the largest leaf.
pub(super) fn chosen(g: Geometry, ram: &[Range<Pa>], first: Pa) -> (u64, Range<Pa>) {
    let (start, last) = linear_range(g);
    let reach = last.0 - start.0 + 1;
    let oa_end = 1u64 << g.oa_bits();
    let window = |leaf: u64| {
        let base = down(first, leaf).0;
        Pa(base)..Pa(base.saturating_add(reach).min(oa_end).max(base))
    };
    let fits = |leaf: u64| ram.iter().any(|r| up(r.start, leaf).0.saturating_add(leaf) <= r.end.0);
    let (page, sizes) = (g.page_size(), g.leaf_sizes());
    let mut usable =
        sizes.iter().map(|s| s.bytes_of_known()).filter(|&l| l <= reach && (l == page || fits(l)));
    let dropped = |leaf: u64| dropped_bytes(ram, &window(leaf));
    // From the first page the half reaches furthest.
    let fewest = dropped(page);
    let block = g.level_size(Level::new(2));
    let leaf = usable.find(|&l| dropped(l).saturating_sub(fewest) < block).unwrap_or(page);
    let mapped = window(leaf);
    (g.base(Half::Upper).wrapping_sub(mapped.start.0), mapped)
}

/// The physical range that the upper half reaches with a given offset, all of the half.
pub(super) fn given(g: Geometry, offset: u64) -> Range<Pa> {
    let (base, oa_end) = (g.base(Half::Upper), 1u64 << g.oa_bits());
    // The address 0, from the base of the half on; before it if that is negative.
    let zero = offset.wrapping_sub(base).cast_signed();
    let size = 1u64 << g.va_bits();
    let start = zero.min(0).unsigned_abs();
    let end = size.saturating_add_signed(zero.saturating_neg()).min(oa_end);
    Pa(start.min(end))..Pa(end)
}
