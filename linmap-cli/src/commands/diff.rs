//! `linmap diff`: what changed from one map to another.
//!
//! - `comparison`: the ranges where two maps differ.  `report`: these, for people and programs.

mod comparison;
mod report;

use clap::Args;
use linmap::Va;

use super::dump::parse_range;
use super::pausing::Pausing;
use super::reading::{Failure, SOURCES, concluded, open, source_parser, view};
use crate::linux::regions;
use crate::map::stretches::{self, Permissions};
use crate::map::sweep::{Compared, sweep};
use crate::map::view::View;
use crate::source::{Opened, SavedRun, Source, Wanted};
use crate::status::Status;
use comparison::Diff;

/// Show the differences between two maps
///
/// Permissions are compared with those of the tables above applied. Holes are equal at any level. Facts that one map
/// lacks, such as the output addresses of a text dump, are not compared. Exit status: 0 equal, 1 different, 2 error.
#[derive(Args)]
#[command(args_override_self = true, after_long_help = SOURCES)]
pub(crate) struct Options {
    /// The earlier map: a SOURCE
    #[arg(value_name = "A", value_parser = source_parser())]
    before: Source,

    /// The later map: a SOURCE
    #[arg(value_name = "B", value_parser = source_parser())]
    after: Source,

    /// The linear map only
    #[arg(long, conflicts_with = "range")]
    linear: bool,

    /// Only addresses from A up to, but not including, B: both in hex, as a dump has them
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    range: Option<(Va, Va)>,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pausing: Pausing,
}

/// Compares two maps and reports the differences.
pub(crate) fn run(options: &Options) -> Status {
    concluded("diff", options.json, diff(options))
}

fn diff(options: &Options) -> Result<Status, Failure> {
    if options.before == Source::Standard && options.after == Source::Standard {
        return Err(Failure::Wrong("A and B are both the standard input, which can be read once".to_owned()));
    }
    let wanted = options.range.map_or(Wanted::All, |(first, last)| Wanted::Range(first, last));
    let (before, after) =
        (open(&options.before, wanted, options.pausing)?, open(&options.after, wanted, options.pausing)?);
    let (a, b) = (view(&before)?, view(&after)?);
    let range = range(options, &a, &b)?;
    let rows = |view| stretches::of(view, range, Permissions::Effective).map_err(Failure::rows(view));
    let (rows_a, rows_b): (Vec<SavedRun>, Vec<SavedRun>) = (rows(&a)?, rows(&b)?);
    let is_text =
        |opened: &Opened, view: &View<'_>| matches!(opened, Opened::Saved(_)) && !view.has_addresses;
    let compared = Compared {
        addresses: a.has_addresses && b.has_addresses,
        unprinted: !is_text(&before, &a) && !is_text(&after, &b),
    };
    let mut differences = Vec::new();
    let known = common(&a.known(), &b.known(), range);
    if known.is_empty() {
        return Err(nothing_in_common(&a, &b));
    }
    for range in known {
        sweep((a.geometry, &rows_a), (b.geometry, &rows_b), range, compared, |found| differences.push(found));
    }
    let diff = Diff { views: [&a, &b], range, addresses: compared.addresses, differences };
    report::print(&diff, options.json)?;
    Ok(if diff.is_same() { Status::Fine } else { Status::Findings })
}

/// Returns the addresses to compare: those that the options name, as far as both maps have them. A saved dump can be
/// a part.
fn range(options: &Options, a: &View<'_>, b: &View<'_>) -> Result<(Va, Va), Failure> {
    let asked = match options.range {
        Some(range) => range,
        None if options.linear => {
            let (a, b) = (regions::linear(a.geometry), regions::linear(b.geometry));
            (a.0.min(b.0), a.1.max(b.1))
        }
        None => (Va(1 << 63), Va(u64::MAX)),
    };
    let (first, last) = [a, b].iter().fold(asked, |(first, last), view| {
        let (from, to) = view.extent;
        (first.max(from), last.min(to))
    });
    if last < first {
        return Err(nothing_in_common(a, b));
    }
    Ok((first, last))
}

/// Returns the known addresses of both maps within a range.
fn common(a: &[(Va, Va)], b: &[(Va, Va)], (first, last): (Va, Va)) -> Vec<(Va, Va)> {
    let pairs =
        a.iter().flat_map(|a| b.iter().map(move |b| (a.0.max(b.0).max(first), a.1.min(b.1).min(last))));
    pairs.filter(|(first, last)| first <= last).collect()
}

fn nothing_in_common(a: &View<'_>, b: &View<'_>) -> Failure {
    Failure::Wrong(format!("{} and {} have no addresses in common", a.name(), b.name()))
}
