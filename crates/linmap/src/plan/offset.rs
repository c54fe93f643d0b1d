//! The offset of the linear map, chosen or given, and the physical memory that the map then reaches. Pure.

use core::ops::Range;

use crate::format::{Geometry, Half, LeafSizes, Level, Pa, Va};
use crate::plan::ranges::{down, dropped_bytes, up};

/// Returns the first and the last address of the linear map: the lower part of the upper half.
pub const fn linear_range(geometry: Geometry) -> (Va, Va) {
    let start = geometry.base(Half::Upper);
    (Va(start), Va(start + (1 << (geometry.va_bits() - 1)) - 1))
}

/// Chooses the offset. Returns it with the physical range that the linear map then reaches.
///
/// Among the offsets that map the first RAM it takes one that drops the fewest bytes, to within an L2 block, and among
/// those the one that permits the largest leaf.
pub(super) fn chosen((g, sizes): (Geometry, &LeafSizes), ram: &[Range<Pa>], first: Pa) -> (u64, Range<Pa>) {
    let (start, last) = linear_range(g);
    let reach = last.0 - start.0 + 1;
    let oa_end = 1u64 << g.oa_bits();
    let window = |leaf: u64| {
        let base = down(first, leaf).0;
        Pa(base)..Pa(base.saturating_add(reach).min(oa_end).max(base))
    };
    let fits = |leaf: u64| ram.iter().any(|r| up(r.start, leaf).0.saturating_add(leaf) <= r.end.0);
    let page = g.page_size();
    let mut usable =
        sizes.iter().map(|s| s.bytes_of_known()).filter(|&l| l <= reach && (l == page || fits(l)));
    let dropped = |leaf: u64| dropped_bytes(ram, &window(leaf));
    // A map that starts at the first page reaches furthest.
    let fewest = dropped(page);
    let block = g.level_size(Level::new(2));
    let leaf = usable.find(|&l| dropped(l).saturating_sub(fewest) < block).unwrap_or(page);
    let mapped = window(leaf);
    (g.base(Half::Upper).wrapping_sub(mapped.start.0), mapped)
}

/// Returns the physical range that the whole upper half reaches with a given offset.
pub(super) fn given(g: Geometry, offset: u64) -> Range<Pa> {
    let (base, oa_end) = (g.base(Half::Upper), 1u64 << g.oa_bits());
    // Physical address 0, relative to the base of the half: below it if negative.
    let zero = offset.wrapping_sub(base).cast_signed();
    let size = 1u64 << g.va_bits();
    let start = zero.min(0).unsigned_abs();
    let end = size.saturating_add_signed(zero.saturating_neg()).min(oa_end);
    Pa(start.min(end))..Pa(end)
}
