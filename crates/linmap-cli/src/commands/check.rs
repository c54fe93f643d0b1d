//! `linmap check`: finds mappings that must never be in the map of a kernel.
//!
//! - `findings`: the library's check, with the facts of the source.  `report`: the findings for people.

mod findings;
mod report;

use clap::Args;
use serde_json::{Value, json};

use super::csv;
use super::names::{Names, SymbolsArgument};
use super::options::MapOptions;
use super::reading::{Failure, SOURCES, SourceArgument, concluded, document, regions, view};
use crate::map::image::Image;
use crate::map::view::View;
use crate::progress;
use crate::source::Wanted;
use crate::status::Status;
use crate::terminal;
use findings::Findings;

/// Check the page tables of an arm64 kernel for mappings that must never be there
///
/// Memory that is writable and executable, with the permissions of the tables above applied; memory that is read-only
/// or executable and writable in the linear map; memory that two mappings contradict each other about; broken contiguous
/// runs; tables outside RAM, shared or in a loop; reserved bits. All tables are looked at; --region and --range say which
/// findings are shown. Exit status: 0 nothing found, 1 findings, 2 error.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgument,

    #[command(flatten)]
    map: MapOptions,

    #[command(flatten)]
    symbols: SymbolsArgument,

    /// List every finding, not only the first of a kind
    #[arg(long)]
    all: bool,
}

/// Checks the tables and reports the findings.
pub(crate) fn run(options: &Options) -> Status {
    concluded("check", options.map.form.json, check(options))
}

fn check(options: &Options) -> Result<Status, Failure> {
    let opened = options.source.open(Wanted::All, options.map.pausing)?;
    let view = view(&opened)?;
    let image = Image::find(&view).map_err(Failure::walk(&view))?;
    let regions = regions(&view, image.as_ref());
    let parts = options.map.selection.parts(&view, &regions)?;
    progress::begin("checking tables");
    let findings = Findings::of(&view, &regions, &parts)?;
    // Without findings there is nothing to name.
    let names =
        if findings.count == 0 { Names::none("no findings") } else { options.symbols.names(&view)? };
    if options.map.form.json {
        terminal::print_document(&json(&view, &findings, &names))?;
    } else if options.map.form.csv {
        terminal::print(&csv(&findings, &names))?;
    } else {
        terminal::print(&report::of(&view, &findings, &names, options.all))?;
    }
    if let Some(why) = findings.ended_by {
        // With `--json`, the document already has it.
        terminal::error(Failure::walk(&view)(why));
        return Ok(Status::Error);
    }
    Ok(if findings.count == 0 { Status::Fine } else { Status::Findings })
}

fn csv(findings: &Findings, names: &Names) -> String {
    let head = csv::row(["kind", "region", "va", "symbol", "text"]);
    findings.list.iter().fold(head, |text, (region, found)| {
        let va = findings::address(found);
        let symbol = names.name(va).unwrap_or_default();
        text + &csv::row([findings::kind(found).0, *region, &va.to_string(), &symbol, &found.to_string()])
    })
}

fn json(view: &View<'_>, findings: &Findings, names: &Names) -> Value {
    let is_whole = findings.ended_by.is_none();
    let mut document = document("check", findings.count == 0 && is_whole, view);
    document["tables"] = json!(findings.tables);
    document["count"] = json!(findings.count);
    document["left_out"] = json!(findings.count - findings.list.len() as u64);
    document["findings"] =
        json!(findings.list.iter().map(|found| findings::document(found, names)).collect::<Vec<_>>());
    document["notes"] = json!(findings.notes);
    if let Some(why) = &findings.ended_by {
        document["error"] = json!(Failure::walk(view)(why.clone()).to_string());
    }
    document
}
