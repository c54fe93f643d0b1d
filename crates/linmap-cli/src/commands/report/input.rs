//! A file becomes a measurement: the log of a console, or one document. None is trusted.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::Failure;
use super::log;
use super::measurement::{Cell, Measurement};
use crate::commands::boot::document::{Document, address};
use crate::printable::excerpt;

/// The longest file that is read.
const LIMIT: u64 = 64 << 20;

/// Reads the measurement in a file.
pub(crate) fn read(path: &Path) -> Result<Measurement, Failure> {
    let unreadable = |error| Failure::Unreadable { path: path.into(), error };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() as u64 > LIMIT {
        return Err(Failure::TooLong { path: path.into(), limit: LIMIT });
    }
    let (document, earlier) = document(path, &bytes)?;
    Ok(Measurement { earlier, ..measurement(path, &document)? })
}

/// Returns the document in a file, and the number of measurements before it.
fn document(path: &Path, bytes: &[u8]) -> Result<(Document, usize), Failure> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return log::last_boot(path, bytes);
    }
    let mut whole = Document::default();
    match whole.merge_line(bytes) {
        Ok(()) => Ok((whole, 0)),
        Err(_) if log::is_one(bytes) => log::last_boot(path, bytes),
        Err(why) => Err(Failure::Document { path: path.into(), why }),
    }
}

/// Returns the measurement in a document.
fn measurement(path: &Path, document: &Document) -> Result<Measurement, Failure> {
    if let Some(schema) = document.at("/schema").filter(|schema| *schema != "linmap.boot/1") {
        return Err(Failure::Schema { path: path.into(), found: excerpt(&schema.to_string(), 60) });
    }
    if document.at("/measure").is_none() {
        return Err(Failure::NoMeasurement { path: path.into() });
    }
    let parts = Parts { path, document };
    Ok(Measurement {
        name: excerpt(&path.file_name().unwrap_or_default().to_string_lossy(), 60),
        machine: document.text("/machine").unwrap_or_default(),
        cpu: document.text("/cpu/name").unwrap_or_default(),
        page_size: parts.read("/page_size")?,
        va_bits: parts.read("/va_bits")?,
        policy: document.text("/policy").unwrap_or_default(),
        ram: parts.ram()?,
        start: parts.address("/measure/start", &parts.read("/measure/start")?)?,
        setting: parts.read("/measure")?,
        cells: parts.cells()?,
        changes: parts.named("/measure/changes")?,
        cut_off: parts.cut_off(),
        earlier: 0,
    })
}

/// The parts of a document.
struct Parts<'d> {
    path: &'d Path,
    document: &'d Document,
}

impl Parts<'_> {
    fn malformed(&self, part: &str, why: impl ToString) -> Failure {
        let (part, why) = (excerpt(part, 80), excerpt(&why.to_string(), 200));
        Failure::Malformed { path: self.path.into(), part, why }
    }

    /// Reads the part at a JSON pointer.
    fn read<T: DeserializeOwned>(&self, pointer: &str) -> Result<T, Failure> {
        self.value(pointer, self.document.at(pointer).cloned().unwrap_or_default())
    }

    fn value<T: DeserializeOwned>(&self, name: &str, value: Value) -> Result<T, Failure> {
        serde_json::from_value(value).map_err(|error| self.malformed(name, error))
    }

    /// Reads each value of an object, with its name; none if there is no object.
    fn named<T: DeserializeOwned>(&self, pointer: &str) -> Result<Vec<(String, T)>, Failure> {
        let keys = self.document.at(pointer).and_then(Value::as_object).into_iter().flatten();
        let read = |(name, value): (&String, &Value)| {
            Ok((name.clone(), self.value(&format!("{pointer}/{name}"), value.clone())?))
        };
        keys.map(read).collect()
    }

    /// Returns the reason why the run has not come to its end, if it has not.
    fn cut_off(&self) -> Option<String> {
        if self.document.flag("/finished") == Some(true) {
            return None;
        }
        let said = ["/fault", "/error"].iter().find_map(|pointer| self.document.text(pointer));
        Some(said.unwrap_or_else(|| "the file ends before the run does".to_owned()))
    }

    fn cells(&self) -> Result<Vec<Cell>, Failure> {
        let possible = |(name, cell): (String, Cell)| {
            let why = "no CPU, no step, or fewer steps than CPUs";
            let impossible = || self.malformed(&format!("/measure/cells/{name}"), why);
            if cell.is_possible() { Ok(cell) } else { Err(impossible()) }
        };
        self.named("/measure/cells")?.into_iter().map(possible).collect()
    }

    fn ram(&self) -> Result<Vec<(u64, u64)>, Failure> {
        const RAM: &str = "/memory/ram";
        let ranges: Vec<(Value, Value)> = self.read(RAM)?;
        ranges.iter().map(|(start, end)| Ok((self.address(RAM, start)?, self.address(RAM, end)?))).collect()
    }

    fn address(&self, name: &str, value: &Value) -> Result<u64, Failure> {
        address(value).ok_or_else(|| self.malformed(name, "an address is a text such as \"0x40000000\""))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;
    use test_support::prelude::*;

    pub(crate) fn parsed(value: &Value) -> Result<Measurement, Failure> {
        read_bytes(value.to_string().as_bytes())
    }

    fn read_bytes(bytes: &[u8]) -> Result<Measurement, Failure> {
        let path = Path::new("f");
        let (document, earlier) = document(path, bytes)?;
        Ok(Measurement { earlier, ..measurement(path, &document)? })
    }

    pub(crate) fn smallest() -> Value {
        json!({
            "schema": "linmap.boot/1", "finished": true, "machine": "m", "cpu": {"name": "Neoverse N1"}, "page_size": 4096,
            "va_bits": 48, "memory": {"ram": [["0x40000000", "0x80000000"]]},
            "measure": {
                "emulated": false, "effort": "full", "start": "0x7c000000", "bytes": 67_108_864,
                "counter_hz": 25_000_000, "leaf_bytes": {"pages": 4096, "large": 2_097_152}, "events": ["cycles"],
                "cells": {"loads-1048576-1": {
                    "work": "loads", "bytes": 1_048_576, "cpus": 1, "steps": 1000, "step_bytes": 64, "wrong": 0,
                    "pages": {"turns": 3, "ns": [900, 950, 1000, 1050, 1100], "cycles": 3000},
                    "large": {"turns": 3, "ns": [450, 475, 500, 525, 550], "cycles": 1500}
                }}
            }
        })
    }

    #[test]
    fn a_document_and_a_log_say_the_same() {
        let value = smallest();
        let one = parsed(&value).expect("a measurement");
        assert_eq!((one.cells.len(), &*one.cpu, one.start), (1, "Neoverse N1", 0x7c00_0000));
        let cells = &value["measure"]["cells"];
        let mut head = value.clone();
        head["measure"].as_object_mut().expect("an object").remove("cells");
        let log =
            format!("U-Boot\r\nlinmap: {head}\r\ntext\nlinmap: {}\n", json!({"measure": {"cells": cells}}));
        assert_eq!(read_bytes(log.as_bytes()).expect("a measurement"), one);
    }

    #[test]
    fn what_is_cut_off_says_so() {
        let log = |parts: &[Value]| parts.iter().map(|part| format!("linmap: {part}\n")).collect::<String>();
        let cut_off = |text: &str| read_bytes(text.as_bytes()).expect(text).cut_off;
        let mut head = smallest();
        head.as_object_mut().expect("an object").remove("finished");
        let (head, end) = (log(&[head]), log(&[json!({"finished": true, "ok": true})]));
        let ends = Some("the file ends before the run does".to_owned());
        for cut in 0..end.len() - 1 {
            // A line without its end is a part of one, unless it is whole but for the break.
            let expected = if cut + 1 == end.len() - 1 { None } else { ends.clone() };
            assert_eq!(cut_off(&format!("{head}{}", &end[..cut + 1])), expected, "{cut}");
        }
        let fault = log(&[json!({"finished": false, "ok": false, "fault": "no memory"})]);
        assert_eq!(cut_off(&format!("{head}{fault}")).as_deref(), Some("no memory"));
        let document = smallest().to_string();
        let said = read_bytes(&document.as_bytes()[..document.len() - 1]).expect_err("cut off").to_string();
        assert!(said.starts_with("`f`: its document is malformed: not JSON: EOF"), "{said}");
    }

    /// The parts of two boots are not mixed: the last one that finished is read.
    #[test]
    fn a_log_of_several_boots_has_the_last_measurement() {
        let boot = |machine: &str, cell: &str, finished: bool| {
            let mut value = smallest();
            (value["machine"], value["finished"]) = (json!(machine), json!(finished));
            let cells = value["measure"]["cells"].as_object_mut().expect("cells");
            let only = cells.remove("loads-1048576-1").expect("a cell");
            cells.insert(cell.to_owned(), only);
            format!("EDK II\nlinmap: {value}\n")
        };
        let read = |boots: &[String]| {
            let read = read_bytes(boots.concat().as_bytes()).expect("a measurement");
            (read.machine, read.cells.len(), read.earlier)
        };
        let other = "linmap: {\"schema\":\"linmap.boot/1\",\"finished\":true}\n".to_owned();
        let (a, b, cut) = (boot("a", "x", true), boot("b", "y", true), boot("c", "z", false));
        let expected = |machine: &str, earlier| (machine.to_owned(), 1, earlier);
        assert_eq!(read(&[a.clone(), b.clone()]), expected("b", 1));
        assert_eq!(read(&[a.clone(), b, cut.clone()]), expected("b", 1));
        assert_eq!(read(&[a, other.clone()]), expected("a", 0));
        assert_eq!(read(&[other, cut]), expected("c", 0));
    }

    #[test]
    fn each_refusal_says_what_would_be_right() {
        let changed = |pointer: &str, new: Value| {
            let mut value = smallest();
            *value.pointer_mut(pointer).expect(pointer) = new;
            parsed(&value).expect_err(pointer).to_string()
        };
        for (pointer, new, said) in [
            (
                "/schema",
                json!("linmap.stat/1"),
                "`f`: its schema is \"linmap.stat/1\", and linmap.boot/1 is right",
            ),
            ("/measure", Value::Null, "`f` has no measurement; boot the image with run=measure"),
            ("/measure/start", json!(5), "`f`: /measure/start is not as"),
            (
                "/measure/emulated",
                json!(5),
                "`f`: /measure is not as docs/schema/linmap.boot-1.json has it: invalid type",
            ),
            ("/memory/ram", json!([["x", "y"]]), "`f`: /memory/ram is not as"),
            (
                "/measure/cells/loads-1048576-1/steps",
                json!(0),
                "`f`: /measure/cells/loads-1048576-1 is not as",
            ),
            ("/measure/cells/loads-1048576-1/pages/ns", json!([1, 2]), "invalid length 2"),
        ] {
            let text = changed(pointer, new);
            assert!(text.contains(said), "{pointer}: {text}");
        }
        let noise = read_bytes(b"linmap: {\n").expect_err("a broken line").to_string();
        assert!(noise.starts_with("`f`: a line for programs is malformed: `{`"), "{noise}");
    }

    proptest! {
        #[test]
        fn noise_is_refused(bytes: Vec<u8>) {
            prop_assert!(read_bytes(&bytes).is_err());
        }
    }
}
