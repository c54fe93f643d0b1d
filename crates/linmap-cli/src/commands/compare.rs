//! `linmap compare`: what differs between machines, at a glance.
//!
//! - `facts`: pure, machines become facts, and equal machines one column.

mod facts;

use clap::Args;
use serde_json::{Value, json};

use super::csv::quoted;
use super::options::MapOptions;
use super::reading::{Failure, SOURCES, concluded, once, refuse_unless_guest, schema, source_parser};
use super::stat::Machine;
use crate::source::Source;
use crate::status::Status;
use crate::table::table;
use crate::terminal;
use facts::{Comparison, Fact};

/// Compare machines at a glance: kernels, CPUs, leaves, causes
///
/// Only facts that differ are in the table, and machines that agree in all of them share a column. A fact that a
/// SOURCE does not show is not compared. --csv prints one row for each fact. `linmap diff` compares two maps address by
/// address. Exit status: 0 nothing differs, 1 something does, 2 error.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    /// Sources of page tables, one for each machine
    #[arg(value_name = "SOURCE", value_parser = source_parser(), num_args = 2.., required = true)]
    sources: Vec<Source>,

    #[command(flatten)]
    map: MapOptions,
}

/// Compares machines and reports the differences.
pub(crate) fn run(options: &Options) -> Status {
    concluded("compare", options.map.form.json, compare(options))
}

fn compare(options: &Options) -> Result<Status, Failure> {
    once(&options.sources)?;
    refuse_unless_guest(options.map.pausing, &options.sources)?;
    let read = |source| Machine::read(source, &options.map, "compare");
    let machines: Vec<Machine> = options.sources.iter().map(read).collect();
    let unread = machines.iter().filter(|machine| machine.facts.is_err()).count();
    if unread > 0 {
        let all = machines.len();
        return Err(Failure::Wrong(format!(
            "{unread} of {all} machines could not be read, so nothing was compared"
        )));
    }
    let comparison = Comparison::of(&machines);
    if options.map.form.json {
        terminal::print_document(&document(&comparison))?;
    } else if options.map.form.csv {
        terminal::print(&csv(&comparison))?;
    } else {
        terminal::print(&text(&comparison))?;
    }
    Ok(if comparison.differs() { Status::Findings } else { Status::Fine })
}

fn text(comparison: &Comparison) -> String {
    let (different, same): (Vec<&Fact>, Vec<&Fact>) =
        comparison.facts.iter().partition(|fact| fact.differs());
    let mut text = String::new();
    if !different.is_empty() {
        let heads: Vec<String> = comparison.groups.iter().map(|group| comparison.head(group)).collect();
        let header: Vec<&str> = std::iter::once("").chain(heads.iter().map(String::as_str)).collect();
        let row = |fact: &&Fact| {
            let values = comparison.groups.iter().map(|group| fact.shown(group[0]).to_owned());
            std::iter::once(fact.name.clone()).chain(values).collect()
        };
        text += &table(&header, different.iter().map(row));
        text.push('\n');
    }
    let same: Vec<String> = same
        .iter()
        .filter_map(|fact| Some(format!("{} {}", fact.name, fact.values.iter().flatten().next()?)))
        .collect();
    text + &match (different.is_empty(), same.is_empty()) {
        (true, _) => {
            format!("Nothing differs between {} machines: {}\n", comparison.machines.len(), same.join("; "))
        }
        (false, true) => String::new(),
        (false, false) => format!("The same: {}\n", same.join("; ")),
    }
}

fn csv(comparison: &Comparison) -> String {
    let line = |name: &str, cells: Vec<String>| format!("{name},{}\n", cells.join(","));
    let mut text = line("fact", comparison.machines.iter().map(|machine| quoted(machine)).collect());
    for fact in &comparison.facts {
        let cells = (0..comparison.machines.len())
            .map(|machine| quoted(fact.values[machine].as_deref().unwrap_or("")));
        text += &line(&quoted(&fact.name), cells.collect());
    }
    text
}

fn document(comparison: &Comparison) -> Value {
    let fact = |fact: &Fact| json!({ "fact": fact.name, "differs": fact.differs(), "values": fact.values });
    json!({
        "schema": schema("compare"),
        "ok": !comparison.differs(),
        "machines": comparison.machines,
        "groups": comparison.groups,
        "facts": comparison.facts.iter().map(fact).collect::<Vec<_>>(),
    })
}
