//! `linmap stat`: the linear map at a glance, the savings of large leaves, and why it has none.
//!
//! - `survey`: the leaves of the map.  `gather`: evidence from the source.  `findings`: these, and what follows.
//! - `owners`, `who`: whose pages they are, and the cost of each owner.
//! - `report`: the findings for people.  `document`: for programs.

mod document;
mod findings;
mod gather;
mod owners;
mod report;
mod survey;
mod who;

use clap::Args;
use serde_json::Value;

use super::names::SymbolsArgument;
use super::reading::{Failure, SOURCES, SourceArgument, concluded, view};
use crate::source::Wanted;
use crate::status::Status;
use crate::terminal;
use findings::Findings;
use who::Who;

/// Show the linear map of an arm64 kernel at a glance, and why it is as it is
///
/// Leaves by size, memory for tables, TLB entries; the savings of large leaves; the reasons that it is in pages, seen
/// or inferred; and remedies. Exit status: 0, or 2 for an error.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgument,

    /// Show whose pages are read-only or taken away, and the cost of each owner
    #[arg(long)]
    who: bool,

    #[command(flatten)]
    symbols: SymbolsArgument,

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
    let who = options.who.then(|| Who::of(&view, &options.symbols.names(&view)?)).transpose()?;
    if options.json {
        let mut document = document::of(&view, &findings);
        document["who"] = who.map_or(Value::Null, |who| who.document());
        terminal::print_document(&document)?;
    } else {
        let who = who.map(|who| format!("\n{}", who.report())).unwrap_or_default();
        terminal::print(&(report::of(&view, &findings) + &who))?;
    }
    Ok(Status::Fine)
}
