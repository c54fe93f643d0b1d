//! A linear map as a TLB sees it: for each address the sizes of the entries that translate it, and the depth of the walk.
//!
//! Addresses count from the start of the linear map.

use linmap::arch::Level;
use linmap::layout::{Run, linear_range};
use linmap::{Geometry, Layout, Leaves};

use crate::cpu_core::Core;

/// A linear map as the TLBs of a core hold it.
pub struct Translation {
    /// By address, without overlaps.
    extents: Vec<Extent>,
    /// log2 of the bytes that a table entry of each level maps, the root's first.
    pub(crate) level_shifts: Vec<u32>,
    /// The extent of the last address.
    last: usize,
}

/// A range of addresses with entries of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    start: u64,
    end: u64,
    /// log2 of the bytes that an entry of the first level covers.
    pub(crate) l1_shift: u32,
    /// log2 of the bytes that an entry of the second level covers.
    pub(crate) l2_shift: u32,
    /// The number of tables above the leaf's own.
    pub(crate) tables: usize,
}

impl Translation {
    /// Returns the linear map of a layout, in pages or in the largest leaves, as this core holds it.
    pub fn new(core: &Core, layout: &Layout<'_>, leaves: Leaves) -> Self {
        let g = layout.geometry();
        let (first, _) = linear_range(g);
        let mut extents = Vec::new();
        for run in layout.runs(leaves) {
            add(core, g, &run, run.va.0 - first.0, &mut extents);
        }
        let mut level = g.root();
        let mut level_shifts = vec![g.level_shift(level)];
        while level < Level::PAGE {
            level = level.next();
            level_shifts.push(g.level_shift(level));
        }
        Self { extents, level_shifts, last: 0 }
    }

    /// Returns the extent of an address, or `None` if it is not mapped.
    #[inline]
    pub(crate) fn find(&mut self, address: u64) -> Option<&Extent> {
        let last = self.extents.get(self.last)?;
        if !(last.start <= address && address < last.end) {
            let next = self.extents.partition_point(|extent| extent.end <= address);
            if self.extents.get(next)?.start > address {
                return None;
            }
            self.last = next;
        }
        self.extents.get(self.last)
    }
}

/// Adds the extents of one run of leaves.
fn add(core: &Core, g: Geometry, run: &Run, start: u64, to: &mut Vec<Extent>) {
    let entry_shift = g.level_shift(run.level);
    let end = start + (run.descriptors << entry_shift);
    let run_shift = g.contiguous_entries(run.level).trailing_zeros();
    let leaf_shift = if run.contiguous && core.contiguous { entry_shift + run_shift } else { entry_shift };
    let tables = (run.level.ordinal() - g.root().ordinal()).min(Level::COUNT);
    let mut push = |start: u64, end: u64, shift: u32| {
        if start < end {
            let l2_shift = largest(&core.l2.shifts, shift);
            let l1_shift = largest(&core.l1.shifts, l2_shift);
            to.push(Extent { start, end, l1_shift, l2_shift, tables });
        }
    };
    let group = core.coalesce.trailing_zeros();
    if run.level != Level::PAGE || leaf_shift != entry_shift || group == 0 {
        return push(start, end, leaf_shift);
    }
    // Pages share an entry in whole aligned groups; the pages before the first group and after the last do not.
    let size = 1u64 << (entry_shift + group);
    let (from, until) = (start.next_multiple_of(size).min(end), (end & !(size - 1)).max(start));
    if from >= until {
        return push(start, end, entry_shift);
    }
    push(start, from, entry_shift);
    push(from, until, entry_shift + group);
    push(until, end, entry_shift);
}

/// Returns the largest of `shifts` that is no larger than `fits`, or `fits` if none is.
fn largest(shifts: &[u32], fits: u32) -> u32 {
    shifts.iter().copied().rev().find(|shift| *shift <= fits).unwrap_or(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;
    use linmap::{Granule, OaFormat, Pa, Rodata};

    fn sizes(changes: &[&str], granule: Granule, leaves: Leaves, address: u64) -> (u64, u64, usize) {
        let mut parameters = Parameters::built_in("neoverse-n1").expect("a core");
        for change in changes {
            parameters.set(change, "a test", "here").expect("a change");
        }
        let core = parameters.core().expect("a core");
        let g = Geometry::new(granule, 48, OaFormat::Bits48).expect("a geometry");
        let mut ram = [Pa(0x4000_0000)..Pa(0x20_4000_0000)];
        let layout = Layout::new(g, &mut ram, &mut [], Pa(0)..Pa(0), Rodata::Off).expect("a layout");
        let mut map = Translation::new(&core, &layout, leaves);
        let extent = map.find(address).expect("mapped");
        (1 << extent.l1_shift, 1 << extent.l2_shift, extent.tables)
    }

    #[test]
    fn entries_are_as_large_as_leaf_and_tlb_permit() {
        let (k, m, gib) = (1u64 << 10, 1u64 << 20, 1u64 << 30);
        let (high, low) = (32 * gib, gib);
        let large = |granule, address| sizes(&[], granule, Leaves::Largest, address);
        assert_eq!(large(Granule::K4, high), (512 * m, gib, 1));
        assert_eq!(large(Granule::K16, high), (512 * m, gib, 2));
        assert_eq!(large(Granule::K64, high), (512 * m, gib, 1));
        assert_eq!(large(Granule::K64, low), (512 * m, 512 * m, 1));
        let pages = |changes: &[&str], granule| sizes(changes, granule, Leaves::Pages, high);
        assert_eq!(pages(&[], Granule::K4), (16 * k, 16 * k, 3));
        assert_eq!(pages(&["coalesce=1"], Granule::K4), (4 * k, 4 * k, 3));
        assert_eq!(pages(&[], Granule::K16), (64 * k, 64 * k, 3));
        assert_eq!(pages(&[], Granule::K64), (64 * k, 256 * k, 2));
    }
}
