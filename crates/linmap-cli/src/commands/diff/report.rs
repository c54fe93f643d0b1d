//! Differences for people, in the form of `diff -u`, and as a document.

use std::io::{self, Write};

use linmap::Pa;
use serde_json::{Value, json};

use super::comparison::Diff;
use crate::commands::csv;
use crate::commands::options::Form;
use crate::commands::reading::{facts, geometry, hex, schema};
use crate::map::stretches::words;
use crate::map::sweep::{Difference, Side};
use crate::size::{grouped, human};
use crate::source::EntryKind;
use crate::terminal;

/// Prints all differences.
pub(super) fn print(diff: &Diff<'_>, form: Form) -> io::Result<()> {
    if form.json {
        terminal::print_document(&document(diff))
    } else if form.csv {
        terminal::stream(|out| csv_rows(diff, out))
    } else {
        terminal::stream(|out| text(diff, out))
    }
}

fn csv_rows(diff: &Diff<'_>, out: &mut dyn Write) -> io::Result<()> {
    let side = ["kind", "entry_bytes", "pa", "attributes", "contiguous", "valid", "words"];
    let sides = ["a", "b"].iter().flat_map(|name| side.map(|column| format!("{name}_{column}")));
    let head = ["va", "bytes"].map(str::to_owned).into_iter().chain(sides);
    out.write_all(csv::row(head).as_bytes())?;
    for difference in &diff.differences {
        let place = [hex(difference.va.0), difference.bytes.to_string()];
        let cells = place.into_iter().chain(difference.sides.iter().flat_map(cells));
        out.write_all(csv::row(cells).as_bytes())?;
    }
    Ok(())
}

/// Returns one side of a difference; a hole is empty.
fn cells(side: &Side) -> [String; 7] {
    const EMPTY: String = String::new();
    match side.what {
        EntryKind::Hole => [EMPTY; 7],
        EntryKind::Reserved => {
            ["reserved".to_owned(), side.entry_bytes.to_string(), EMPTY, EMPTY, EMPTY, EMPTY, EMPTY]
        }
        EntryKind::Leaf { oa, attributes, contiguous, valid } => [
            "leaf".to_owned(),
            side.entry_bytes.to_string(),
            oa.map(|oa| hex(oa.0)).unwrap_or_default(),
            hex(attributes.bits()),
            contiguous.to_string(),
            valid.to_string(),
            words(attributes, contiguous, valid),
        ],
    }
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
