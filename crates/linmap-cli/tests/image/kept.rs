//! The document of a measurement on a machine with firmware: into its variables, and at the next start into a file beside the image.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::disk::{Disk, EDK2, EMPTY};
use crate::guest::Booted;

/// The variables of a run that has been stored.
const STORED: &str = "measure: the firmware keeps this document";
/// A line on the firmware's console before the run begins.
const ARGUMENTS: &str = "linmap starts with the boot arguments `run=measure:quick pagesize=64k end=reset`";

/// Merges an object as `linmap boot` does.
fn merge(into: &mut Value, part: Value) {
    match (into, part) {
        (Value::Object(into), Value::Object(part)) => {
            for (key, value) in part {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, part) => *into = part,
    }
}

/// Fails unless a file has the document of a run: each key but those that the command adds to what the image says.
#[track_caller]
fn expect_document(file: &[u8], booted: &Booted) {
    let parts: Vec<Value> = serde_json::from_slice(file).expect("an array");
    let mut whole = parts.into_iter().fold(Value::Object(Default::default()), |mut whole, part| {
        merge(&mut whole, part);
        whole
    });
    let mut expected = booted.document.clone();
    for document in [&mut whole, &mut expected] {
        // The command counts those that passed.
        let tests = document["tests"].as_object_mut().expect("tests");
        tests.retain(|_, test| test.is_object());
    }
    assert_eq!(whole, expected);
}

/// Three runs: one measures, with its data at pages of 64K, without a device tree, and resets; the next finds its document, writes it
/// beside a file that is there, and measures again; the last one, which would reset, writes the second document and ends.
#[test]
fn the_next_start_makes_a_file() {
    let disk = Disk::new("run=measure:quick pagesize=64k end=reset").keep(EMPTY);
    disk.write("linmap/measure-1.json", b"mine");
    let first = disk.boot(EDK2, "gic-version=3", &["--cpus", "1", "--cpu", "neoverse-n1"]);
    let first = first.expect_well("the first run");
    assert!(first.says(ARGUMENTS), "{}", first.console);
    assert!(first.says(STORED), "{}", first.console);
    assert_eq!((first.text("/described_by"), first.number("/page_size")), ("ACPI", 65536));
    assert_eq!(disk.names("linmap"), ["cmdline.txt", "measure-1.json"]);
    // This CPU may abort, and yet both maps are measured.
    assert_eq!(first.text("/policy"), "park");
    let cells = first.at("/measure/cells").as_object().expect("cells");
    assert!(
        !cells.is_empty()
            && cells.values().all(|cell| cell["pages"].is_object() && cell["large"].is_object())
    );

    disk.write("linmap/cmdline.txt", b"run=measure:quick");
    let second =
        disk.boot(EDK2, "acpi=off,virtualization=on", &["--cpus", "2"]).expect_well("the second run");
    assert!(second.says(r"the document of the last run is in \linmap\measure-2.json"), "{}", second.console);
    assert!(second.says(STORED), "{}", second.console);
    assert_eq!(disk.names("linmap"), ["cmdline.txt", "measure-1.json", "measure-2.json"]);
    let file = disk.read("linmap/measure-2.json");
    assert_eq!(disk.read("linmap/measure-1.json"), b"mine");
    expect_document(&file, &first);
    expect_report(&file);

    disk.write("linmap/cmdline.txt", b"run=measure:quick end=reset");
    let third = disk.boot(EDK2, "acpi=off", &["--cpus", "1"]).expect_well("the third run");
    assert!(third.says("so nothing is measured again") && !third.says(STORED), "{}", third.console);
    assert_eq!(third.document.get("measure"), None);
    expect_document(&disk.read("linmap/measure-3.json"), &second);
}

/// `linmap report` reads such a file.
fn expect_report(file: &[u8]) {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("measure-2.json");
    fs::write(&path, file).expect("a file");
    let mut report = Command::new(env!("CARGO_BIN_EXE_linmap"));
    let output = report.args(["report", "--json"]).arg(&path).output().expect("linmap runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["schema"], "linmap.report/1");
}

/// Firmware that keeps no variables, or has no room for them, costs a line and the file, and nothing else.
#[test]
fn firmware_that_keeps_nothing_is_named() {
    let booted = Disk::new("run=measure:quick").boot(crate::efi::U_BOOT, "", &["--cpus", "1"]);
    let booted = booted.expect_well("U-Boot");
    let why = "warning: this document becomes no file: the firmware has no variables once its boot services are left";
    assert!(booted.says(why), "{}", booted.console);
}
