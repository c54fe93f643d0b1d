//! Differences for people, in the form of `diff -u`, and as a document.

use std::io::{self, Write};

use linmap::Pa;
use serde_json::{Value, json};

use super::comparison::Diff;
use crate::commands::reading::{facts, geometry, hex, schema};
use crate::map::stretches::words;
use crate::map::sweep::{Difference, Side};
use crate::size::{grouped, human};
use crate::source::EntryKind;
use crate::terminal;

/// Prints all differences.
pub(super) fn print(diff: &Diff<'_>, json: bool) -> io::Result<()> {
    if json { terminal::print_document(&document(diff)) } else { terminal::stream(|out| text(diff, out)) }
}

fn text(diff: &Diff<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (sign, view) in ["---", "+++"].iter().zip(diff.views) {
        writeln!(out, "{sign} {}: {}", view.name(), facts(view))?;
    }
    for difference in &diff.differences {
        for (sign, side) in ['-', '+'].iter().zip(&difference.sides) {
            writeln!(out, "{sign}{}", line(difference, side))?;
        }
    }
    writeln!(out, "{}", conclusion(diff))
}

/// `0xffff…-0xffff…       2M  64K  ro NX …  -> 0x40200000`
fn line(difference: &Difference, side: &Side) -> String {
    let (start, end) = (difference.va.0, difference.va.0.wrapping_add(difference.bytes));
    let range = format!("{start:#018x}-{end:#018x} {:>8}", human(difference.bytes));
    match side.what {
        EntryKind::Hole => format!("{range}  nothing"),
        EntryKind::Reserved => format!("{range}  a descriptor without a meaning"),
        EntryKind::Leaf { oa, attributes, contiguous, valid } => {
            let to = oa.map(|Pa(oa)| format!("  -> {oa:#x}")).unwrap_or_default();
            let size = human(side.entry_bytes);
            format!("{range} {size:>5}  {}{to}", words(attributes, contiguous, valid))
        }
    }
}

fn conclusion(diff: &Diff<'_>) -> String {
    let (first, last) = diff.range;
    let left_out = if diff.addresses { "" } else { "; output addresses were not compared" };
    let [a, b] = diff.geometries();
    let geometry = if a == b { "" } else { "page size, VA size or address format differ; " };
    match diff.differences.len() {
        0 => format!("{geometry}no difference from {first} to {last}{left_out}"),
        1 => format!("{geometry}1 range differs, {}{left_out}", human(bytes(diff))),
        n => format!("{geometry}{} ranges differ, {}{left_out}", grouped(n as u64), human(bytes(diff))),
    }
}

fn bytes(diff: &Diff<'_>) -> u64 {
    diff.differences.iter().map(|difference| difference.bytes).fold(0, u64::saturating_add)
}

fn document(diff: &Diff<'_>) -> Value {
    let [a, b] = diff.views.map(|view| json!({ "source": view.name(), "geometry": geometry(view.geometry) }));
    json!({
        "schema": schema("diff"),
        "ok": diff.is_same(),
        "a": a,
        "b": b,
        "first": hex(diff.range.0.0),
        "last": hex(diff.range.1.0),
        "addresses_compared": diff.addresses,
        "bytes": bytes(diff),
        "differences": diff.differences.iter().map(difference).collect::<Vec<_>>(),
    })
}

fn difference(difference: &Difference) -> Value {
    let [a, b] = difference.sides.map(|side| match side.what {
        EntryKind::Hole => Value::Null,
        EntryKind::Reserved => json!({ "kind": "reserved", "entry_bytes": side.entry_bytes }),
        EntryKind::Leaf { oa, attributes, contiguous, valid } => json!({
            "kind": "leaf",
            "entry_bytes": side.entry_bytes,
            "pa": oa.map(|oa| hex(oa.0)),
            "attributes": hex(attributes.bits()),
            "contiguous": contiguous,
            "valid": valid,
            "words": words(attributes, contiguous, valid),
        }),
    });
    json!({ "va": hex(difference.va.0), "bytes": difference.bytes, "a": a, "b": b })
}
