//! Facts about a kernel do not depend on how it is read: over `gdb:` as over `qemu:`.

use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

use crate::core::{Kernel, debian};
use crate::guest::{Guest, Habits, QEMU};
use crate::run::{linmap, piped};
use crate::{monitor, stub};

fn document(arguments: &[&str]) -> Value {
    linmap(&[arguments, &["--json", "--max-pause", "600"]].concat()).exits(0).document()
}

/// Returns the texts of a document's facts.
fn facts(document: &Value) -> Vec<&str> {
    let facts = document["facts"].as_array().expect("facts");
    facts.iter().filter_map(|fact| fact["text"].as_str()).collect()
}

#[test]
fn a_healthy_guest_is_healthy_by_its_gdbstub() {
    let guest = Arc::new(Guest::new(debian(), QEMU));
    let directory = TempDir::new().expect("a directory");
    let by_monitor = monitor::listen(&guest, &directory.path().join("qmp"));
    let by_port = stub::listen(&guest);
    for source in [&by_monitor, &by_port] {
        let check = document(&["check", source]);
        assert_eq!((&check["release"], &check["count"]), (&"6.1.0-40-arm64".into(), &0.into()), "{check:#}");
        let note = check["notes"][0].as_str().expect("a note");
        assert!(
            note.starts_with("read-only in the fixmap and writable in the linear map: 256 entries"),
            "{note}"
        );
        let walk = document(&["walk", source, "_stext"]);
        assert_eq!(walk["region"], "kernel");
    }
    let [by_monitor, by_port] = [&by_monitor, &by_port].map(|source| document(&["stat", source]));
    for key in ["release", "linear", "largest", "causes", "facts", "remedies"] {
        assert_eq!(by_port[key], by_monitor[key], "{key}");
    }
    let facts = facts(&by_port);
    let full = "read-only in the linear map, too: rodata is full; rodata=full is on the command line";
    assert!(facts.iter().any(|fact| fact.ends_with(full)), "{facts:?}");
}

/// A stub that shows MIDR_EL1 has it for each CPU: the second one has no promise.
#[test]
fn cpus_are_those_that_the_stub_shows() {
    let says = |midrs| {
        let kernel = Kernel { release: "7.2.12+deb13-arm64", ..debian() };
        let guest = Arc::new(Guest::new(kernel, Habits { midrs: Some(midrs), monitor: false, ..QEMU }));
        let stat = document(&["stat", &stub::listen(&guest)]);
        facts(&stat).join("\n")
    };
    const AMPERE_ONE: u64 = 0xc00f_ac30;
    const CORTEX_A72: u64 = 0x410f_d083;
    assert!(says([AMPERE_ONE, AMPERE_ONE]).contains("AmpereOne never aborts"));
    assert!(!says([AMPERE_ONE, CORTEX_A72]).contains("AmpereOne never aborts"));
}

/// The note if there was time only for the tables.
const LATE: &str = "known only as far as there was time";

#[track_caller]
fn expect_late(document: &Value) {
    let missing = document["missing"][0].as_str().unwrap_or_default();
    assert!(missing.contains(LATE) && missing.contains("15 s (--max-pause)"), "{document:#}");
}

/// A dump keeps the list of missing facts for later readers.
#[test]
fn a_dump_says_what_there_was_no_time_for() {
    let most_reads = 2 * Guest::new(debian(), QEMU).tables + 2;
    let guest = Arc::new(Guest::new(debian(), Habits { most_reads, monitor: false, ..QEMU }));
    let saved = linmap(&["dump", &stub::listen(&guest), "--json", "--max-pause", "15"]).exits(0);
    expect_late(&saved.document());
    let stat = piped(&["stat", "-", "--json"], saved.stdout().as_bytes()).exits(0).says(LATE);
    expect_late(&stat.document());
    let again = piped(&["dump", "-", "--json"], saved.stdout().as_bytes()).exits(0);
    assert_eq!(again.stdout(), saved.stdout());
}

/// A check that needs an unknown layout finds nothing, and the report says that it is not known.
#[test]
fn nothing_is_found_that_rests_on_what_is_not_known() {
    // Tables are read in halves, the first half of the root once more; there is no time for the rest. The tables take
    // milliseconds, so that there is time for them on a busy host as well.
    let most_reads = 2 * Guest::new(debian(), QEMU).tables + 2;
    let guest = Arc::new(Guest::new(debian(), Habits { most_reads, monitor: false, ..QEMU }));
    let ran = linmap(&["check", &stub::listen(&guest), "--json", "--max-pause", "15"]).exits(0);
    assert!(ran.stderr().contains(LATE), "{}", ran.stderr());
    let check = ran.document();
    expect_late(&check);
    assert_eq!((&check["release"], &check["count"]), (&Value::Null, &0.into()), "{check:#}");
    let note = check["notes"][0].as_str().expect("a note");
    assert!(note.contains("256 entries; no findings") && note.contains("not known"), "{note}");
}
