//! `linmap stat`: the linear map at a glance, the savings of large leaves, and why it has none.
//!
//! - `survey`: the leaves of the map.  `gather`: evidence from the source.  `report`: the result for people.

mod gather;
mod report;
mod survey;

use clap::Args;
use linmap::{Geometry, Layout, LeafSize, Leaves, Pa, Rodata, Stats, Va};
use serde_json::{Value, json};

use super::reading::{Failure, SOURCES, SourceArgument, concluded, document, hex, regions, view};
use crate::linux::cause::{Explanation, Statement, explain};
use crate::linux::evidence::Evidence;
use crate::linux::remedy::Remedy;
use crate::map::image::Image;
use crate::map::view::View;
use crate::source::Wanted;
use crate::status::Status;
use crate::terminal;
use survey::Survey;

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

/// The result.
struct Findings {
    survey: Survey,
    evidence: Evidence,
    explanation: Explanation,
    /// The cost of the same memory in the largest leaves; unknown if it is too scattered.
    largest: Option<Stats>,
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
        terminal::print_document(&findings.document(&view))?;
    } else {
        terminal::print(&report::of(&view, &findings))?;
    }
    Ok(Status::Fine)
}

impl Findings {
    fn of(view: &View<'_>) -> Result<Self, Failure> {
        let walk = Failure::walk(view);
        let image = Image::find(view).map_err(&walk)?;
        let memory = image.as_ref().map(Image::memory);
        let survey = Survey::of(view, memory.as_ref()).map_err(&walk)?;
        if survey.first.is_none() {
            let (Va(first), Va(last)) = linmap::linear_range(view.geometry);
            let name = view.name();
            return Err(Failure::Wrong(format!(
                "{name}: no linear map: nothing is mapped from {first:#x} to {last:#x}"
            )));
        }
        let regions = regions(view, image.as_ref());
        let evidence = gather::evidence(view, &survey, image.as_ref(), &regions).map_err(&walk)?;
        let explanation = explain(&evidence);
        let largest = largest(view.geometry, &survey, image.as_ref().and_then(Image::constant));
        Ok(Self { survey, evidence, explanation, largest })
    }

    fn document(&self, view: &View<'_>) -> Value {
        let g = view.geometry;
        let mut document = document("stat", true, view);
        document["linear"] = counts(g, &self.survey.stats);
        document["linear"]["start"] = json!(self.survey.first.map(|va| hex(va.0)));
        document["linear"]["offset"] = json!(view.has_addresses.then(|| hex(self.survey.offset)));
        document["largest"] = self.largest.map_or(Value::Null, |stats| counts(g, &stats));
        document["invalid"] = self.invalid(g);
        document["in_pages"] = json!(self.evidence.in_pages());
        document["causes"] = json!(
            self.explanation
                .causes
                .iter()
                .map(|(cause, why)| {
                    json!({ "cause": cause.id(), "certainty": certainty(why), "text": why.text })
                })
                .collect::<Vec<_>>()
        );
        let facts = self.explanation.facts.iter();
        document["facts"] =
            json!(facts.map(|f| json!({ "certainty": certainty(f), "text": f.text })).collect::<Vec<_>>());
        let remedies = &self.explanation.remedies;
        document["remedies"] = json!(remedies.iter().map(Remedy::to_string).collect::<Vec<_>>());
        document["advice"] = json!(remedies.iter().map(advice).collect::<Vec<_>>());
        document
    }

    /// The invalid pages by purpose.
    fn invalid(&self, geometry: Geometry) -> Value {
        let kinds = self.evidence.invalid.iter().map(|kind| {
            json!({
                "what": kind.what.id(),
                "certainty": kind.what.certainty().text(),
                "text": kind.what.text(),
                "pages": kind.bytes / geometry.page_size(),
                "bytes": kind.bytes,
                "places": kind.places,
                "start": hex(kind.va),
            })
        });
        kinds.collect::<Vec<_>>().into()
    }
}

const fn certainty(statement: &Statement) -> &'static str {
    statement.certainty.text()
}

/// A remedy, for programs.
fn advice(remedy: &Remedy) -> Value {
    json!({
        "release": remedy.release.map(|release| release.to_string()),
        "cpus_that_never_abort": remedy.cpus,
        "with": remedy.with,
        "without": remedy.without,
    })
}

/// Leaves and cost of one map.
fn counts(geometry: Geometry, stats: &Stats) -> Value {
    let leaf = |size: &LeafSize| {
        json!({
            "size": 1_u64 << size.entry_shift,
            "contiguous": size.contiguous,
            "descriptors": stats.descriptors(*size),
        })
    };
    let sizes = geometry.leaf_sizes();
    let leaves: Vec<Value> = sizes.iter().filter(|size| stats.descriptors(**size) != 0).map(leaf).collect();
    json!({
        "bytes": stats.bytes(geometry),
        "leaves": leaves,
        "tables": stats.tables,
        "table_bytes": stats.table_bytes(geometry),
        "tlb_entries": stats.tlb_entries(geometry),
    })
}

/// Returns the cost of the same memory in the largest leaves, with the kernel's text and constants apart.
fn largest(geometry: Geometry, survey: &Survey, constant: Option<std::ops::Range<Pa>>) -> Option<Stats> {
    if survey.is_scattered {
        return None;
    }
    let of = |image: std::ops::Range<Pa>| {
        let mut memory = survey.memory.clone();
        let layout = Layout::new(geometry, &mut memory, &mut [], image, Rodata::Full).ok()?;
        (layout.dropped_bytes() == 0).then(|| Stats::of_runs(geometry, layout.runs(Leaves::Largest)))
    };
    // An image outside of the memory is left out.
    let nothing = Pa(0)..Pa(0);
    of(constant.unwrap_or(nothing.clone())).or_else(|| of(nothing))
}

#[cfg(test)]
mod tests;
