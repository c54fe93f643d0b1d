//! `linmap stat`: the linear map at a glance, the savings of large leaves, and why it has none.
//!
//! - `survey`: the leaves of the map.  `gather`: evidence from the source.  `findings`: these, and what follows.
//! - `who`: whose pages they are, and the cost of each owner.
//! - `report`: the findings for people.  `document`: for programs.  `machines`: those of several machines.

mod document;
mod findings;
mod gather;
mod machines;
mod report;
mod survey;
mod who;

use clap::Args;
use serde_json::Value;

use super::names::SymbolsArgument;
use super::pausing::Pausing;
use super::reading::{Failure, SOURCES, concluded, once, open, source_parser, view};
use crate::linux::regions::linear;
use crate::source::{Source, Wanted};
use crate::status::Status;
use crate::terminal;
pub(crate) use document::counts;
pub(crate) use findings::Findings;
pub(crate) use machines::{Facts, Machine, quoted};
pub(crate) use report::share;
use who::Who;

/// Show the linear map of an arm64 kernel at a glance, and why it is as it is
///
/// Leaves by size, memory for tables, TLB entries; the savings of large leaves; the reasons that it is in pages, seen
/// or inferred; and remedies. Of several SOURCEs, one row each. Exit status: 0, or 2 for an error; then those of
/// several that can be read are shown.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    /// Sources of page tables, one for each machine [default: this machine, by /proc/kcore]
    #[arg(value_name = "SOURCE", value_parser = source_parser())]
    sources: Vec<Source>,

    #[command(flatten)]
    pausing: Pausing,

    /// Show whose pages are read-only or taken away, and the cost of each owner
    #[arg(long)]
    who: bool,

    #[command(flatten)]
    symbols: SymbolsArgument,

    /// Print one JSON document
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Print comma-separated values, one row a machine
    #[arg(long)]
    csv: bool,
}

/// Reads the map and reports the result.
pub(crate) fn run(options: &Options) -> Status {
    concluded("stat", options.json, stat(options))
}

fn stat(options: &Options) -> Result<Status, Failure> {
    once(&options.sources)?;
    let only = match options.sources.as_slice() {
        [] => &Source::Live,
        [only] => only,
        several => return all(options, several),
    };
    if options.csv {
        return all(options, std::slice::from_ref(only));
    }
    let opened = open(only, Wanted::All, options.pausing)?;
    let view = view(&opened)?;
    let findings = Findings::of(&view)?;
    let who = options
        .who
        .then(|| Who::of(&view, &options.symbols.names(&view)?, &[linear(view.geometry)]))
        .transpose()?;
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

/// Reports several machines, one after the other; an error of one does not hide the others.
fn all(options: &Options, sources: &[Source]) -> Result<Status, Failure> {
    let machines: Vec<Machine> =
        sources.iter().map(|source| Machine::read(source, options.pausing)).collect();
    if options.json {
        terminal::print_document(&machines::document(&machines))?;
    } else if options.csv {
        terminal::print(&machines::csv(&machines))?;
    } else {
        terminal::print(&machines::text(&machines))?;
    }
    let failed = machines.iter().any(|machine| machine.facts.is_err());
    Ok(if failed { Status::Error } else { Status::Fine })
}
