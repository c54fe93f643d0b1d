//! A dump in rows: JSON that can be read back, and CSV.

use std::io::{self, Write};

use linmap::{Half, Va};
use serde_json::{Value, json};

use crate::commands::names::Names;
use crate::commands::reading::{Failure, document, hex};
use crate::commands::selection::Part;
use crate::linux::regions::Regions;
use crate::map::stretches::{self, Permissions, words};
use crate::map::view::View;
use crate::source::{
    EntryKind, Restriction, SavedRun, cpu_document, dump_row, kernel_document, limits_document,
};
use crate::terminal;

/// Prints the document of `docs/schema/linmap.dump-2.json`, one row a line.
pub(super) fn print_json(
    view: &View<'_>,
    regions: &Regions,
    parts: &[Part],
    names: Option<&Names>,
) -> Result<(), Failure> {
    let rows = rows(view, parts)?;
    let mut head = document("dump", true, view);
    let list: Vec<Value> = regions
        .all()
        .iter()
        .map(|r| json!({ "name": r.name.text(), "first": hex(r.first.0), "last": hex(r.last.0) }))
        .collect();
    head["regions_from"] = json!(regions.basis.text());
    head["regions"] = json!(list);
    head["parts"] = json!(parts.iter().map(part).collect::<Vec<_>>());
    head["kernel"] = kernel_document(view.kernel);
    head["cpu"] = cpu_document(view.cpu);
    head["table_limits"] = limits_document(&limits(view, parts)?);
    head["missing"] = json!(missing(view, parts));
    let head = terminal::json_text(&head);
    Ok(terminal::stream(|out| {
        // The beginning without its closing brace, and the rest.
        writeln!(out, "{},\n  \"rows\": [", head.trim_end_matches(['}', '\n']))?;
        for (index, row) in rows.iter().enumerate() {
            let comma = if index + 1 < rows.len() { "," } else { "" };
            writeln!(out, "    {}{comma}", json_row(row, regions, names))?;
        }
        writeln!(out, "  ]\n}}")
    })?)
}

fn part(part: &Part) -> Value {
    let (first, last) = part.range;
    json!({ "start": part.start, "end": part.end, "first": hex(first.0), "last": hex(last.0) })
}

/// Returns the first and last address of the parts.
fn hull(parts: &[Part]) -> (Va, Va) {
    let first = parts.first().map_or(Va(0), |part| part.range.0);
    (first, parts.last().map_or(first, |part| part.range.1))
}

/// Returns the tables that restrict entries in the parts.
fn limits(view: &View<'_>, parts: &[Part]) -> Result<Vec<Restriction>, Failure> {
    stretches::restrictions(view, hull(parts)).map_err(Failure::rows(view))
}

/// Returns the facts that the dump will lack: those that are not known now, and the addresses that are left out.
fn missing(view: &View<'_>, parts: &[Part]) -> Vec<String> {
    let mut missing = view.missing().to_vec();
    let (first, last) = hull(parts);
    if first.0 > view.geometry.base(Half::Upper) || last.0 < u64::MAX {
        let left_out = format!("addresses that are not from {first} to {last}");
        if !missing.contains(&left_out) {
            missing.push(left_out);
        }
    }
    for (before, after) in parts.iter().zip(parts.iter().skip(1)) {
        let (last, next) = (before.range.1.0, after.range.0.0);
        if next.saturating_sub(last) > 1 {
            let gap = format!("addresses from {} to {}", Va(last + 1), Va(next - 1));
            if !missing.contains(&gap) {
                missing.push(gap);
            }
        }
    }
    missing
}

/// Returns all rows of the parts, holes included.
fn rows(view: &View<'_>, parts: &[Part]) -> Result<Vec<SavedRun>, Failure> {
    let mut rows: Vec<SavedRun> = Vec::new();
    for part in parts {
        let more = stretches::of(view, part.range, Permissions::Own).map_err(Failure::rows(view))?;
        // An entry that reaches into two parts is in the first.
        let seen = rows.last().map(|last| last.va.0.wrapping_add(last.bytes - 1));
        rows.extend(more.into_iter().filter_map(|row| after(row, seen)));
    }
    Ok(rows)
}

/// Returns the part of a row after the last address that was seen.
fn after(row: SavedRun, seen: Option<u64>) -> Option<SavedRun> {
    let Some(seen) = seen.filter(|seen| *seen >= row.va.0) else { return Some(row) };
    let gone = seen - row.va.0 + 1;
    let left = row.bytes.checked_sub(gone).filter(|left| *left > 0)?;
    let (what, descriptor) = row.at(gone);
    Some(SavedRun { va: Va(seen + 1), bytes: left, what, descriptor, ..row })
}

/// Returns one row of the document, with keys for reading back and keys for people.
fn json_row(row: &SavedRun, regions: &Regions, names: Option<&Names>) -> Value {
    let mut value = dump_row(row);
    value["region"] = json!(regions.name_at(row.va));
    if let Some(name) = names.and_then(|names| names.name(row.va)) {
        value["symbol"] = json!(name);
    }
    if let EntryKind::Leaf { attributes, contiguous, valid, .. } = row.what {
        value["words"] = json!(words(attributes, contiguous, valid));
    }
    value
}

const fn kind(what: &EntryKind) -> &'static str {
    match what {
        EntryKind::Hole => "hole",
        EntryKind::Reserved => "reserved",
        EntryKind::Leaf { .. } => "leaf",
    }
}

/// Prints all mapped entries, one line for each row.
pub(super) fn print_csv(
    view: &View<'_>,
    regions: &Regions,
    parts: &[Part],
    names: Option<&Names>,
) -> Result<(), Failure> {
    let rows = rows(view, parts)?;
    Ok(terminal::stream(|out| {
        let more = if names.is_some() { ",symbol" } else { "" };
        writeln!(out, "region,va,bytes,level,kind,pa,attributes,contiguous,valid,words{more}")?;
        let mapped = rows.iter().filter(|row| row.what != EntryKind::Hole);
        mapped.into_iter().try_for_each(|row| {
            write_csv(out, row, regions)?;
            match names {
                Some(names) => writeln!(out, ",{}", names.name(row.va).unwrap_or_default()),
                None => writeln!(out),
            }
        })
    })?)
}

fn write_csv(out: &mut dyn Write, row: &SavedRun, regions: &Regions) -> io::Result<()> {
    let (region, va, kind) = (regions.name_at(row.va), row.va, kind(&row.what));
    write!(out, "{region},{va},{},{},{kind},", row.bytes, row.level.number())?;
    let EntryKind::Leaf { oa, attributes, contiguous, valid } = row.what else {
        return write!(out, ",,,,");
    };
    let pa = oa.map(|oa| oa.to_string()).unwrap_or_default();
    let words = words(attributes, contiguous, valid);
    write!(out, "{pa},{:#x},{contiguous},{valid},{words}", attributes.bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::arch::Level;
    use linmap::{Attributes, Pa};

    #[test]
    fn what_two_parts_share_is_one_row() {
        let what = EntryKind::Leaf {
            oa: Some(Pa(0x1000)),
            attributes: Attributes::RAM,
            contiguous: false,
            valid: true,
        };
        let row =
            SavedRun { va: Va(0x4000), bytes: 0x3000, level: Level::PAGE, what, descriptor: Some(0x1703) };
        assert_eq!(after(row, None), Some(row));
        assert_eq!(after(row, Some(0x3fff)), Some(row));
        let rest = after(row, Some(0x4fff)).expect("two pages");
        assert_eq!((rest.va, rest.bytes), (Va(0x5000), 0x2000));
        assert_eq!(rest.descriptor, Some(0x2703));
        assert!(matches!(rest.what, EntryKind::Leaf { oa: Some(Pa(0x2000)), .. }));
        assert_eq!(after(row, Some(0x6fff)), None);
        assert_eq!(after(row, Some(u64::MAX)), None);
    }
}
