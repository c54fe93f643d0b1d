//! A workload, run: memory laid out as a kernel has it, both maps at once, one seed after the other.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use clap::ValueEnum;
use linmap::{Geometry, Leaves, Pa, linear_range};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::core::{self, Core};
use super::failure::Failure;
use super::memory::{Areas, Memory};
use super::options::{self, Options};
use super::placement::place;
use super::trace::{self, Access, Address};
use super::translation::Translation;
use super::unit::{Counts, Unit};
use super::workload::Workload;
use crate::commands::plan::{self, Given, Laid, granule};
use crate::printable::excerpt;

/// One access in so many is made before counting starts.
const WARM_UP: u64 = 10;

/// All runs.
pub(crate) struct Experiment {
    pub(crate) core: Core,
    pub(crate) geometry: Geometry,
    pub(crate) machine: String,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) notes: Vec<String>,
}

/// What one workload came to.
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) workload: Option<Workload>,
    /// By seed: in pages, in large leaves.
    pub(crate) counts: Vec<[Counts; 2]>,
}

/// What is done.
enum Work<'w> {
    Workload(Workload),
    Trace(&'w Path),
}

/// Runs all that is asked for.
pub(crate) fn run(options: &Options) -> Result<Experiment, Failure> {
    let core = core::read(&options.core, &options.set)?;
    let given = Given::read_or(&options.machine, options::RAM)?;
    let works: Vec<Work<'_>> = match (&options.trace, &options.workload[..]) {
        (Some(path), _) => vec![Work::Trace(path)],
        (None, []) => Workload::USUAL.map(Work::Workload).into(),
        (None, named) => named.iter().copied().map(Work::Workload).collect(),
    };
    let machine = given.source.clone();
    let done = plan::lay_out(&given, granule(options.page_size), |laid| {
        let stage = Stage { options, core: &core, laid: &laid };
        let outcomes: Result<Vec<_>, Failure> = works.iter().map(|work| stage.outcome(work)).collect();
        Ok((outcomes?, laid.geometry, laid.notes))
    })?;
    let (outcomes, geometry, notes) = done.map_err(|failure: Failure| failure)?;
    let notes = [given.notes.clone(), notes].concat();
    Ok(Experiment { core, geometry, machine, outcomes, notes })
}

/// Where workloads run.
struct Stage<'s> {
    options: &'s Options,
    core: &'s Core,
    laid: &'s Laid<'s>,
}

impl Stage<'_> {
    fn outcome(&self, work: &Work<'_>) -> Result<Outcome, Failure> {
        let seeds = (0..u64::from(self.options.seeds)).map(|number| self.options.seed.wrapping_add(number));
        let (name, workload) = match work {
            Work::Workload(workload) => (workload.name(), Some(*workload)),
            Work::Trace(path) => (excerpt(&path.display().to_string(), 60), None),
        };
        let counts = seeds.map(|seed| match work {
            Work::Workload(workload) => self.steps(*workload, seed),
            Work::Trace(path) => self.replay(path, seed),
        });
        Ok(Outcome { name, workload, counts: counts.collect::<Result<_, _>>()? })
    }

    /// Runs a workload until enough was counted.
    fn steps(&self, workload: Workload, seed: u64) -> Result<[Counts; 2], Failure> {
        let mut areas = Areas::new(self.laid.geometry.page_shift());
        let mut steps = workload.prepare(&mut areas, self.options.footprint.0);
        let mut memory = self.memory(&workload.name(), areas.pages(), seed)?;
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x10ad);
        for accesses in [self.options.accesses / WARM_UP, self.options.accesses] {
            memory.restart();
            while memory.accesses() < accesses {
                steps.step(&mut memory, &mut random);
            }
        }
        counted(&memory)
    }

    /// Runs a trace to its end, or until enough was counted.
    fn replay(&self, path: &Path, seed: u64) -> Result<[Counts; 2], Failure> {
        let g = self.laid.geometry;
        let pages = self.options.footprint.0 >> g.page_shift();
        let mut memory = self.memory("the trace", pages, seed)?;
        let mut seen: HashMap<u64, u64> = HashMap::new();
        let enough = self.options.accesses;
        trace::read(path, self.options.trace_format, |access| {
            let Access { address, bytes, times } = access;
            let (start, physical) = match address {
                Address::Virtual(start) => (start, false),
                Address::Physical(start) => (start, true),
            };
            let page = g.page_size();
            let mut at = start;
            let end = start.checked_add(bytes).ok_or("it ends beyond all addresses")?;
            while at < end {
                let part = (end - at).min(page - at % page);
                let linear = if physical {
                    self.linear(at)
                        .ok_or("no RAM of this machine is there; --ram, --iomem or --dtb describe it")?
                } else {
                    let next = seen.len() as u64;
                    let number = *seen.entry(at / page).or_insert(next);
                    let frame =
                        memory.frame(number).ok_or("more memory is touched than --footprint allows")?;
                    frame + at % page
                };
                let lines = ((linear + part - 1) >> 6) - (linear >> 6) + 1;
                memory.at(linear, lines * times);
                at += part;
            }
            Ok(memory.accesses() < enough)
        })?;
        counted(&memory)
    }

    /// The address in the linear map of a physical one, if it is RAM.
    fn linear(&self, pa: u64) -> Option<u64> {
        let (first, _) = linear_range(self.laid.geometry);
        Some(self.laid.layout.va(Pa(pa))?.0 - first.0)
    }

    /// Memory of so many pages, and both maps.
    fn memory(&self, workload: &str, pages: u64, seed: u64) -> Result<Memory, Failure> {
        let g = self.laid.geometry;
        let usable = self.usable()?;
        let frames =
            place(&usable, usize::try_from(pages).unwrap_or(usize::MAX), self.options.placement, seed);
        if (frames.len() as u64) < pages {
            return Err(Failure::TooLittle {
                workload: workload.to_owned(),
                placement: placement_name(self.options),
                wanted: pages << g.page_shift(),
                there: (frames.len() as u64) << g.page_shift(),
            });
        }
        let fits = |shifts: &[u32]| shifts.first().is_some_and(|least| *least <= g.page_shift());
        if !fits(&self.core.l1.shifts) || !fits(&self.core.l2.shifts) {
            return Err(Failure::Page { page: plan::granule_name(g) });
        }
        let unit = |leaves| Unit::new(self.core, Translation::new(self.core, self.laid.layout, leaves), seed);
        Ok(Memory::new(frames, g.page_shift(), [unit(Leaves::Pages), unit(Leaves::Largest)]))
    }

    /// The pages of the linear map that a workload can have: all but the kernel and the crash kernel.
    fn usable(&self) -> Result<Vec<Range<u32>>, Failure> {
        let Laid { layout, geometry, alias, crash, .. } = self.laid;
        let mapped = layout.mapped();
        let mut ranges: Vec<Range<Pa>> =
            layout.ram().iter().map(|r| r.start.max(mapped.start)..r.end.min(mapped.end)).collect();
        for taken in std::iter::once(alias).chain(crash) {
            ranges = ranges.into_iter().flat_map(|range| without(range, taken)).collect();
        }
        let (first, _) = linear_range(*geometry);
        let page = |pa: Pa| pa.0.wrapping_add(layout.offset()).wrapping_sub(first.0) >> geometry.page_shift();
        let numbered = |pa: Pa| u32::try_from(page(pa)).map_err(|_| Failure::TooLarge { pages: page(pa) });
        let whole = ranges.into_iter().filter(|range| !range.is_empty());
        whole.map(|range| Ok(numbered(range.start)?..numbered(range.end)?)).collect()
    }
}

/// The one or two parts of a range that are not in another.
fn without(range: Range<Pa>, taken: &Range<Pa>) -> [Range<Pa>; 2] {
    if taken.is_empty() {
        return [range, Pa(0)..Pa(0)];
    }
    [range.start..range.end.min(taken.start).max(range.start), range.start.max(taken.end)..range.end]
}

fn counted(memory: &Memory) -> Result<[Counts; 2], Failure> {
    match memory.units.iter().find_map(|unit| unit.unmapped) {
        Some(address) => Err(Failure::Unmapped { address }),
        None => Ok([memory.units[0].counts, memory.units[1].counts]),
    }
}

/// The placement's name on the command line.
pub(crate) fn placement_name(options: &Options) -> String {
    options.placement.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
