//! The result for programs: one JSON document, `linmap.tlb/1`. The same seed makes the same document.

use serde_json::{Map, Value, json};

use super::experiment::{Experiment, Outcome, placement_name};
use super::failure::Failure;
use super::figures::FIGURES;
use super::options::Options;
use super::published;
use super::unit::Counts;
use linmap_plot::Spread;

const SCHEMA: &str = "linmap.tlb/1";

/// All of it.
pub(crate) fn of(options: &Options, experiment: &Experiment) -> Value {
    let said = experiment.core.said.iter();
    let core: Map<String, Value> = said
        .map(|said| (said.key.to_owned(), json!({ "value": said.value, "source": said.source })))
        .collect();
    json!({
        "schema": SCHEMA,
        "ok": true,
        "core": core,
        "machine": experiment.machine,
        "page_size": experiment.geometry.page_size(),
        "va_bits": experiment.geometry.va_bits(),
        "placement": placement_name(options),
        "footprint": options.footprint.0,
        "seeds": (0..u64::from(options.seeds)).map(|n| options.seed.wrapping_add(n)).collect::<Vec<_>>(),
        "line_bytes": 64,
        "workloads": experiment.outcomes.iter().map(workload).collect::<Vec<_>>(),
        "notes": experiment.notes,
    })
}

/// Why there is no result.
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
        "by_seed": outcome.counts.iter().map(|[pages, large]| {
            json!({ "pages": counts(pages), "large": counts(large) })
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
