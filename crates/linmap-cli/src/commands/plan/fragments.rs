//! The leaves of a map in large leaves after changes of single pages.
//!
//! A changed page has a descriptor of its own, and its neighbours have the largest leaves that remain. Without
//! collapse this is permanent. With collapse after each page that becomes writable again, the map is what the pages
//! need that are read-only now. So both maps follow from a set of pages, whatever the order of the changes, and are
//! counted from their runs: terabytes cost no more than the changed pages. The tests make the same changes to live
//! tables in host memory.

use std::collections::BTreeSet;

use linmap::layout::Run;
use linmap::{Attributes, Geometry, Layout, Leaves, Region, Stats};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The most pages that are read-only at once.
const MAX_PAGES: u64 = 1 << 16;

/// The map for one number of read-only pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) pages: u64,
    /// When so many are read-only for the first time.
    pub(crate) now: Stats,
    /// After all of them were replaced by others several times, without collapse.
    pub(crate) churned: Stats,
    /// The same with collapse.
    pub(crate) collapsed: Stats,
    /// When all are writable again, without collapse; with collapse it is the map of no pages.
    pub(crate) back: Stats,
}

/// Returns the map for no, one, two, four read-only pages and so on.
pub(crate) fn grow(layout: &Layout<'_>, seed: u64, rounds: u32) -> Vec<State> {
    let regions: Vec<Region> = layout.regions(Leaves::Largest).collect();
    let candidates = Candidates::of(layout.geometry(), &regions);
    let counts = std::iter::once(0).chain((0i32..).map(|power| 1 << power));
    // At most half of all pages, so that random choices end soon.
    let counts = counts.take_while(|pages| *pages <= MAX_PAGES && *pages <= candidates.pages / 2);
    counts.map(|pages| state(layout.geometry(), &regions, &candidates, pages, (seed, rounds))).collect()
}

fn state(
    g: Geometry,
    regions: &[Region],
    candidates: &Candidates,
    pages: u64,
    (seed, rounds): (u64, u32),
) -> State {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ pages << 32);
    let first = candidates.choose(pages, &mut random);
    let (mut last, mut ever) = (first.clone(), first.clone());
    for _ in 0..rounds {
        last = candidates.choose(pages, &mut random);
        ever.extend(&last);
    }
    let of = |read_only: &BTreeSet<u64>, apart: &BTreeSet<u64>| {
        Stats::of_runs(g, runs(g, regions, read_only, apart))
    };
    let none = BTreeSet::new();
    State {
        pages,
        now: of(&first, &first),
        churned: of(&last, &ever),
        collapsed: of(&last, &last),
        back: of(&none, &ever),
    }
}

/// The pages that can become read-only: all writable RAM in large leaves.
struct Candidates {
    pages: u64,
    /// The first address of each stretch, and the number of pages before it.
    stretches: Vec<(u64, u64)>,
    page_shift: u32,
}

impl Candidates {
    fn of(g: Geometry, regions: &[Region]) -> Self {
        let mut all = Self { pages: 0, stretches: Vec::new(), page_shift: g.page_shift() };
        for region in regions.iter().filter(|region| may_change(region)) {
            all.stretches.push((region.va.0, all.pages));
            all.pages += region.bytes >> g.page_shift();
        }
        all
    }

    /// Returns so many different pages, by address.
    fn choose(&self, count: u64, random: &mut impl RngExt) -> BTreeSet<u64> {
        let mut chosen = BTreeSet::new();
        while (chosen.len() as u64) < count.min(self.pages) {
            let number = random.random_range(0..self.pages);
            let stretch = self.stretches.partition_point(|(_, before)| *before <= number) - 1;
            let (start, before) = self.stretches[stretch];
            chosen.insert(start + ((number - before) << self.page_shift));
        }
        chosen
    }
}

fn may_change(region: &Region) -> bool {
    region.leaves == Leaves::Largest && !region.attributes.contains(Attributes::READ_ONLY)
}

/// Returns the leaves, with each page of `apart` mapped by itself and those of `read_only` read-only.
fn runs<'r>(
    g: Geometry,
    regions: &'r [Region],
    read_only: &'r BTreeSet<u64>,
    apart: &'r BTreeSet<u64>,
) -> impl Iterator<Item = Run> + 'r {
    regions.iter().flat_map(move |region| pieces(g, region, read_only, apart)).flat_map(move |r| r.runs(g))
}

/// Cuts a region at the pages of `apart`.
fn pieces<'r>(
    g: Geometry,
    region: &Region,
    read_only: &'r BTreeSet<u64>,
    apart: &'r BTreeSet<u64>,
) -> impl Iterator<Item = Region> + 'r {
    let page = g.page_size();
    let mut rest = *region;
    // The upper half ends before the last address.
    let mut cuts = apart.range(region.va.0..region.va.0 + region.bytes);
    let mut cut = cuts.next();
    std::iter::from_fn(move || {
        if rest.bytes == 0 {
            return None;
        }
        let to_cut = cut.map_or(rest.bytes, |at| at - rest.va.0);
        let bytes = if to_cut == 0 { page } else { to_cut };
        let mut piece = Region { bytes, ..rest };
        if to_cut == 0 {
            cut = cuts.next();
            if read_only.contains(&piece.va.0) {
                piece.attributes |= Attributes::READ_ONLY;
            }
        }
        rest.va.0 += bytes;
        rest.oa.0 += bytes;
        rest.bytes -= bytes;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::host::HostMemory;
    use linmap::{Change, Granule, Half, OaFormat, Pa, Policy, Rodata, SharedSpace, Tree, Va};

    /// A map in live tables, changed by a kernel's operations.
    struct Live {
        space: SharedSpace,
        memory: HostMemory,
    }

    impl Live {
        fn new(layout: &Layout<'_>) -> Self {
            let g = layout.geometry();
            let memory = HostMemory::new(g, 1 << 14);
            let empty = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
            let space = SharedSpace::adopt(empty);
            space.set_policy(Policy::Live);
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&memory.platform()).create(layout, Leaves::Largest) }.expect("a map");
            Self { space, memory }
        }

        fn change(&self, pages: &BTreeSet<u64>, change: Change) {
            for page in pages {
                // SAFETY: no CPU uses these tables.
                let changed = unsafe { self.space.on(&self.memory.platform()).protect(Va(*page), 1, change) };
                changed.expect("changed");
            }
        }

        fn collapse(&self, pages: &BTreeSet<u64>) {
            for page in pages {
                self.space.on(&self.memory.platform()).collapse(Va(*page), 1).expect("collapsed");
            }
        }

        fn stats(&self) -> Stats {
            self.space.on(&self.memory.platform()).stats()
        }
    }

    /// Returns the state after the same changes to live tables.
    fn live_state(layout: &Layout<'_>, candidates: &Candidates, pages: u64, rounds: u32) -> State {
        let mut random = Pcg64Mcg::seed_from_u64(1 ^ pages << 32);
        let (kept, collapsed) = (Live::new(layout), Live::new(layout));
        let mut last = candidates.choose(pages, &mut random);
        kept.change(&last, Change::READ_ONLY);
        collapsed.change(&last, Change::READ_ONLY);
        let now = kept.stats();
        for _ in 0..rounds {
            for live in [&kept, &collapsed] {
                live.change(&last, Change::WRITABLE);
            }
            collapsed.collapse(&last);
            last = candidates.choose(pages, &mut random);
            for live in [&kept, &collapsed] {
                live.change(&last, Change::READ_ONLY);
            }
        }
        let (churned, after) = (kept.stats(), collapsed.stats());
        kept.change(&last, Change::WRITABLE);
        State { pages, now, churned, collapsed: after, back: kept.stats() }
    }

    /// Counts from runs equal the counts of live tables.
    #[test]
    fn live_tables_come_to_the_same() {
        for granule in Granule::ALL {
            let g = Geometry::new(granule, 48, OaFormat::Bits48).expect("a geometry");
            let mut ram = [Pa(0x4000_0000)..Pa(0x6_4001_0000)];
            let image = Pa(0x4020_0000)..Pa(0x4024_0000);
            let layout = Layout::new(g, &mut ram, &mut [], image, Rodata::Full).expect("a layout");
            let regions: Vec<Region> = layout.regions(Leaves::Largest).collect();
            let candidates = Candidates::of(g, &regions);
            for pages in [0, 1, 2, 30, 300] {
                let counted = state(g, &regions, &candidates, pages, (1, 3));
                assert_eq!(counted, live_state(&layout, &candidates, pages, 3), "{granule}, {pages} pages");
            }
        }
    }
}
