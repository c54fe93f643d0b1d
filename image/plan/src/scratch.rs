//! RAM for tasks that change the map: mapped as all RAM is, and used by nothing else.

use core::ops::Range;

use linmap::{Geometry, Pa};

use crate::ranges::Ranges;

/// The size that a task wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// Two leaves of one size, which is what changes are about.
    Leaves,
    /// As much as there is, for those who measure accesses.
    Most,
}

/// The memory set aside for them. Table pages come from elsewhere.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scratch {
    /// A power of two in bytes, and at most three quarters of free RAM: the largest, or two of the largest leaves that fit.
    /// Aligned to two leaves. May be empty.
    pub range: Range<Pa>,
    /// The first and the last page of the longest range of RAM, if they are free.
    pub ends: [Option<Pa>; 2],
}

impl Scratch {
    /// Takes it from the free RAM in the linear map; empty if next to nothing is free.
    pub(crate) fn take(free: &mut Ranges, reached: &Ranges, geometry: Geometry, wanted: Wanted) -> Self {
        let page = geometry.page_size();
        if free.bytes() < 16 * page {
            return Self::default();
        }
        let bank = reached.longest();
        let ends = [bank.start, Pa(bank.end.0.saturating_sub(page))].map(|first| {
            let end = first..Pa(first.0 + page);
            // Without room for a cut there is no such page.
            (free.covers(&end) && free.remove(&end).is_ok()).then_some(first)
        });
        let (longest, most) = (free.longest(), free.bytes() / 4 * 3);
        let pairs = geometry.leaf_sizes();
        let pairs = pairs.iter().map(|size| 2 * size.bytes());
        let block = |bytes: u64| {
            let end = longest.end.0 & !(pairs.clone().find(|pair| *pair <= bytes)? - 1);
            let fits = bytes <= most && end.saturating_sub(bytes) >= longest.start.0 && end != 0;
            fits.then(|| Pa(end - bytes)..Pa(end))
        };
        let range = match wanted {
            Wanted::Leaves => pairs.clone().find_map(block),
            Wanted::Most => (1 + geometry.page_shift()..64).rev().find_map(|log| block(1 << log)),
        };
        let range = range.filter(|range| free.remove(range).is_ok()).unwrap_or_default();
        Self { range, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::{Granule, OaFormat};

    const GIB: u64 = 1 << 30;

    /// Takes it from RAM from 1 GiB on, whose first 128 MiB are in use except for one page.
    fn scratch(granule: Granule, va_bits: u32, ram: u64, wanted: Wanted) -> (Scratch, Ranges) {
        let format = if va_bits > 48 { OaFormat::Lpa2 } else { OaFormat::Bits48 };
        let g = Geometry::new(granule, va_bits, format).unwrap();
        let mut reached = Ranges::new();
        reached.add(Pa(GIB)..Pa(GIB + ram)).unwrap();
        let mut free = reached.clone();
        free.remove(&(Pa(GIB + g.page_size())..Pa(GIB + (128 << 20)))).unwrap();
        let scratch = Scratch::take(&mut free, &reached, g, wanted);
        (scratch, free)
    }

    #[test]
    fn two_of_the_largest_leaves_that_fit() {
        for (granule, va_bits, gigabytes, size) in [
            (Granule::K4, 48, 1, 32 << 20),
            (Granule::K4, 48, 4, GIB),
            (Granule::K4, 48, 12, GIB),
            (Granule::K4, 48, 300, 16 * GIB),
            (Granule::K4, 52, 2048, 512 * GIB),
            (Granule::K16, 48, 1, 32 << 20),
            (Granule::K16, 48, 12, GIB),
            (Granule::K16, 52, 300, 64 * GIB),
            (Granule::K64, 48, 1, 2 << 20),
            (Granule::K64, 48, 12, 512 << 20),
            (Granule::K64, 48, 300, 16 * GIB),
        ] {
            let (Scratch { range, .. }, free) = scratch(granule, va_bits, gigabytes * GIB, Wanted::Leaves);
            let what = (granule, va_bits, gigabytes, &range);
            assert_eq!(range.end.0 - range.start.0, 2 * size, "{what:?}");
            assert_eq!(range.start.0 % (2 * size), 0, "{what:?}");
            assert!(free.as_slice().iter().all(|f| f.end <= range.start || range.end <= f.start), "{what:?}");
            assert!(free.bytes() >= size / 2, "{what:?}");
        }
    }

    #[test]
    fn most_of_ram() {
        for (gigabytes, expected) in [(1, GIB / 2), (4, 2 * GIB), (12, 8 * GIB), (300, 128 * GIB)] {
            for granule in Granule::ALL {
                let (Scratch { range, .. }, free) = scratch(granule, 48, gigabytes * GIB, Wanted::Most);
                assert_eq!(range.end.0 - range.start.0, expected, "{granule} {gigabytes}");
                assert_eq!(range.start.0 % (4 << 20), 0, "{granule} {gigabytes}");
                assert!(free.bytes() >= gigabytes * GIB / 4 - (128 << 20), "{granule} {gigabytes}");
            }
        }
    }

    #[test]
    fn the_ends_of_ram_are_set_aside_where_they_are_free() {
        let (scratch, free) = scratch(Granule::K4, 48, GIB, Wanted::Leaves);
        assert_eq!(scratch.ends, [Some(Pa(GIB)), Some(Pa(2 * GIB - 0x1000))]);
        assert!(!free.contains(Pa(GIB)) && !free.contains(Pa(2 * GIB - 1)));
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        let mut reached = Ranges::new();
        reached.add(Pa(GIB)..Pa(2 * GIB)).unwrap();
        let mut free = reached.clone();
        free.keep(&(Pa(GIB + 0x1000)..Pa(2 * GIB)));
        assert_eq!(
            Scratch::take(&mut free, &reached, g, Wanted::Leaves).ends,
            [None, Some(Pa(2 * GIB - 0x1000))]
        );
    }

    #[test]
    fn with_next_to_nothing_free_there_is_none() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        let mut reached = Ranges::new();
        reached.add(Pa(GIB)..Pa(2 * GIB)).unwrap();
        let mut free = Ranges::new();
        free.add(Pa(GIB + 0x3000)..Pa(GIB + 0x5000)).unwrap();
        let before = free.clone();
        assert_eq!(Scratch::take(&mut free, &reached, g, Wanted::Leaves), Scratch::default());
        assert_eq!(free.bytes(), before.bytes());
    }
}
