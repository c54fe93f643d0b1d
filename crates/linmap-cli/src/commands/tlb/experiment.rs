//! Runs the workloads or the trace that the options name, one seed after the other.

use std::path::Path;

use linmap::Geometry;
use linmap_tlb::{
    Conditions, Core, CoreError, MissCounts, Parameters, Simulation, SimulationError, Workload,
};

use super::failure::Failure;
use super::options::{self, Options};
use crate::commands::plan::{self, Given, Laid};
use crate::printable::excerpt;
use crate::progress::{self, Step};

/// The results of all runs, and the circumstances.
pub(crate) struct Experiment {
    pub(crate) core: Core,
    pub(crate) geometry: Geometry,
    pub(crate) machine: String,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) notes: Vec<String>,
}

/// The results of one workload.
pub(crate) struct Outcome {
    pub(crate) name: String,
    /// `None` for a trace.
    pub(crate) workload: Option<Workload>,
    /// One for each seed.
    pub(crate) counts: Vec<MissCounts>,
}

/// A source of accesses.
enum Work<'w> {
    Workload(Workload),
    Trace(&'w Path),
}

impl Work<'_> {
    fn name(&self) -> String {
        match self {
            Self::Workload(workload) => workload.name().to_owned(),
            Self::Trace(path) => excerpt(&path.display().to_string(), 60),
        }
    }
}

/// Runs all workloads that the options name, or their trace.
pub(crate) fn run(options: &Options) -> Result<Experiment, Failure> {
    let core = core(&options.core, &options.set)?;
    let given = Given::read_or(&options.machine, options::RAM)?;
    let works: Vec<Work<'_>> = match (&options.trace, &options.workload[..]) {
        (Some(path), _) => vec![Work::Trace(path)],
        (None, []) => options::usual_workloads().map(Work::Workload).collect(),
        (None, named) => named.iter().copied().map(Work::Workload).collect(),
    };
    let machine = given.source.clone();
    let done = plan::lay_out(&given, options.page_size, |laid| {
        let Laid { layout, geometry, alias, crash, notes, .. } = laid;
        let reserved: Vec<_> = std::iter::once(alias).chain(crash).collect();
        let simulation = Simulation::new(&core, layout, &reserved)?;
        let mut runs = Runs { done: 0, total: works.len() as u64 * u64::from(options.seeds) };
        let outcomes: Result<Vec<_>, Failure> =
            works.iter().map(|work| outcome(&simulation, work, options, &mut runs)).collect();
        Ok((outcomes?, geometry, notes))
    })?;
    let (outcomes, geometry, notes) = done.map_err(|failure: Failure| failure)?;
    let notes = [given.notes.clone(), notes].concat();
    Ok(Experiment { core, geometry, machine, outcomes, notes })
}

/// Reads a core: a built-in one, or a file; with changes.
pub(crate) fn core(name: &str, changes: &[String]) -> Result<Core, Failure> {
    let mut parameters = match Parameters::built_in(name) {
        Err(CoreError::Unknown(_)) if Path::new(name).exists() => {
            let unreadable = |error| Failure::CoreFile { path: name.into(), error };
            let bytes = std::fs::read(name).map_err(unreadable)?;
            Parameters::parse(name, &String::from_utf8_lossy(&bytes))?
        }
        Err(CoreError::Unknown(name)) => return Err(Failure::UnknownCore { name }),
        built_in => built_in?,
    };
    for change in changes {
        parameters.set(change, "the command line", &format!("--set {}", excerpt(change, 60)))?;
    }
    Ok(parameters.core()?)
}

/// The runs that are done, and all: one for each workload and seed.
struct Runs {
    done: u64,
    total: u64,
}

fn outcome(
    simulation: &Simulation<'_>,
    work: &Work<'_>,
    options: &Options,
    runs: &mut Runs,
) -> Result<Outcome, Failure> {
    let seeds = (0..u64::from(options.seeds)).map(|number| options.seed.wrapping_add(number));
    let counts = seeds.map(|seed| {
        let conditions = Conditions {
            footprint: options.footprint.0,
            placement: options.placement,
            accesses: options.accesses,
            seed,
        };
        progress::show(Step { what: "runs of workloads", done: runs.done, total: Some(runs.total) });
        runs.done += 1;
        match work {
            Work::Workload(workload) => simulation.run(*workload, &conditions),
            Work::Trace(path) => simulation.replay(path, options.trace_format, &conditions),
        }
    });
    let counts: Result<_, SimulationError> = counts.collect();
    let workload = match work {
        Work::Workload(workload) => Some(*workload),
        Work::Trace(_) => None,
    };
    let counts = counts.map_err(|error| Failure::of_run(error, workload, options.placement))?;
    Ok(Outcome { name: work.name(), workload, counts })
}
