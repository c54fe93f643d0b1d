//! What can be asked of `linmap tlb`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::placement::Placement;
use super::trace::Format;
use super::workload::Workload;
use crate::commands::boot::options::PageSize;
use crate::commands::plan::MachineOptions;
use crate::size::{Size, SizeError};

/// Count the TLB misses of a workload on a modelled core, the linear map in pages beside large leaves
///
/// A model of how far a TLB reaches, not of time. What is modelled, the format of core files and the one of
/// traces are in docs/tlb.md. Exit status: 0 counted, 2 anything else.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// What the kernel does, one or several with commas between them [default: all but uniform]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', help_heading = "Workload")]
    pub(crate) workload: Vec<Workload>,

    /// A recorded trace instead
    #[arg(long, value_name = "FILE", conflicts_with = "workload", help_heading = "Workload")]
    pub(crate) trace: Option<PathBuf>,

    /// What the trace looks like
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "auto", help_heading = "Workload")]
    pub(crate) trace_format: Format,

    /// The workload's memory; of a trace, the most that it may touch
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = footprint, help_heading = "Workload")]
    pub(crate) footprint: Size,

    /// Which physical pages it has
    #[arg(long, value_name = "HOW", value_enum, default_value = "aged", help_heading = "Workload")]
    pub(crate) placement: Placement,

    /// Accesses to count, for each seed, in cache lines; a number, or one with k, M or G behind it
    #[arg(long, value_name = "N", default_value = "2M", value_parser = count, help_heading = "Workload")]
    pub(crate) accesses: u64,

    /// How many seeds to try
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Workload")]
    #[arg(value_parser = RangedU64ValueParser::<u32>::new().range(1..=1000))]
    pub(crate) seeds: u32,

    /// The first of them
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    pub(crate) seed: u64,

    /// The core: neoverse-n1, neoverse-n2, neoverse-v2, cortex-a76, ampereone (of which nothing is published),
    /// or a core file
    #[arg(long, value_name = "NAME|FILE", default_value = "neoverse-n1", help_heading = "Core")]
    pub(crate) core: String,

    /// One parameter of the core, such as coalesce=1
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Core")]
    pub(crate) set: Vec<String>,

    /// Size of a page
    #[arg(long, value_name = "SIZE", default_value = "4k", help_heading = "Kernel")]
    #[arg(value_enum, ignore_case = true)]
    pub(crate) page_size: PageSize,

    #[command(flatten)]
    pub(crate) machine: MachineOptions,

    /// Plot the result into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// RAM of the machine where nothing else is asked for.
pub(crate) const RAM: Size = Size(64 << 30);
/// The least memory that every workload can do something with.
const LEAST: Size = Size(16 << 20);

fn footprint(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    match size {
        small if small < LEAST => Err(format!("{LEAST} is the least")),
        size => Ok(size),
    }
}

/// `2M`: in thousands, since nothing binary is counted.
fn count(text: &str) -> Result<u64, String> {
    const RIGHT: &str = "a number is right, or one with k, M or G behind it, such as 100M";
    let units = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(*unit)?, *scale)));
    let (digits, scale): (&str, u64) = unit.unwrap_or((text, 1));
    let number = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_digit()));
    number.and_then(|number| number.checked_mul(scale)).filter(|n| *n > 0).ok_or_else(|| RIGHT.to_owned())
}
