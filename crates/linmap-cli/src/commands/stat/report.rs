//! A linear map for people: leaves, cost, reasons, and remedies.

use linmap::arch::LeafSize;
use linmap::{Geometry, Stats};

use super::findings::Findings;
use crate::commands::reading::facts;
use crate::linux::certainty::Certainty;
use crate::map::leaves;
use crate::map::view::View;
use crate::size::{grouped, human};
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// Returns the whole report, ending in a line break.
pub(super) fn of(view: &View<'_>, findings: &Findings) -> String {
    let g = view.geometry;
    let stats = &findings.survey.stats;
    let mut parts =
        vec![heading(view, findings), leaf_table(g, stats), cost(g, stats, findings.largest.as_ref())];
    parts.extend(invalid(g, findings));
    parts.extend(why(findings));
    parts.extend(help(findings));
    parts.join("\n")
}

/// `Linear map: 4G, 4K granule, …`, then its leaves and the reasons.
fn heading(view: &View<'_>, findings: &Findings) -> String {
    let bytes = human(findings.survey.stats.bytes(view.geometry));
    let mut text = format!("{HEADING}Linear map{HEADING:#}: {bytes}, {}\n", facts(view));
    if findings.evidence.in_pages() {
        text += "Mapped with pages";
        for (index, (_, why)) in findings.explanation.causes.iter().enumerate() {
            let likely = if why.certainty == Certainty::Inferred { "probably " } else { "" };
            text += &format!("{} {likely}because {}", if index == 0 { "," } else { ",\nand" }, why.text);
        }
        text += "\n";
    } else {
        let large = share(findings.survey.large, findings.evidence.bytes);
        text += &format!("Mapped with large leaves: {large} of it in blocks and contiguous runs\n");
    }
    text
}

fn leaf_table(geometry: Geometry, stats: &Stats) -> String {
    let total = stats.bytes(geometry);
    let sizes = geometry.leaf_sizes();
    let used: Vec<&LeafSize> = sizes.iter().filter(|size| stats.descriptors(**size) != 0).collect();
    let row = |name: String, descriptors: u64, bytes: u64| {
        vec![name, grouped(descriptors), human(bytes), share(bytes, total)]
    };
    let mut rows: Vec<Vec<String>> = used
        .iter()
        .map(|size| {
            let descriptors = stats.descriptors(**size);
            row(leaves::name(**size), descriptors, descriptors << size.entry_shift)
        })
        .collect();
    if used.len() > 1 {
        let descriptors = used.iter().map(|size| stats.descriptors(**size)).sum();
        rows.push(row("total".to_owned(), descriptors, total));
    }
    table(&["leaves", "descriptors", "covered", "share"], rows)
}

fn cost(geometry: Geometry, stats: &Stats, largest: Option<&Stats>) -> String {
    let plain: fn(u64) -> String = grouped;
    let memory = |stats: &Stats| stats.table_bytes(geometry);
    let entries = |stats: &Stats| stats.tlb_entries(geometry);
    let lines = [
        ("table pages", stats.tables, largest.map(|l| l.tables), plain),
        ("table memory", memory(stats), largest.map(memory), human),
        ("TLB entries to cover RAM", entries(stats), largest.map(entries), plain),
    ];
    let rows = lines.map(|(name, this, largest, shown)| {
        let factor = largest.map(|largest| factor(this, largest)).unwrap_or_default();
        vec![name.to_owned(), shown(this), largest.map_or_else(|| "unknown".to_owned(), shown), factor]
    });
    table(&["cost", "this map", "large leaves", "factor"], rows)
}

/// The invalid pages: no coverage, no TLB entries.
fn invalid(geometry: Geometry, findings: &Findings) -> Option<String> {
    let kinds = &findings.evidence.invalid;
    let pages = |bytes: u64| grouped(bytes / geometry.page_size());
    let total: u64 = kinds.iter().map(|kind| kind.bytes).sum();
    let lines = kinds.iter().map(|kind| {
        let places =
            if kind.places == 1 { "at" } else { &format!("in {} places from", grouped(kind.places)) };
        let what = format!("{} {places} {:#x}: {}", pages(kind.bytes), kind.va, kind.what.text());
        line(kind.what.certainty(), &what)
    });
    let lines: String = lines.collect();
    let (pages, total) = (pages(total), human(total));
    (!lines.is_empty()).then(|| {
        format!(
            "{HEADING}Present-invalid{HEADING:#}: {pages} pages, {total}, which no access reaches\n{lines}"
        )
    })
}

/// One statement, and how it is known.
fn line(certainty: Certainty, text: &str) -> String {
    let word = if certainty == Certainty::Known { "seen" } else { "inferred" };
    format!("  {ASIDE}{word:8}{ASIDE:#}  {text}\n")
}

/// The facts that were seen, and the conclusions.
fn why(findings: &Findings) -> Option<String> {
    let facts = &findings.explanation.facts;
    let lines: String = facts.iter().map(|fact| line(fact.certainty, &fact.text)).collect();
    (!lines.is_empty()).then(|| format!("{HEADING}What is known{HEADING:#}\n{lines}"))
}

fn help(findings: &Findings) -> Option<String> {
    let remedies = &findings.explanation.remedies;
    let lines: String = remedies.iter().map(|remedy| format!("  {remedy}\n")).collect();
    (!lines.is_empty()).then(|| format!("{HEADING}What would help{HEADING:#}, any of\n{lines}"))
}

/// Returns a part of a whole in percent.
pub(crate) fn share(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0f64 / whole.max(1) as f64;
    match percent {
        _ if part == whole => "100%".to_owned(),
        _ if part == 0 => "0%".to_owned(),
        small if small < 0.1 => "<0.1%".to_owned(),
        large if large > 99.9 => ">99.9%".to_owned(),
        _ => format!("{percent:.1}%"),
    }
}

/// Returns how many times more this map costs.
fn factor(this: u64, largest: u64) -> String {
    match (this, largest) {
        (_, 0) => String::new(),
        (this, largest) if this >= largest.saturating_mul(10) => format!("{}x", grouped(this / largest)),
        (this, largest) => format!("{:.1}x", this as f64 / largest as f64),
    }
}
