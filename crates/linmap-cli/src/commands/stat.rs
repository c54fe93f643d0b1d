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
use super::options::MapOptions;
use super::reading::{Failure, SOURCES, concluded, once, open, refuse_unless_guest, source_parser, view};
use crate::source::{Source, Wanted};
use crate::status::Status;
use crate::terminal;
pub(crate) use document::counts;
pub(crate) use findings::Findings;
pub(crate) use machines::{Facts, Machine};
pub(crate) use report::share;
use who::Who;

/// Show the linear map of an arm64 kernel at a glance, and why it is as it is
///
/// Leaves by size, memory for tables, TLB entries; the savings of large leaves; the reasons that it is in pages, seen
/// or inferred; and remedies. Of several SOURCEs, one row each. --range shows a part of the linear map: leaves that
/// translate an address of it count as a whole. Exit status: 0, or 2 for an error; then those of
/// several that can be read are shown.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    /// Sources of page tables, one for each machine [default: this machine, by /proc/kcore]
    #[arg(value_name = "SOURCE", value_parser = source_parser())]
    sources: Vec<Source>,

    #[command(flatten)]
    map: MapOptions,

    /// Show who has the memory, by which evidence, and the cost of each owner
    #[arg(long)]
    who: bool,

    #[command(flatten)]
    symbols: SymbolsArgument,
}

/// Reads the map and reports the result.
pub(crate) fn run(options: &Options) -> Status {
    concluded("stat", options.map.form.json, stat(options))
}

fn stat(options: &Options) -> Result<Status, Failure> {
    once(&options.sources)?;
    refuse_unless_guest(options.map.pausing, &options.sources)?;
    if !options.who {
        options.symbols.refuse("owners are not shown without --who")?;
    }
    let only = match options.sources.as_slice() {
        [] => &Source::Live,
        [only] => only,
        _ if options.who => {
            let why =
                "--who does not apply: it shows the owners of one machine, and several SOURCEs are named";
            return Err(Failure::Wrong(why.to_owned()));
        }
        several => return all(options, several),
    };
    let form = options.map.form;
    if form.csv && !options.who {
        return all(options, std::slice::from_ref(only));
    }
    let opened = open(only, Wanted::All, options.map.pausing)?;
    let view = view(&opened)?;
    let range = options.map.selection.linear(&view, "stat")?;
    let who = options.who.then(|| Who::of(&view, &options.symbols.names(&view)?, range)).transpose()?;
    if let Some(who) = who.as_ref().filter(|_| form.csv) {
        terminal::print(&who.csv())?;
        return Ok(Status::Fine);
    }
    let findings = Findings::of(&view, range)?;
    if form.json {
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
    let read = |source| Machine::read(source, &options.map, "stat");
    let machines: Vec<Machine> = sources.iter().map(read).collect();
    if options.map.form.json {
        terminal::print_document(&machines::document(&machines))?;
    } else if options.map.form.csv {
        terminal::print(&machines::csv(&machines))?;
    } else {
        terminal::print(&machines::text(&machines))?;
    }
    let failed = machines.iter().any(|machine| machine.facts.is_err());
    Ok(if failed { Status::Error } else { Status::Fine })
}
