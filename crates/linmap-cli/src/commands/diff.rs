//! `linmap diff`: what changed from one map to another.
//!
//! - `comparison`: the ranges where two maps differ.  `report`: these, for people and programs.

mod comparison;
mod report;

use clap::Args;
use linmap::Va;

use super::options::MapOptions;
use super::reading::{
    Failure, SOURCES, concluded, open, refuse_unless_guest, regions as regions_of, source_parser, view,
};
use super::selection::Selection;
use crate::linux::regions;
use crate::map::image::Image;
use crate::map::stretches::{self, Permissions};
use crate::map::sweep::{Compared, sweep};
use crate::map::view::View;
use crate::progress;
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

    /// The linear map only, as --region linear
    #[arg(long, conflicts_with_all = ["range", "region"])]
    linear: bool,

    #[command(flatten)]
    map: MapOptions,
}

/// Compares two maps and reports the differences.
pub(crate) fn run(options: &Options) -> Status {
    concluded("diff", options.map.form.json, diff(options))
}

fn diff(options: &Options) -> Result<Status, Failure> {
    if options.before == Source::Standard && options.after == Source::Standard {
        return Err(Failure::Wrong("A and B are both the standard input, which can be read once".to_owned()));
    }
    refuse_unless_guest(options.map.pausing, [&options.before, &options.after])?;
    let wanted =
        options.map.selection.range().map_or(Wanted::All, |(first, last)| Wanted::Range(first, last));
    let open = |source| open(source, wanted, options.map.pausing);
    let (before, after) = (open(&options.before)?, open(&options.after)?);
    let (a, b) = (view(&before)?, view(&after)?);
    let ranges = ranges(options, &a, &b)?;
    let range = hull(&ranges);
    progress::begin("comparing");
    let rows = |view| stretches::of(view, range, Permissions::Effective).map_err(Failure::rows(view));
    let (rows_a, rows_b): (Vec<SavedRun>, Vec<SavedRun>) = (rows(&a)?, rows(&b)?);
    let is_text =
        |opened: &Opened, view: &View<'_>| matches!(opened, Opened::Saved(_)) && !view.has_addresses;
    let compared = Compared {
        addresses: a.has_addresses && b.has_addresses,
        unprinted: !is_text(&before, &a) && !is_text(&after, &b),
    };
    let mut differences = Vec::new();
    for range in ranges {
        sweep((a.geometry, &rows_a), (b.geometry, &rows_b), range, compared, |found| differences.push(found));
    }
    let diff = Diff { views: [&a, &b], range, addresses: compared.addresses, differences };
    report::print(&diff, options.map.form)?;
    Ok(if diff.is_same() { Status::Fine } else { Status::Findings })
}

/// Returns the addresses to compare: those that the options select in either map, as far as both have them. A saved dump
/// can be a part.
fn ranges(options: &Options, a: &View<'_>, b: &View<'_>) -> Result<Vec<(Va, Va)>, Failure> {
    let selection = &options.map.selection;
    let asked = if options.linear {
        [a, b].map(|view| regions::linear(view.geometry)).to_vec()
    } else if selection.is_default() {
        vec![(Va(1 << 63), Va(u64::MAX))]
    } else {
        [selected(selection, a)?, selected(selection, b)?].concat()
    };
    let both = common(&a.known(), &b.known());
    let ranges = common(&merged(asked), &both);
    if ranges.is_empty() { Err(nothing_in_common(a, b)) } else { Ok(ranges) }
}

fn selected(selection: &Selection, view: &View<'_>) -> Result<Vec<(Va, Va)>, Failure> {
    // The image can be outside of the range that was read.
    let image = match Image::find(view) {
        Err(_) if selection.range().is_some() => None,
        found => found.map_err(Failure::walk(view))?,
    };
    let parts = selection.parts(view, &regions_of(view, image.as_ref()))?;
    Ok(parts.iter().map(|part| part.range).collect())
}

/// Returns ranges in order, each address once.
fn merged(mut ranges: Vec<(Va, Va)>) -> Vec<(Va, Va)> {
    ranges.sort_unstable();
    let mut merged: Vec<(Va, Va)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first.0 <= before.1.0.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// Returns the addresses that are in ranges of both lists.
fn common(a: &[(Va, Va)], b: &[(Va, Va)]) -> Vec<(Va, Va)> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
    pairs.filter(|(first, last)| first <= last).collect()
}

/// Returns the first and the last address of ranges in order.
fn hull(ranges: &[(Va, Va)]) -> (Va, Va) {
    let first = ranges.first().map_or(Va(0), |range| range.0);
    (first, ranges.last().map_or(first, |range| range.1))
}

fn nothing_in_common(a: &View<'_>, b: &View<'_>) -> Failure {
    Failure::Wrong(format!("{} and {} have no addresses in common", a.name(), b.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_either_map_as_far_as_both_have_them() {
        let va = |ranges: &[(u64, u64)]| ranges.iter().map(|(a, b)| (Va(*a), Va(*b))).collect::<Vec<_>>();
        let asked = merged(va(&[(40, 49), (10, 19), (15, 25), (26, 29), (45, 46)]));
        assert_eq!(asked, va(&[(10, 29), (40, 49)]));
        assert_eq!(common(&asked, &va(&[(0, 11), (28, 44)])), va(&[(10, 11), (28, 29), (40, 44)]));
        assert_eq!(
            (hull(&asked), merged(va(&[(5, u64::MAX), (7, 9)]))),
            ((Va(10), Va(49)), va(&[(5, u64::MAX)]))
        );
    }
}
