//! A linear map for programs: one JSON document.

use linmap::arch::LeafSize;
use linmap::{Geometry, Stats};
use serde_json::{Value, json};

use super::findings::Findings;
use crate::commands::reading::{document, hex};
use crate::linux::cause::Statement;
use crate::linux::remedy::Remedy;
use crate::map::view::View;

/// Returns the document.
pub(super) fn of(view: &View<'_>, findings: &Findings) -> Value {
    let g = view.geometry;
    let mut document = document("stat", true, view);
    document["linear"] = counts(g, &findings.survey.stats);
    document["linear"]["start"] = json!(findings.survey.first.map(|va| hex(va.0)));
    document["linear"]["offset"] = json!(view.has_addresses.then(|| hex(findings.survey.offset)));
    document["largest"] = findings.largest.map_or(Value::Null, |stats| counts(g, &stats));
    document["invalid"] = invalid(findings, g);
    document["in_pages"] = json!(findings.evidence.in_pages());
    document["causes"] = json!(
        findings
            .explanation
            .causes
            .iter()
            .map(|(cause, why)| {
                json!({ "cause": cause.id(), "certainty": certainty(why), "text": why.text })
            })
            .collect::<Vec<_>>()
    );
    let facts = findings.explanation.facts.iter();
    document["facts"] =
        json!(facts.map(|f| json!({ "certainty": certainty(f), "text": f.text })).collect::<Vec<_>>());
    let remedies = &findings.explanation.remedies;
    document["remedies"] = json!(remedies.iter().map(Remedy::to_string).collect::<Vec<_>>());
    document["advice"] = json!(remedies.iter().map(advice).collect::<Vec<_>>());
    document
}

/// The invalid pages by purpose.
fn invalid(findings: &Findings, geometry: Geometry) -> Value {
    let kinds = findings.evidence.invalid.iter().map(|kind| {
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
pub(crate) fn counts(geometry: Geometry, stats: &Stats) -> Value {
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
