//! The result as one JSON document, `linmap.tlb/1`. The same seed makes the same document.

use linmap_plot::Spread;
use linmap_tlb::Counts;
use serde_json::{Map, Value, json};

use super::experiment::{Experiment, Outcome};
use super::failure::Failure;
use super::figures::FIGURES;
use super::options::Options;
use super::published;

const SCHEMA: &str = "linmap.tlb/1";

/// Returns the whole document.
pub(crate) fn of(options: &Options, experiment: &Experiment) -> Value {
    let parameters = experiment.core.parameters.iter();
    let core: Map<String, Value> =
        parameters.map(|p| (p.key.to_owned(), json!({ "value": p.value, "source": p.source }))).collect();
    json!({
        "schema": SCHEMA,
        "ok": true,
        "core": core,
        "machine": experiment.machine,
        "page_size": experiment.geometry.page_size(),
        "va_bits": experiment.geometry.va_bits(),
        "placement": options.placement.name(),
        "footprint": options.footprint.0,
        "seeds": (0..u64::from(options.seeds)).map(|n| options.seed.wrapping_add(n)).collect::<Vec<_>>(),
        "line_bytes": 64,
        "workloads": experiment.outcomes.iter().map(workload).collect::<Vec<_>>(),
        "notes": experiment.notes,
    })
}

/// Returns the document of a failure.
pub(crate) fn of_failure(failure: &Failure) -> Value {
    json!({ "schema": SCHEMA, "ok": false, "error": failure.to_string() })
}

fn workload(outcome: &Outcome) -> Value {
    let figures = |map: usize| -> Map<String, Value> {
        FIGURES.iter().map(|figure| (figure.key.to_owned(), spread(figure.spreads(outcome)[map]))).collect()
    };
    let changes: Map<String, Value> = FIGURES
        .iter()
        .map(|figure| (figure.key.to_owned(), figure.change(outcome).map_or(Value::Null, spread)))
        .collect();
    let published = outcome.workload.and_then(published::of).map(|published| {
        json!({
            "percent": published.change,
            "what": published.what,
            "source": published.source,
            "difference": published.difference,
        })
    });
    json!({
        "name": outcome.name,
        "per_1000_accesses": { "pages": figures(0), "large": figures(1) },
        "change_percent": changes,
        "by_seed": outcome.counts.iter().map(|seed| {
            json!({ "pages": counts(&seed.pages), "large": counts(&seed.large) })
        }).collect::<Vec<_>>(),
        "published": published,
    })
}

fn counts(counts: &Counts) -> Value {
    let ratio = |part: u64| part as f64 / counts.accesses.max(1) as f64;
    json!({
        "accesses": counts.accesses,
        "l1_misses": counts.l1_misses,
        "walks": counts.walks,
        "walk_reads": counts.walk_reads,
        "l1_miss_ratio": ratio(counts.l1_misses),
        "walk_ratio": ratio(counts.walks),
    })
}

fn spread(spread: Spread) -> Value {
    json!({ "mean": spread.mean, "least": spread.least, "most": spread.most })
}
