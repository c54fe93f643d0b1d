//! Turns regions into runs of leaves, without touching a table.
//!
//! Every aligned piece takes the largest leaf that the geometry allows. Leaf sizes divide each other, so this greedy
//! choice has the fewest TLB entries and the fewest table pages.

use core::borrow::Borrow;
use core::ops::Range;

use crate::format::{Attributes, Geometry, Leaf, LeafSize, LeafSizes, Level, Pa, Va};

/// The leaf sizes that a range may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// The largest that fit, including contiguous runs.
    Largest,
    /// Pages that are not in contiguous runs: each can change without a change of size.
    Pages,
}

/// A range with one set of attributes, mapped linearly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The first address.
    pub va: Va,
    /// The physical address to which the first address is mapped.
    pub oa: Pa,
    /// The length in bytes, a multiple of the page size.
    pub bytes: u64,
    /// The attributes of every leaf.
    pub attributes: Attributes,
    /// The leaf sizes that it may use.
    pub leaves: Leaves,
}

/// Adjacent leaves that differ in their addresses only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first address, aligned to the size of an entry at its level.
    pub va: Va,
    /// The physical address of the first leaf, with the same alignment.
    pub oa: Pa,
    /// The level of the descriptors.
    pub level: Level,
    /// True if they are members of contiguous runs, which are then complete.
    pub contiguous: bool,
    /// The number of descriptors, at least 1.
    pub descriptors: u64,
    /// The attributes of each descriptor.
    pub attributes: Attributes,
}

impl Run {
    /// Returns `leaves` leaves of one size that map addresses from `va` on to memory from `oa` on. A contiguous run
    /// counts as one leaf.
    ///
    /// ```
    /// use linmap::layout::Run;
    /// use linmap::{Attributes, Geometry, Granule, OaFormat, Pa, Region, Va};
    ///
    /// let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
    /// let blocks = geometry.leaf_sizes().iter().copied().find(|size| size.bytes() == 2 << 20);
    /// let (va, oa) = (Va(0xffff_0000_0000_0000), Pa(0x4000_0000));
    /// let run = Run::new(va, oa, blocks.unwrap(), 4, Attributes::RAM);
    /// assert!(Region::new(va, oa, 8 << 20, Attributes::RAM).runs(geometry).eq([run]));
    /// # Ok::<(), linmap::error::GeometryError>(())
    /// ```
    pub const fn new(va: Va, oa: Pa, size: LeafSize, leaves: u64, attributes: Attributes) -> Self {
        let descriptors = leaves.saturating_mul(size.descriptors());
        Self { va, oa, level: size.level, contiguous: size.contiguous, descriptors, attributes }
    }

    /// Returns the first of its leaves.
    pub const fn first_leaf(&self) -> Leaf {
        Leaf { oa: self.oa, attributes: self.attributes, contiguous: self.contiguous, valid: true }
    }
}

impl Region {
    /// Returns a region that is mapped in the largest leaves.
    pub const fn new(va: Va, oa: Pa, bytes: u64, attributes: Attributes) -> Self {
        Self { va, oa, bytes, attributes, leaves: Leaves::Largest }
    }

    /// Returns a region that maps physical memory to equal virtual addresses, in the largest leaves.
    pub const fn identity(range: Range<Pa>, attributes: Attributes) -> Self {
        Self::new(Va(range.start.0), range.start, range.end.0.saturating_sub(range.start.0), attributes)
    }

    /// Returns this region with leaves that stay pages if it is to be in pages.
    pub(crate) const fn that_stays(self) -> Self {
        let stays = match self.leaves {
            Leaves::Pages => Attributes::STAYS_SPLIT,
            Leaves::Largest => Attributes::empty(),
        };
        Self { attributes: self.attributes.union(stays), ..self }
    }

    /// Returns the leaves of this region in address order, as runs of equal leaves.
    ///
    /// Addresses and length should be multiples of the page size. A region that does not start at a page has no leaves,
    /// and a partial page at the end is cut off, as is everything beyond the last address.
    pub fn runs(self, geometry: Geometry) -> impl Iterator<Item = Run> {
        self.up_to_last_address().runs_of(geometry.new_leaf_sizes())
    }

    /// Returns the part of this region that does not extend beyond the last address.
    pub(crate) fn up_to_last_address(self) -> Self {
        // The largest number of bytes that can follow the first byte.
        let behind = u64::MAX - self.va.0.max(self.oa.0);
        Self { bytes: if self.bytes > behind { behind.saturating_add(1) } else { self.bytes }, ..self }
    }

    /// Returns the runs for known leaf sizes. The region must not extend beyond the last address.
    pub(crate) fn runs_of(mut self, sizes: impl Borrow<LeafSizes>) -> impl Iterator<Item = Run> {
        core::iter::from_fn(move || self.take_run(sizes.borrow()))
    }

    /// Removes the first run for known leaf sizes from the region, which must not extend beyond the last address.
    #[inline]
    fn take_run(&mut self, sizes: &[LeafSize]) -> Option<Run> {
        let (size, bytes) = self.next_piece(sizes)?;
        let run = Run {
            va: self.va,
            oa: self.oa,
            level: size.level,
            contiguous: size.contiguous,
            descriptors: bytes >> size.entry_shift,
            attributes: self.attributes,
        };
        self.va.0 = self.va.0.wrapping_add(bytes);
        self.oa.0 = self.oa.0.wrapping_add(bytes);
        self.bytes -= bytes;
        Some(run)
    }

    /// Returns the size of the first leaf, and the number of bytes up to which no larger size fits.
    fn next_piece<'s>(&self, sizes: &'s [LeafSize]) -> Option<(&'s LeafSize, u64)> {
        if self.bytes == 0 {
            return None;
        }
        let sizes = match self.leaves {
            Leaves::Largest => sizes,
            Leaves::Pages => &sizes[sizes.len().saturating_sub(1)..],
        };
        let skew = self.va.0 ^ self.oa.0;
        // The place where a larger leaf fits, or the end of the region.
        let mut limit = self.bytes;
        for size in sizes {
            let below = size.bytes_of_known() - 1;
            if size.bytes_of_known() > limit || skew & below != 0 {
                continue;
            }
            let to_start = self.oa.0.wrapping_neg() & below;
            if to_start == 0 {
                return Some((size, limit & !below));
            }
            if to_start <= limit - size.bytes_of_known() {
                limit = to_start;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Granule, OaFormat};
    extern crate std;
    use std::vec::Vec;

    fn pieces(g: Geometry, pa: u64, bytes: u64, leaves: Leaves) -> Vec<(i8, bool, u64)> {
        let region = Region { va: Va(pa), oa: Pa(pa), bytes, attributes: Attributes::RAM, leaves };
        region.runs(g).map(|r| (r.level.number(), r.contiguous, r.descriptors)).collect()
    }

    #[test]
    fn sizes_rise_and_fall_with_alignment() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        assert_eq!(
            pieces(g, 0x4000_0000 - 0x21_1000, 0x4000_0000 + 0x21_1000 + 0x1000, Leaves::Largest),
            [(3, false, 1), (3, true, 16), (2, false, 1), (1, false, 1), (3, false, 1)]
        );
        assert_eq!(pieces(g, 0x4000_0000, 0x20_0000, Leaves::Pages), [(3, false, 512)]);
        assert_eq!(pieces(g, 0x4_0000_0000, 0x4_4000_0000, Leaves::Largest), [(1, true, 16), (1, false, 1)]);
        assert_eq!(pieces(g, 0x4000_0000, 0, Leaves::Largest), []);
    }

    /// A block could begin at 2M and would not end within the region: runs go on there.
    #[test]
    fn a_run_ends_only_where_a_larger_leaf_fits() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        assert_eq!(pieces(g, 0x4010_0000, 0x2f_0000, Leaves::Largest), [(3, true, 0x2f0)]);
        let with_block = [(3, true, 0x100), (2, false, 1)];
        assert_eq!(pieces(g, 0x4010_0000, 0x30_0000, Leaves::Largest), with_block);
    }

    #[test]
    fn a_skew_rules_out_what_it_breaks() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        let region = Region {
            va: Va(0x20_0000),
            oa: Pa(0x21_0000),
            bytes: 0x20_0000,
            attributes: Attributes::RAM,
            leaves: Leaves::Largest,
        };
        let runs: Vec<_> = region.runs(g).collect();
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].level, runs[0].contiguous, runs[0].descriptors), (Level::PAGE, true, 512));
    }
}
