//! The options of `linmap plan`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use linmap::Granule;

use super::failure::Failure;
use super::given::MachineOptions;
use crate::kernel_options;

/// Predict the linear map of a machine: leaves, table memory and TLB entries, page sizes side by side
///
/// The prediction is made by the code that the image runs, and is what `linmap boot` would report.
/// Exit status: 0 planned, 2 anything else.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) machine: MachineOptions,

    /// Only this page size [default: all three]
    #[arg(long, value_name = "SIZE", help_heading = "Kernel")]
    #[arg(value_parser = kernel_options::page_size(), ignore_case = true)]
    pub(crate) page_size: Option<Granule>,

    /// Show how the map grows instead
    #[arg(long, value_name = "WITH", value_enum, help_heading = "Sweep")]
    pub(crate) sweep: Option<Sweep>,

    /// Plot the sweep into this file
    #[arg(long, value_name = "FILE", requires = "sweep", help_heading = "Sweep")]
    pub(crate) svg: Option<PathBuf>,

    /// Seed of the random pages of --sweep fragmentation [default: 1]
    #[arg(long, value_name = "N", help_heading = "Sweep")]
    seed: Option<u64>,

    /// Rounds of --sweep fragmentation, in each of them other pages become read-only [default: 8]
    #[arg(long, value_name = "N", help_heading = "Sweep")]
    #[arg(value_parser = RangedU64ValueParser::<u32>::new().range(1..=64))]
    rounds: Option<u32>,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// The value that a sweep varies.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sweep {
    /// RAM, by factors of two up to --ram, or to 64T
    Ram,
    /// The size of a page
    PageSize,
    /// The number of single pages that are read-only, with and without collapse
    Fragmentation,
}

impl Options {
    /// Returns the seed and the rounds of the random pages.
    pub(crate) fn random(&self) -> (u64, u32) {
        (self.seed.unwrap_or(1), self.rounds.unwrap_or(8))
    }

    /// Refuses what applies to random pages alone, where there are none.
    ///
    /// # Errors
    ///
    /// An option is given and does not apply.
    pub(crate) const fn refuse_random(&self) -> Result<(), Failure> {
        let option = match (&self.sweep, self.seed, self.rounds) {
            (Some(Sweep::Fragmentation), ..) | (_, None, None) => return Ok(()),
            (_, Some(_), _) => "--seed",
            (_, None, Some(_)) => "--rounds",
        };
        Err(Failure::NotRandom { option })
    }

    /// Returns the page sizes to plan for: the one of the option, or all.
    pub(crate) fn granules(&self) -> Vec<Granule> {
        self.page_size.map_or_else(|| Granule::ALL.to_vec(), |size| vec![size])
    }
}
