//! `linmap stat`: the linear map at a glance, the savings of large leaves, and why it has none.
//!
//! - `survey`: the leaves of the map.  `gather`: evidence from the source.  `findings`: these, and what follows.
//! - `report`: the findings for people.  `document`: for programs.

mod document;
mod findings;
mod gather;
mod report;
mod survey;

use clap::Args;

use super::reading::{Failure, SOURCES, SourceArgument, concluded, view};
use crate::source::Wanted;
use crate::status::Status;
use crate::terminal;
use findings::Findings;

/// Show the linear map of an arm64 kernel at a glance, and why it is as it is
///
/// Leaves by size, memory for tables, TLB entries; the savings of large leaves; the reasons that it is in pages, seen
/// or inferred; and remedies. Exit status: 0, or 2 for an error.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgument,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads the map and reports the result.
pub(crate) fn run(options: &Options) -> Status {
    concluded("stat", options.json, stat(options))
}

fn stat(options: &Options) -> Result<Status, Failure> {
    let opened = options.source.open(Wanted::All)?;
    let view = view(&opened)?;
    let findings = Findings::of(&view)?;
    if options.json {
        terminal::print_document(&document::of(&view, &findings))?;
    } else {
        terminal::print(&report::of(&view, &findings))?;
    }
    Ok(Status::Fine)
}
