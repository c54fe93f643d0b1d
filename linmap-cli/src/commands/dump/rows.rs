//! A dump in rows: JSON that can be read back, and CSV.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::selection::Part;
use crate::commands::reading::{Failure, document, hex};
use crate::linux::regions::Regions;
use crate::map::stretches::{self, Permissions, words};
use crate::map::view::View;
use crate::source::{Stretch, What, dump_row};
use crate::terminal;

/// Prints the document of `docs/schema/linmap.dump-1.json`, one row a line.
pub(super) fn print_json(view: &View<'_>, regions: &Regions, parts: &[Part]) -> Result<(), Failure> {
    let (rows, markers) = rows(view, parts)?;
    let mut head = document("dump", true, view);
    let list: Vec<Value> = regions
        .all()
        .iter()
        .map(|r| json!({ "name": r.name.text(), "first": hex(r.first.0), "last": hex(r.last.0) }))
        .collect();
    head["regions_from"] = json!(regions.basis.text());
    head["regions"] = json!(list);
    head["markers"] =
        json!(markers.iter().map(|(row, text)| json!({ "row": row, "text": text })).collect::<Vec<_>>());
    let head = format!("{head:#}");
    Ok(terminal::stream(|out| {
        // The head without its closing brace, and what is still missing.
        writeln!(out, "{},\n  \"rows\": [", head.trim_end_matches(['}', '\n']))?;
        for (index, row) in rows.iter().enumerate() {
            let comma = if index + 1 < rows.len() { "," } else { "" };
            writeln!(out, "    {}{comma}", json_row(row, regions))?;
        }
        writeln!(out, "  ]\n}}")
    })?)
}

/// A marker line: the row that it stands in front of, and what it says.
type Marker = (usize, &'static str);

/// Everything in the parts, holes included, and the lines around each part.
fn rows(view: &View<'_>, parts: &[Part]) -> Result<(Vec<Stretch>, Vec<Marker>), Failure> {
    let (mut rows, mut markers): (Vec<Stretch>, Vec<Marker>) = (Vec::new(), Vec::new());
    for part in parts {
        let more = stretches::of(view, part.range, Permissions::Own).map_err(Failure::rows(view))?;
        // An entry that reaches into two parts is in the first.
        let seen = rows.last().map(|last| last.va.0.wrapping_add(last.bytes - 1));
        markers.push((rows.len(), part.start));
        rows.extend(more.into_iter().filter_map(|row| after(row, seen)));
        markers.push((rows.len(), part.end));
    }
    Ok((rows, markers))
}

/// What is left of a row behind the last address that was seen.
fn after(row: Stretch, seen: Option<u64>) -> Option<Stretch> {
    let Some(seen) = seen.filter(|seen| *seen >= row.va.0) else { return Some(row) };
    let gone = seen - row.va.0 + 1;
    let left = row.bytes.checked_sub(gone).filter(|left| *left > 0)?;
    Some(Stretch { va: linmap::Va(seen + 1), bytes: left, what: stretches::at(&row.what, gone), ..row })
}

/// One row of the document: what is read back, and what helps people.
fn json_row(row: &Stretch, regions: &Regions) -> Value {
    let mut value = dump_row(row);
    value["region"] = json!(regions.name_at(row.va));
    if let What::Leaf { attributes, contiguous, valid, .. } = row.what {
        value["words"] = json!(words(attributes, contiguous, valid));
    }
    value
}

const fn kind(what: &What) -> &'static str {
    match what {
        What::Hole => "hole",
        What::Reserved => "reserved",
        What::Leaf { .. } => "leaf",
    }
}

/// Prints what is mapped, a line for each row.
pub(super) fn print_csv(view: &View<'_>, regions: &Regions, parts: &[Part]) -> Result<(), Failure> {
    let (rows, _) = rows(view, parts)?;
    Ok(terminal::stream(|out| {
        writeln!(out, "region,va,bytes,level,kind,pa,attributes,contiguous,valid,words")?;
        let mapped = rows.iter().filter(|row| row.what != What::Hole);
        mapped.into_iter().try_for_each(|row| write_csv(out, row, regions))
    })?)
}

fn write_csv(out: &mut dyn Write, row: &Stretch, regions: &Regions) -> io::Result<()> {
    let (region, va, kind) = (regions.name_at(row.va), row.va, kind(&row.what));
    write!(out, "{region},{va},{},{},{kind},", row.bytes, row.level.number())?;
    let What::Leaf { oa, attributes, contiguous, valid } = row.what else { return writeln!(out, ",,,,") };
    let pa = oa.map(|oa| oa.to_string()).unwrap_or_default();
    let words = words(attributes, contiguous, valid);
    writeln!(out, "{pa},{:#x},{contiguous},{valid},{words}", attributes.bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::{Attributes, Level, Pa, Va};

    #[test]
    fn what_two_parts_share_is_one_row() {
        let what =
            What::Leaf { oa: Some(Pa(0x1000)), attributes: Attributes::RAM, contiguous: false, valid: true };
        let row = Stretch { va: Va(0x4000), bytes: 0x3000, level: Level::PAGE, what };
        assert_eq!(after(row, None), Some(row));
        assert_eq!(after(row, Some(0x3fff)), Some(row));
        let rest = after(row, Some(0x4fff)).expect("two pages");
        assert_eq!((rest.va, rest.bytes), (Va(0x5000), 0x2000));
        assert!(matches!(rest.what, What::Leaf { oa: Some(Pa(0x2000)), .. }));
        assert_eq!(after(row, Some(0x6fff)), None);
        assert_eq!(after(row, Some(u64::MAX)), None);
    }
}
