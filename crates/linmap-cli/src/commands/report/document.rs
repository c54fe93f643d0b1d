//! The report as one JSON document, `linmap.report/1`.

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::measurement::{Cell, Measurement, Setting, Turns};
use super::predicted::{Modelled, Predicted};
use super::published::PUBLISHED;
use super::reported::Reported;
use super::verdict;

const SCHEMA: &str = "linmap.report/1";

/// Returns the whole document.
pub(crate) fn of(reported: &[Reported]) -> Value {
    let published = PUBLISHED.iter().map(|p| json!({ "work": p.work, "what": p.what }));
    json!({
        "schema": SCHEMA,
        "ok": reported.iter().all(|one| one.measurement.wrong() == 0),
        "machines": reported.iter().map(machine).collect::<Vec<_>>(),
        "published": published.collect::<Vec<_>>(),
    })
}

/// Returns the document of a failure.
pub(crate) fn of_failure(failure: &Failure) -> Value {
    json!({ "schema": SCHEMA, "ok": false, "error": failure.to_string() })
}

fn machine(reported: &Reported) -> Value {
    let Measurement { name, machine, cpu, page_size, policy, setting, cells, changes, .. } =
        &reported.measurement;
    let changes: Map<String, Value> = changes
        .iter()
        .map(|(name, change)| (name.clone(), json!({ "times": change.times, "ns": change.ns })))
        .collect();
    let (core, modelled, why) = match &reported.predicted {
        Predicted::Nothing(why) => (None, vec![], Some(why)),
        Predicted::Cells(core, cells) => (Some(core), cells.iter().map(model).collect(), None),
    };
    json!({
        "name": name,
        "machine": machine,
        "cpu": cpu,
        "page_size": page_size,
        "policy": policy,
        "emulated": setting.emulated,
        "effort": setting.effort,
        "bytes": setting.bytes,
        "leaf_bytes": setting.leaf_bytes,
        "wrong": reported.measurement.wrong(),
        "cut_off": reported.measurement.cut_off,
        "earlier": reported.measurement.earlier,
        "cells": cells.iter().map(|one| cell(setting, one)).collect::<Vec<_>>(),
        "changes": changes,
        "model": { "core": core, "why_not": why, "cells": modelled },
    })
}

fn cell(setting: &Setting, cell: &Cell) -> Value {
    let verdict = verdict::of(setting, cell);
    json!({
        "work": cell.work,
        "bytes": cell.bytes,
        "cpus": cell.cpus,
        "steps": cell.steps,
        "wrong": cell.wrong,
        "pages": cell.pages.as_ref().map(|turns| timed(cell, turns)),
        "large": cell.large.as_ref().map(|turns| timed(cell, turns)),
        "more_work_percent": verdict.map(|verdict| verdict.percent),
        "within_spread": verdict.map(|verdict| verdict.within_spread),
    })
}

fn timed(cell: &Cell, turns: &Turns) -> Value {
    let per_1000: Map<String, Value> = turns
        .counts
        .keys()
        .filter_map(|name| Some((name.clone(), json!(cell.of_1000_steps(turns, name)?))))
        .collect();
    json!({
        "turns": turns.turns,
        "ns": turns.ns,
        "ns_of_step": cell.ns_of_step(turns),
        "of_1000_steps": per_1000,
    })
}

fn model(modelled: &Modelled) -> Value {
    let both = |values: [f64; 2]| json!({ "pages": values[0], "large": values[1] });
    json!({
        "work": modelled.work.name(),
        "bytes": modelled.bytes,
        "l1_misses_of_1000_steps": both(modelled.l1_misses),
        "walks_of_1000_steps": both(modelled.walks),
    })
}
