//! A simulation: a core and the linear map of a layout, on which workloads run and traces are replayed.
//!
//! Each run sees the map twice, in pages and in large leaves, with the same accesses.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use linmap::layout::linear_range;
use linmap::{Geometry, Layout, Leaves, Pa};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::cpu_core::Core;
use crate::memory::{Areas, Memory, lines};
use crate::placement::{Placement, place};
use crate::tlb::{Counts, Tlb};
use crate::trace::{self, Access, Address, TraceError, TraceFormat, TraceProblem};
use crate::translation::Translation;
use crate::workload::Workload;

/// A tenth of the counted accesses is made before counting starts, to fill the TLBs.
const WARM_UP: u64 = 10;

/// A core over the linear map of a layout.
pub struct Simulation<'a> {
    core: &'a Core,
    layout: &'a Layout<'a>,
    /// The pages that workloads can have, by their numbers in the linear map.
    usable: Vec<Range<u32>>,
}

/// The conditions of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// The workload's memory in bytes; of a trace with virtual addresses, the most that it can touch.
    pub footprint: u64,
    /// The physical pages of that memory.
    pub placement: Placement,
    /// The number of accesses to count; a trace can end earlier.
    pub accesses: u64,
    /// Seeds all that is random. The same seed makes the same counts.
    pub seed: u64,
}

/// The counts of the same accesses over both maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissCounts {
    /// Over the map in pages.
    pub pages: Counts,
    /// Over the map in the largest leaves.
    pub large: Counts,
}

/// Why there are no counts.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// A level of the core has no entry as small as a page.
    #[error("the core has no entry for {}K pages; l1.sizes and l2.sizes need a size up to that of a page", page_size >> 10)]
    PageTooSmall {
        /// The size of a page in bytes.
        page_size: u64,
    },

    /// The linear map spans more pages than the model can number.
    #[error("the linear map reaches over {pages} pages; this model numbers them up to {}", u32::MAX)]
    TooLarge {
        /// The number of a page that is too high.
        pages: u64,
    },

    /// RAM has fewer usable pages than the workload needs.
    #[error("{needed:#x} bytes of memory are needed, and the placement can hand out {available:#x}")]
    TooLittleMemory {
        /// The workload's memory in bytes.
        needed: u64,
        /// Bytes that the placement can hand out.
        available: u64,
    },

    /// An access has an address that the layout does not map: a bug of the model.
    #[error("an access to {address:#x} of the linear map, which has nothing there; this is a bug")]
    Unmapped {
        /// The address, from the start of the linear map.
        address: u64,
    },

    /// The trace cannot be replayed.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl<'a> Simulation<'a> {
    /// Sets a simulation up. Workloads get no memory in `reserved`, such as the kernel image.
    ///
    /// # Errors
    ///
    /// The core has no entry as small as a page, or the linear map spans more than 2^32 pages.
    pub fn new(
        core: &'a Core,
        layout: &'a Layout<'a>,
        reserved: &[Range<Pa>],
    ) -> Result<Self, SimulationError> {
        let g = layout.geometry();
        let fits = |shifts: &[u32]| shifts.first().is_some_and(|least| *least <= g.page_shift());
        if !fits(&core.l1.shifts) || !fits(&core.l2.shifts) {
            return Err(SimulationError::PageTooSmall { page_size: g.page_size() });
        }
        Ok(Self { core, layout, usable: usable(layout, reserved)? })
    }

    /// Runs a workload until enough accesses are counted.
    ///
    /// # Errors
    ///
    /// There is less memory than the workload needs.
    pub fn run(&self, workload: Workload, conditions: &Conditions) -> Result<MissCounts, SimulationError> {
        let mut areas = Areas::new(self.geometry().page_shift());
        let mut pattern = workload.prepare(&mut areas, conditions.footprint);
        let frames = self.frames(areas.pages(), conditions);
        if let Some(error) = self.too_little(&frames, areas.pages()) {
            return Err(error);
        }
        let mut memory = self.memory(frames, conditions);
        let mut random = Pcg64Mcg::seed_from_u64(conditions.seed ^ 0x10ad);
        for accesses in [conditions.accesses / WARM_UP, conditions.accesses] {
            memory.restart();
            while memory.accesses() < accesses {
                pattern.step(&mut memory, &mut random);
            }
        }
        counts(&memory)
    }

    /// Replays a trace to its end, or until enough accesses are counted. Nothing warms the TLBs up.
    ///
    /// # Errors
    ///
    /// The trace cannot be read, a line is malformed or has an address that is not RAM, or it touches more memory
    /// than the footprint or than there is.
    pub fn replay(
        &self,
        trace: &Path,
        format: TraceFormat,
        conditions: &Conditions,
    ) -> Result<MissCounts, SimulationError> {
        let pages = conditions.footprint >> self.geometry().page_shift();
        let frames = self.frames(pages, conditions);
        let too_little = self.too_little(&frames, pages);
        let mut memory = self.memory(frames, conditions);
        let mut seen = HashMap::new();
        let read = trace::read(trace, format, |access| {
            self.replay_access(access, &mut memory, &mut seen)?;
            Ok(memory.accesses() < conditions.accesses)
        });
        match (read, too_little) {
            // Physical addresses take none of it, others perhaps less.
            (Err(TraceError::Line { problem: TraceProblem::FootprintExceeded, .. }), Some(error)) => {
                Err(error)
            }
            (read, _) => read.map_err(Into::into).and_then(|()| counts(&memory)),
        }
    }

    /// Makes one access of a trace, page by page. `seen` numbers virtual pages by their first touch.
    fn replay_access(
        &self,
        Access { address, bytes, times }: Access,
        memory: &mut Memory,
        seen: &mut HashMap<u64, u64>,
    ) -> Result<(), TraceProblem> {
        let page = self.geometry().page_size();
        let (Address::Virtual(start) | Address::Physical(start)) = address;
        let end = start.checked_add(bytes).ok_or(TraceProblem::BeyondAddresses)?;
        let mut at = start;
        while at < end {
            let part = (end - at).min(page - at % page);
            let linear = match address {
                Address::Physical(_) => self.linear(at).ok_or(TraceProblem::NoRam)?,
                Address::Virtual(_) => {
                    let next = seen.len() as u64;
                    let number = *seen.entry(at / page).or_insert(next);
                    memory.frame(number).ok_or(TraceProblem::FootprintExceeded)? + at % page
                }
            };
            memory.access(linear, lines(linear, part) * times);
            at += part;
        }
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        self.layout.geometry()
    }

    /// Returns the address in the linear map of a physical one, if it is RAM.
    fn linear(&self, pa: u64) -> Option<u64> {
        let (first, _) = linear_range(self.geometry());
        Some(self.layout.va(Pa(pa))?.0 - first.0)
    }

    /// Returns so many pages, or all that the placement can hand out.
    fn frames(&self, pages: u64, conditions: &Conditions) -> Vec<u32> {
        let count = usize::try_from(pages).unwrap_or(usize::MAX);
        place(&self.usable, count, conditions.placement, conditions.seed)
    }

    /// Returns the error if these are not so many pages.
    fn too_little(&self, frames: &[u32], pages: u64) -> Option<SimulationError> {
        let (shift, got) = (self.geometry().page_shift(), frames.len() as u64);
        let error = SimulationError::TooLittleMemory { needed: pages << shift, available: got << shift };
        (got < pages).then_some(error)
    }

    /// Returns memory of these pages, and empty TLBs over both maps.
    fn memory(&self, frames: Vec<u32>, conditions: &Conditions) -> Memory {
        let tlb =
            |leaves| Tlb::new(self.core, Translation::new(self.core, self.layout, leaves), conditions.seed);
        Memory::new(frames, self.geometry().page_shift(), [tlb(Leaves::Pages), tlb(Leaves::Largest)])
    }
}

/// Returns the pages of the linear map outside of `reserved`, by their numbers.
fn usable(layout: &Layout<'_>, reserved: &[Range<Pa>]) -> Result<Vec<Range<u32>>, SimulationError> {
    let mapped = layout.mapped();
    let mut ranges: Vec<Range<Pa>> =
        layout.ram().iter().map(|r| r.start.max(mapped.start)..r.end.min(mapped.end)).collect();
    for taken in reserved {
        ranges = ranges.into_iter().flat_map(|range| without(range, taken)).collect();
    }
    let g = layout.geometry();
    let (first, _) = linear_range(g);
    let page = |pa: Pa| pa.0.wrapping_add(layout.offset()).wrapping_sub(first.0) >> g.page_shift();
    let number = |pa: Pa| u32::try_from(page(pa)).map_err(|_| SimulationError::TooLarge { pages: page(pa) });
    let ranges = ranges.into_iter().filter(|range| !range.is_empty());
    ranges.map(|range| Ok(number(range.start)?..number(range.end)?)).collect()
}

/// Returns the parts of a range before and after another; each may be empty.
fn without(range: Range<Pa>, taken: &Range<Pa>) -> [Range<Pa>; 2] {
    if taken.is_empty() {
        return [range, Pa(0)..Pa(0)];
    }
    [range.start..range.end.min(taken.start).max(range.start), range.start.max(taken.end)..range.end]
}

fn counts(memory: &Memory) -> Result<MissCounts, SimulationError> {
    let [pages, large] = &memory.tlbs;
    match pages.unmapped().or(large.unmapped()) {
        Some(address) => Err(SimulationError::Unmapped { address }),
        None => Ok(MissCounts { pages: *pages.counts(), large: *large.counts() }),
    }
}
