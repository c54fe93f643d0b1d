//! What a TLB sees of a linear map: for each address the sizes of the entries that translate it, and how deep
//! the walk goes. Addresses count from the start of the linear map.

use linmap::{Geometry, Layout, Leaves, Level, Run, linear_range};

use super::core::Core;

/// A linear map.
pub(crate) struct Translation {
    /// By address, without overlaps.
    stretches: Vec<Stretch>,
    /// log2 of what an entry of each level spans, the root's first.
    pub(crate) level_shifts: Vec<u32>,
    /// The stretch of the last address.
    last: usize,
}

/// Addresses that are translated alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    start: u64,
    end: u64,
    /// log2 of what an entry covers, in either level.
    pub(crate) l1_shift: u32,
    pub(crate) l2_shift: u32,
    /// How many levels of tables are above the leaf.
    pub(crate) tables: usize,
}

impl Translation {
    /// As this core translates the map of a layout.
    pub(crate) fn new(core: &Core, layout: &Layout<'_>, leaves: Leaves) -> Self {
        let g = layout.geometry();
        let (first, _) = linear_range(g);
        let mut stretches = Vec::new();
        for run in layout.runs(leaves) {
            add(core, g, &run, run.va.0 - first.0, &mut stretches);
        }
        let mut level = g.root();
        let mut level_shifts = vec![g.level_shift(level)];
        while level < Level::PAGE {
            level = level.next();
            level_shifts.push(g.level_shift(level));
        }
        Self { stretches, level_shifts, last: 0 }
    }

    /// How an address is translated; none if it is not mapped.
    #[inline]
    pub(crate) fn find(&mut self, address: u64) -> Option<&Stretch> {
        let last = self.stretches.get(self.last)?;
        if !(last.start <= address && address < last.end) {
            let behind = self.stretches.partition_point(|stretch| stretch.end <= address);
            if self.stretches.get(behind)?.start > address {
                return None;
            }
            self.last = behind;
        }
        self.stretches.get(self.last)
    }
}

/// Adds the stretches of one run.
fn add(core: &Core, g: Geometry, run: &Run, start: u64, to: &mut Vec<Stretch>) {
    let entry_shift = g.level_shift(run.level);
    let end = start + (run.descriptors << entry_shift);
    let run_shift = g.contiguous_entries(run.level).trailing_zeros();
    let leaf_shift = if run.contiguous && core.contiguous { entry_shift + run_shift } else { entry_shift };
    let tables = (run.level.ordinal() - g.root().ordinal()).min(Level::COUNT);
    let mut push = |start: u64, end: u64, shift: u32| {
        if start < end {
            let l2_shift = largest(&core.l2.shifts, shift);
            let l1_shift = largest(&core.l1.shifts, l2_shift);
            to.push(Stretch { start, end, l1_shift, l2_shift, tables });
        }
    };
    let group = core.coalesce.trailing_zeros();
    if run.level != Level::PAGE || leaf_shift != entry_shift || group == 0 {
        return push(start, end, leaf_shift);
    }
    // Pages share an entry in aligned groups; where there is no whole group they do not.
    let size = 1u64 << (entry_shift + group);
    let (from, until) = (start.next_multiple_of(size).min(end), (end & !(size - 1)).max(start));
    if from >= until {
        return push(start, end, entry_shift);
    }
    push(start, from, entry_shift);
    push(from, until, entry_shift + group);
    push(until, end, entry_shift);
}

/// The largest size that an entry can have and that fits. The smallest always fits.
fn largest(shifts: &[u32], fits: u32) -> u32 {
    shifts.iter().copied().rev().find(|shift| *shift <= fits).unwrap_or(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tlb::core;
    use linmap::{Granule, OaFormat, Pa, Rodata};

    fn sizes(changes: &[&str], granule: Granule, leaves: Leaves, address: u64) -> (u64, u64, usize) {
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        let core = core::read("neoverse-n1", &changes).expect("a core");
        let g = Geometry::new(granule, 48, OaFormat::Bits48).expect("a geometry");
        let mut ram = [Pa(0x4000_0000)..Pa(0x20_4000_0000)];
        let layout = Layout::new(g, &mut ram, &mut [], Pa(0)..Pa(0), Rodata::Off).expect("a layout");
        let mut map = Translation::new(&core, &layout, leaves);
        let stretch = map.find(address).expect("mapped");
        (1 << stretch.l1_shift, 1 << stretch.l2_shift, stretch.tables)
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
