//! `linmap watch`: the linear map over time.
//!
//! - `changes`: pure, the ranges where two readings differ become splits, collapses and changes of permissions.
//! - `kept`: the parts of a kernel that stay the same.
//! - `history`: the readings so far.  `lines`: one line for each.  `screen`: a view of all.  `metrics`: OpenMetrics.

mod changes;
mod history;
mod kept;
mod lines;
mod metrics;
mod screen;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use super::names::SymbolsArgument;
use super::options::MapOptions;
use super::pausing::parse_time;
use super::reading::{Failure, SOURCES, concluded, open_quietly, refuse_unless_guest, source_parser, view};
use crate::distinct::distinct;
use crate::map::view::View;
use crate::source::{Source, Wanted};
use crate::status::Status;
use crate::terminal;
use history::{History, Reading};
use kept::Kept;

/// Show the linear map of a machine over time: leaves, splits and collapses, and who has the memory
///
/// On a terminal it is a view that is drawn anew; elsewhere, and if TERM is dumb, one line, row or document for each
/// reading. A change that is undone before the next reading is not seen. Later readings that fail are counted, and the
/// next one is tried; the first has to succeed. Ends with Ctrl-C, or after --count readings. Exit status: 0, or 2 for an
/// error.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    /// Source of the page tables, read again and again [default: this machine, by /proc/kcore]
    #[arg(value_name = "SOURCE", value_parser = source_parser())]
    source: Option<Source>,

    /// The time from the start of one reading to the start of the next, in seconds such as 10 or as 500ms
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10")]
    interval: Duration,

    /// End after so many readings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Also write the newest values into this file, in the format of OpenMetrics
    ///
    /// The file is replaced as a whole, never read half written. With a name that ends in .prom, in the directory of
    /// node_exporter's textfile collector, Prometheus collects it.
    #[arg(long, value_name = "FILE")]
    openmetrics: Option<PathBuf>,

    #[command(flatten)]
    symbols: SymbolsArgument,

    #[command(flatten)]
    map: MapOptions,
}

/// Reads the map again and again, and reports each reading.
pub(crate) fn run(options: &Options) -> Status {
    concluded("watch", options.map.form.json, watch(options))
}

fn watch(options: &Options) -> Result<Status, Failure> {
    let source = options.source.as_ref().unwrap_or(&Source::Live);
    if *source == Source::Standard {
        let why = "the standard input can be read once, and is not watched; `linmap stat -` reads it";
        return Err(Failure::Wrong(why.to_owned()));
    }
    refuse_unless_guest(options.map.pausing, [source])?;
    distinct(&[options.openmetrics.as_deref()], source.file().as_slice())?;
    let mut history = History::new(source.to_string(), options.interval);
    let mut kept = Kept::default();
    loop {
        let begun = Instant::now();
        let is_first = history.newest().is_none();
        match read(source, options, &mut kept, is_first) {
            Ok(reading) => history.add(reading),
            Err(failure) if is_first => return Err(failure),
            Err(failure) => history.failed(failure.to_string()),
        }
        if let Some(file) = &options.openmetrics {
            metrics::write(file, &history)?;
        }
        let is_read = show(options, &history)?;
        if !is_read || options.count.is_some_and(|count| history.tries() >= count) {
            return Ok(Status::Fine);
        }
        std::thread::sleep(options.interval.saturating_sub(begun.elapsed()));
    }
}

/// Reads the map once. Facts that the source lacks are noted at the first reading alone.
fn read(source: &Source, options: &Options, kept: &mut Kept, is_first: bool) -> Result<Reading, Failure> {
    let begun = Instant::now();
    let opened = open_quietly(source, Wanted::All, options.map.pausing)?;
    let view = if is_first { view(&opened)? } else { View::of(&opened)? };
    let range = options.map.selection.linear(&view, "watch")?;
    Reading::of(&view, range, &options.symbols, kept, begun)
}

/// Shows the newest reading. Returns false if nobody reads it any more.
fn show(options: &Options, history: &History) -> Result<bool, Failure> {
    Ok(if options.map.form.json {
        terminal::print_on(&format!("{}\n", lines::json(history)))?
    } else if options.map.form.csv {
        terminal::print_on(&lines::csv(history))?
    } else if let Some(rows) = terminal::rows() {
        terminal::repaint(&screen::of(history, rows))?
    } else {
        terminal::print_on(&lines::text(history))?
    })
}
