//! The counts of a layout, mapped in pages and in large leaves, and the kernel's choice of the two.

use std::ops::Range;

use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::policy::Decision;
use linmap::{Geometry, Granule, Half, Layout, Leaves, Pa, Stats, Tree, Va};

use super::failure::Failure;
use super::given::Given;
use super::layout::{Laid, lay_out};

/// Trees whose tables take no more than this are built; larger ones are counted without.
const BUILT: u64 = 64 << 20;

/// The linear map of one page size.
pub(crate) struct Planned {
    pub(crate) geometry: Geometry,
    pub(crate) decision: Decision,
    /// The first address of the linear map and the last.
    pub(crate) range: (Va, Va),
    pub(crate) ram: Vec<Range<Pa>>,
    pub(crate) alias: Range<Pa>,
    pub(crate) crash: Option<Range<Pa>>,
    pub(crate) dropped_bytes: u64,
    pub(crate) unaligned_bytes: u64,
    pub(crate) pages: Counted,
    pub(crate) large: Counted,
    pub(crate) notes: Vec<String>,
}

/// A map's counts, and whether a tree was built to get them.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) stats: Stats,
    pub(crate) built: bool,
}

impl Planned {
    /// One for each page size.
    pub(crate) fn of_all(given: &Given<'_>, granules: Vec<Granule>) -> Result<Vec<Self>, Failure> {
        granules.into_iter().map(|granule| lay_out(given, granule, Self::of)?).collect()
    }

    fn of(laid: Laid<'_>) -> Result<Self, Failure> {
        let Laid { layout, geometry, decision, alias, crash, beyond_bytes, notes } = laid;
        Ok(Self {
            geometry,
            decision,
            range: linear_range(geometry),
            ram: layout.ram().to_vec(),
            alias,
            crash,
            dropped_bytes: layout.dropped_bytes() + beyond_bytes,
            unaligned_bytes: layout.unaligned_bytes(),
            pages: Counted::of(layout, Leaves::Pages)?,
            large: Counted::of(layout, Leaves::Largest)?,
            notes,
        })
    }

    /// The map that the kernel would make.
    pub(crate) fn chosen(&self) -> &Stats {
        match self.decision.leaves() {
            Leaves::Pages => &self.pages.stats,
            Leaves::Largest => &self.large.stats,
        }
    }

    /// The table memory that large leaves save.
    pub(crate) fn saved_bytes(&self) -> u64 {
        let bytes = |counted: &Counted| counted.stats.table_bytes(self.geometry);
        bytes(&self.pages).saturating_sub(bytes(&self.large))
    }
}

impl Counted {
    fn of(layout: &Layout<'_>, leaves: Leaves) -> Result<Self, Failure> {
        let geometry = layout.geometry();
        let stats = Stats::of_runs(geometry, layout.runs(leaves));
        let built = stats.table_bytes(geometry) <= BUILT;
        if built {
            let memory = HostMemory::new(geometry, stats.tables as usize);
            let tree = Tree::build(&memory, geometry, Half::Upper, layout.runs(leaves));
            // It is freed with the memory.
            if !tree.is_ok_and(|tree| tree.stats() == stats) {
                return Err(Failure::Disagreement { granule: geometry.granule().to_string() });
            }
        }
        Ok(Self { stats, built })
    }
}
