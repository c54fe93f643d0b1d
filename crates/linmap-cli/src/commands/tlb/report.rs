//! The result for people: one workload in detail, or several side by side.

use linmap_plot::Spread;
use linmap_tlb::{Core, Counts, MissCounts, WalkCache};

use super::experiment::{Experiment, Outcome};
use super::figures::FIGURES;
use super::options::Options;
use super::published;
use crate::commands::plan::granule_name;
use crate::size::{grouped, human};
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// Returns the whole report, with styles, ending in a line break.
pub(crate) fn of(options: &Options, experiment: &Experiment) -> String {
    let body = match &experiment.outcomes[..] {
        [one] => detail(one),
        several => overview(several),
    };
    let mut parts = vec![heading(options, experiment), body];
    let published: String = experiment.outcomes.iter().filter_map(published_beside).collect();
    parts.extend((!published.is_empty()).then_some(published));
    parts.join("\n")
}

fn heading(options: &Options, experiment: &Experiment) -> String {
    let Core { name, l1, l2, coalesce, contiguous, walk_cache, .. } = &experiment.core;
    let coalesced = match coalesce {
        1 => "no coalescing".to_owned(),
        pages => format!("{pages} pages coalesce"),
    };
    let runs = if *contiguous { "contiguous runs used" } else { "contiguous runs not used" };
    let walk = match walk_cache {
        WalkCache::None => "no walk cache".to_owned(),
        WalkCache::InL2 => "walk cache in L2".to_owned(),
        WalkCache::Own { entries, .. } => format!("walk cache of {entries}"),
    };
    format!(
        "{HEADING}{name}{HEADING:#}: L1 {l1}; L2 {l2}; {coalesced}, {runs}, {walk}\n\
         {HEADING}Memory{HEADING:#}: {} of {}, {}, {} placement; {} accesses, {} {}\n\
         {ASIDE}For each 1,000 accesses of a cache line, mean over the seeds.{ASIDE:#}\n",
        human(options.footprint.0),
        experiment.machine,
        granule_name(experiment.geometry),
        options.placement.name(),
        grouped(options.accesses),
        options.seeds,
        if options.seeds == 1 { "seed" } else { "seeds" },
    )
}

/// All figures of one workload.
fn detail(outcome: &Outcome) -> String {
    let rows = FIGURES.iter().map(|figure| {
        let [pages, large] = figure.spreads(outcome);
        let change = figure.change(outcome);
        vec![
            figure.name.to_owned(),
            number(pages.mean),
            range(pages),
            number(large.mean),
            range(large),
            change.map(percent).unwrap_or_default(),
        ]
    });
    let header = [outcome.name.as_str(), "in pages", "from, to", "in large leaves", "from, to", "change"];
    table(&header, rows) + "\n" + &totals(&outcome.counts)
}

/// The sums over all seeds.
fn totals(counts: &[MissCounts]) -> String {
    let of = |c: &Counts| [c.accesses, c.l1_misses, c.walks, c.walk_reads];
    let sums = |map: fn(&MissCounts) -> &Counts| {
        counts.iter().fold([0; 4], |sums, c| std::array::from_fn(|kind| sums[kind] + of(map(c))[kind]))
    };
    let (pages, large) = (sums(|c| &c.pages), sums(|c| &c.large));
    let names = ["accesses", "L1 misses", "L2 misses (walks)", "reads of walks"];
    let rows = names.iter().zip(pages).zip(large);
    let rows = rows.map(|((name, pages), large)| vec![(*name).to_owned(), grouped(pages), grouped(large)]);
    table(&["all seeds", "in pages", "in large leaves"], rows)
}

/// One line for each workload.
fn overview(outcomes: &[Outcome]) -> String {
    let rows = outcomes.iter().map(|outcome| {
        let mut row = vec![outcome.name.clone()];
        for figure in &FIGURES[..2] {
            let [pages, large] = figure.spreads(outcome);
            row.extend([number(pages.mean), number(large.mean)]);
            row.push(figure.change(outcome).map(percent).unwrap_or_default());
        }
        row
    });
    let header = ["workload", "L1 misses: pages", "large", "change", "walks: pages", "large", "change"];
    table(&header, rows)
}

/// The measurement on hardware, beside the modelled change.
fn published_beside(outcome: &Outcome) -> Option<String> {
    let published = published::of(outcome.workload?)?;
    let [l1, walks, _] =
        FIGURES.each_ref().map(|figure| figure.change(outcome).map(percent).unwrap_or_default());
    Some(format!(
        "{HEADING}{}{HEADING:#}: modelled {l1} L1 misses and {walks} walks; published {:+.1}% {} ({}).\n\
         {ASIDE}Why they differ: {}.{ASIDE:#}\n",
        outcome.name, published.change, published.what, published.source, published.difference,
    ))
}

fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v >= 100.0 => format!("{v:.1}"),
        v if v >= 0.1 => format!("{v:.2}"),
        v if v >= 0.0001 => format!("{v:.4}"),
        _ => "<0.0001".to_owned(),
    }
}

fn range(spread: Spread) -> String {
    format!("{}, {}", number(spread.least), number(spread.most))
}

fn percent(spread: Spread) -> String {
    match spread.mean {
        v if v > -100.0 && v < -99.9 => "<-99.9%".to_owned(),
        v => format!("{v:+.1}%"),
    }
}
