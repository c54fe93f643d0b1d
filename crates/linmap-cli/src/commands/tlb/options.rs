//! The options of `linmap tlb`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use linmap::Granule;
use linmap_tlb::{Parameters, Placement, TraceFormat, Workload};

use crate::choices::{Offering, choice, one_of};
use crate::commands::plan::MachineOptions;
use crate::kernel_options;
use crate::size::{Size, SizeError};

/// A built-in core, or the path of a file.
const CORES: Offering =
    Offering { names: || Parameters::built_in_names().to_vec(), parse: |text| Ok(text.to_owned()) };

/// Count the TLB misses of a workload on a modelled core, with the linear map in pages and in large leaves
///
/// A model of how far a TLB reaches, not of time. docs/tlb.md describes the model and the formats of core files and
/// traces. Exit status: 0 counted, 2 anything else.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// Workloads of the kernel, separated by commas [default: all but uniform]
    #[arg(long, value_name = "LIST", value_parser = workload(), value_delimiter = ',')]
    #[arg(help_heading = "Workload")]
    pub(crate) workload: Vec<Workload>,

    /// A recorded trace instead
    #[arg(long, value_name = "FILE", conflicts_with = "workload", help_heading = "Workload")]
    pub(crate) trace: Option<PathBuf>,

    /// The format of the trace
    #[arg(long, value_name = "FORMAT", value_parser = trace_format(), default_value = "auto")]
    #[arg(requires = "trace", help_heading = "Workload")]
    pub(crate) trace_format: TraceFormat,

    /// The workload's memory; of a trace, the most that it can touch
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = footprint, help_heading = "Workload")]
    pub(crate) footprint: Size,

    /// The physical pages of that memory
    #[arg(long, value_name = "HOW", value_parser = placement(), default_value = "aged")]
    #[arg(help_heading = "Workload")]
    pub(crate) placement: Placement,

    /// Accesses of a cache line to count for each seed; a number, or one with the suffix k, M or G
    #[arg(long, value_name = "N", default_value = "2M", value_parser = count, help_heading = "Workload")]
    pub(crate) accesses: u64,

    /// Number of seeds to try
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Workload")]
    #[arg(value_parser = RangedU64ValueParser::<u32>::new().range(1..=1000))]
    pub(crate) seeds: u32,

    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    pub(crate) seed: u64,

    /// The core: neoverse-n1, neoverse-n2, neoverse-v2, cortex-a76, ampereone (nothing is published of it), or a
    /// core file
    #[arg(long, value_name = "NAME|FILE", default_value = "neoverse-n1", help_heading = "Core")]
    #[arg(value_parser = CORES, hide_possible_values = true)]
    pub(crate) core: String,

    /// One parameter of the core, such as coalesce=1
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Core")]
    pub(crate) set: Vec<String>,

    /// Size of a page
    #[arg(long, value_name = "SIZE", default_value = "4k", help_heading = "Kernel")]
    #[arg(value_parser = kernel_options::page_size(), ignore_case = true)]
    pub(crate) page_size: Granule,

    #[command(flatten)]
    pub(crate) machine: MachineOptions,

    /// Plot the result into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// RAM of the machine if no option describes one.
pub(crate) const RAM: Size = Size(64 << 30);
/// The smallest footprint that suits every workload.
const MIN_FOOTPRINT: Size = Size(16 << 20);

/// Returns the workloads that run if none is named: all but `uniform`, which is for comparison.
pub(crate) fn usual_workloads() -> impl Iterator<Item = Workload> {
    Workload::ALL.into_iter().filter(|workload| *workload != Workload::Uniform)
}

fn workload() -> impl TypedValueParser<Value = Workload> {
    one_of(Workload::ALL.map(|workload| {
        let help = match workload {
            Workload::PageCacheRead => "Read a large file from the page cache, from its start to its end",
            Workload::RamdiskRandom => "Read 4K from a ramdisk at random places",
            Workload::RamdiskSequential => "Read 4K from a ramdisk in order of address",
            Workload::Encrypt => {
                "Read pages, encrypt them and write them into new ones, as disk encryption does"
            }
            Workload::HashService => "Look keys up in a hash table, some much more often than others",
            Workload::Fork => "Fork processes: copy their page tables",
            Workload::Uniform => "Access one line anywhere: no locality at all",
        };
        choice(workload, workload.name(), help)
    }))
}

fn trace_format() -> impl TypedValueParser<Value = TraceFormat> {
    one_of(TraceFormat::ALL.map(|format| {
        let help = match format {
            TraceFormat::Auto => "Detect it from the first lines",
            TraceFormat::Linmap => {
                "`linmap-trace 1 virtual` or `linmap-trace 1 physical`, then `R ADDRESS [BYTES]` and \
                 `W ADDRESS [BYTES]`"
            }
            TraceFormat::Lackey => "valgrind --tool=lackey --trace-mem=yes",
            TraceFormat::Execlog => "qemu -plugin libexeclog.so",
        };
        choice(format, format.name(), help)
    }))
}

fn placement() -> impl TypedValueParser<Value = Placement> {
    one_of(Placement::ALL.map(|placement| {
        let help = match placement {
            Placement::Fresh => "In order of address, as after boot",
            Placement::Aged => {
                "In blocks of 1 to 512 pages, each size a tenth of memory, in random order, as after long use"
            }
            Placement::Random => "Each page anywhere",
        };
        choice(placement, placement.name(), help)
    }))
}

fn footprint(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: SizeError| error.to_string())?;
    match size {
        small if small < MIN_FOOTPRINT => Err(format!("{MIN_FOOTPRINT} is the least")),
        size => Ok(size),
    }
}

/// Reads a count such as `2M`. Its units are decimal.
fn count(text: &str) -> Result<u64, String> {
    const RIGHT: &str = "a number is right, or one with the suffix k, M or G, such as 100M";
    let units = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(*unit)?, *scale)));
    let (digits, scale): (&str, u64) = unit.unwrap_or((text, 1));
    let number = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_digit()));
    number.and_then(|number| number.checked_mul(scale)).filter(|n| *n > 0).ok_or_else(|| RIGHT.to_owned())
}
