//! The options of `linmap report`.

use std::path::PathBuf;

use clap::Args;

/// Show what `run=measure` measured: RAM in pages and in large leaves, beside the model and beside published figures
///
/// A FILE is the log of the image's console, or the document of `linmap boot --run measure --json`. docs/measure.md
/// describes what is measured. Exit status: 0 shown, 1 a result was wrong, 2 anything else.
#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// Logs or documents; several are shown side by side
    #[arg(value_name = "FILE", required = true)]
    pub(crate) file: Vec<PathBuf>,

    /// The core whose TLBs are modelled, or a core file [default: the CPU's]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) core: Option<String>,

    /// Write the report as one page of HTML, plot included, into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Plot the time of a dependent load by working set into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
