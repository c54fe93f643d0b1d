//! Everything that ends a run without a result, with the options that would help.

use std::io;
use std::path::PathBuf;

use linmap_tlb::{CoreError, Parameters, Placement, SimulationError, TraceError, TraceProblem, Workload};

use crate::commands::plan;
use crate::size::human;

/// Why the exit status is 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Machine(#[from] plan::Failure),

    #[error("cannot read `{}`: {error}", path.display())]
    CoreFile { path: PathBuf, error: io::Error },

    #[error("`{name}` is neither a file nor a core that is known: {}", Parameters::built_in_names().join(", "))]
    UnknownCore { name: String },

    #[error("{}{}", .0, core_hint(.0))]
    Core(#[from] CoreError),

    #[error("{}{}", .0, simulation_hint(.0))]
    Simulation(#[from] SimulationError),

    #[error(
        "{work} takes {} of memory, and the machine has {} that {placement} placement can hand out; --ram gives \
         it more, --footprint takes less",
        human(*needed), human(*available)
    )]
    TooLittleMemory { work: &'static str, placement: &'static str, needed: u64, available: u64 },

    #[error("cannot write the plot to `{}`: {error}", path.display())]
    Svg { path: PathBuf, error: io::Error },

    #[error("cannot write to stdout: {0}")]
    Output(String),
}

impl Failure {
    /// Returns the failure of one run; a trace is no workload.
    pub(crate) fn of_run(error: SimulationError, workload: Option<Workload>, placement: Placement) -> Self {
        match error {
            SimulationError::TooLittleMemory { needed, available } => Self::TooLittleMemory {
                work: workload.map_or("the trace", Workload::name),
                placement: placement.name(),
                needed,
                available,
            },
            error => Self::Simulation(error),
        }
    }
}

/// The options and documents that help with a core.
fn core_hint(error: &CoreError) -> String {
    match error {
        CoreError::Missing { .. } => "; docs/tlb.md says what it is".to_owned(),
        CoreError::NotPublished { keys, .. } => format!(
            "; give what you know, with a core file (--core FILE) or one by one (--set {}=...)",
            keys.first().unwrap_or(&"KEY")
        ),
        _ => String::new(),
    }
}

/// The options that help with a trace.
fn simulation_hint(error: &SimulationError) -> &'static str {
    match error {
        SimulationError::Trace(TraceError::Line { problem, .. }) => match problem {
            TraceProblem::UnknownFormat => NAME_FORMAT,
            TraceProblem::NoRam => "; --ram, --iomem or --dtb describe it",
            TraceProblem::FootprintExceeded => "; --footprint gives it more",
            _ => "",
        },
        SimulationError::Trace(TraceError::Empty { .. }) => NAME_FORMAT,
        _ => "",
    }
}

const NAME_FORMAT: &str = "; --trace-format names one of linmap, lackey and execlog";
