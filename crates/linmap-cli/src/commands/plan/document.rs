//! A plan as one JSON document, `linmap.plan/1`; a sweep as `linmap.plan.sweep/1`.
//!
//! `page_sizes[].linear` is what `linmap boot --json` reports as `linear` for the same machine.

use std::ops::Range;

use linmap::{Geometry, Pa, Stats};
use serde_json::{Value, json};

use super::failure::Failure;
use super::given::{Basis, Given};
use super::planned::{Counted, Planned};
use super::report::{decisions, mapped_in};
use super::sweep::Swept;
use crate::kernel_options::rodata_name;

const SCHEMA: &str = "linmap.plan/1";
const SWEEP_SCHEMA: &str = "linmap.plan.sweep/1";

/// Returns the document of a plan.
pub(crate) fn of(given: &Given<'_>, planned: &[Planned], notes: &[String]) -> Value {
    let modes: Vec<Value> = decisions(given)
        .iter()
        .map(|(who, decision, asked)| {
            json!({
                "never_abort": who,
                "mode": decision.mode.number(),
                "policy": decision.policy.to_string(),
                "because": decision.because,
                "mapped_in": mapped_in(decision.leaves()),
                "asked_for": asked,
            })
        })
        .collect();
    json!({
        "schema": SCHEMA,
        "ok": true,
        "machine": {
            "source": given.source,
            "ram": ranges(given.memory.ram.as_slice()),
            "ram_bytes": given.memory.ram.bytes(),
            "cpus": given.options.cpus,
        },
        "kernel": kernel(given),
        "rodata": rodata_name(given.options.kernel_options.rodata),
        "modes": modes,
        "page_sizes": planned.iter().map(page_size).collect::<Vec<_>>(),
        "notes": notes,
    })
}

/// The kernel in the plan, and the basis of its place.
fn kernel(given: &Given<'_>) -> Value {
    let basis = match given.basis {
        Basis::Nothing => return Value::Null,
        Basis::Assumed => "assumed",
        Basis::Measured => "measured",
        Basis::Named => "named",
        Basis::Iomem => "iomem",
    };
    json!({ "basis": basis, "read_only": range(&given.read_only), "image": range(&given.image) })
}

/// Returns the document of a failure.
pub(crate) fn of_failure(failure: &Failure) -> Value {
    json!({ "schema": SCHEMA, "ok": false, "error": failure.to_string() })
}

fn page_size(planned: &Planned) -> Value {
    let g = planned.geometry;
    json!({
        "page_size": g.page_size(),
        "va_bits": g.va_bits(),
        "levels": g.levels(),
        "mode": planned.decision.mode.number(),
        "policy": planned.decision.policy.to_string(),
        "memory": {
            "ram": ranges(&planned.ram),
            "image": range(&planned.alias),
            "carve_outs": planned.crash.iter().map(range).collect::<Vec<_>>(),
            "unaligned_bytes": planned.unaligned_bytes,
        },
        "linear": linear(planned),
        "pages": counted(g, &planned.pages),
        "large": counted(g, &planned.large),
        "saved_bytes": planned.saved_bytes(),
    })
}

/// The map that the kernel would make, with the keys of its own report.
fn linear(planned: &Planned) -> Value {
    let (g, stats) = (planned.geometry, planned.chosen());
    let (start, last) = planned.range;
    json!({
        "start": start.to_string(),
        "end": format!("{:#x}", last.0 + 1),
        "bytes": stats.bytes(g),
        "dropped_bytes": planned.dropped_bytes,
        "leaves": leaves(g, stats),
        "tables": stats.tables,
        "table_bytes": stats.table_bytes(g),
        "tlb_entries": stats.tlb_entries(g),
    })
}

fn counted(g: Geometry, Counted { stats, built }: &Counted) -> Value {
    json!({
        "leaves": leaves(g, stats),
        "tables": stats.tables,
        "table_bytes": stats.table_bytes(g),
        "tlb_entries": stats.tlb_entries(g),
        "built": built,
    })
}

fn leaves(g: Geometry, stats: &Stats) -> Vec<Value> {
    let sizes = g.leaf_sizes();
    let used = sizes.iter().filter(|size| stats.descriptors(**size) > 0);
    used.map(|size| {
        json!({
            "size": 1u64 << size.entry_shift,
            "contiguous": size.contiguous,
            "descriptors": stats.descriptors(*size),
        })
    })
    .collect()
}

fn ranges(ranges: &[Range<Pa>]) -> Vec<Value> {
    ranges.iter().map(range).collect()
}

fn range(range: &Range<Pa>) -> Value {
    json!([range.start.to_string(), range.end.to_string()])
}

/// Returns the document of a sweep, with one object for each row.
pub(crate) fn of_sweep(swept: &Swept) -> Value {
    let rows: Vec<Value> = swept
        .rows
        .iter()
        .map(|row| {
            let names = swept.columns[1..].iter().map(|column| column.key.to_owned());
            let values = names.zip(row.values.iter().map(|value| Value::from(*value)));
            let first = (swept.columns[0].key.to_owned(), Value::from(row.at));
            let page_size = row.page_size.map(|size| ("page_size".to_owned(), Value::from(size)));
            Value::Object(page_size.into_iter().chain([first]).chain(values).collect())
        })
        .collect();
    json!({
        "schema": SWEEP_SCHEMA,
        "ok": true,
        "sweep": swept.name,
        "title": swept.title,
        "subtitle": swept.subtitle,
        "rows": rows,
        "notes": swept.notes,
    })
}
