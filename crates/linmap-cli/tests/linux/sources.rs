//! Reads one guest by every SOURCE, and compares the results.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::guest::{Guest, named};
use crate::monitor::Monitor;

/// Runs the command. How long a guest is halted on a busy host is not part of these tests.
pub(crate) fn linmap(arguments: &[&str]) -> Output {
    let is_guest = arguments.iter().any(|source| source.starts_with("qemu:") || source.starts_with("gdb:"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.args(arguments).args(is_guest.then_some("--max-pause=600"));
    command.stdin(Stdio::null()).output().expect("linmap runs")
}

/// Returns the document that it prints.
pub(crate) fn document(arguments: &[&str]) -> Value {
    let output = linmap(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{arguments:?}: {e}\n{stderr}"))
}

/// Returns the document that it prints inside the guest, of the guest's own tables.
pub(crate) fn inside(guest: &mut Guest, arguments: &str) -> Value {
    let text = guest.shell(&format!("linmap {arguments}"));
    let start = text.find('{').unwrap_or_else(|| panic!("no document: {text}"));
    let document = serde_json::Deserializer::from_str(&text[start..]).into_iter().next();
    document.and_then(Result::ok).unwrap_or_else(|| panic!("no document: {text}"))
}

/// The linear map of a guest, as every SOURCE has it.
pub(crate) struct Read {
    /// `linmap stat --json` of the running guest.
    pub(crate) stat: Value,
    /// `linmap dump --json --region all` of the halted guest.
    pub(crate) dump: Value,
}

/// Reads a guest by every SOURCE, and fails unless all agree, and QEMU agrees for `samples` addresses.
///
/// The guest has to be halted for that, but cannot be while it reads itself. So its own reading is compared in the
/// linear map alone, which does not change by itself.
pub(crate) fn read_by_all(guest: &mut Guest, samples: u64) -> Read {
    let own = inside(guest, "dump --json --region linear");
    let own_stat = inside(guest, "stat --json");
    let saved =
        guest.shell("linmap dump --json >/saved; linmap dump --json /saved | busybox cmp - /saved; echo $?");
    assert_eq!(saved.trim().lines().last(), Some("0"), "a dump of the guest's own: {saved}");
    assert_eq!(
        inside(guest, "stat --json /saved")["linear"],
        own_stat["linear"],
        "a dump of the guest's own"
    );
    let qmp = named("qemu:", &guest.qmp());
    let stat = document(&["stat", "--json", &qmp]);
    assert_eq!(stat["linear"], own_stat["linear"], "the guest itself");

    guest.monitor("stop");
    let all = |source: &str| document(&["dump", "--json", "--region", "all", source]);
    let dump = all(&qmp);
    assert!(guest.monitor("info status").contains("paused"), "it was stopped, and is not any more");
    verify_by_gpa(guest, &dump, samples);
    let core = guest.path("core");
    assert_eq!(guest.monitor(&named("dump-guest-memory ", &core)), "");
    let core_name = core.display().to_string();
    let expected = entries(&dump);
    let mut others = vec![named("qemu:", &guest.hmp()), core_name, format!("gdb:{}", start_stub(guest))];
    others.extend(compressed_cores(guest));
    for other in &others {
        let read = all(other);
        assert_eq!(read["geometry"], dump["geometry"], "{other}");
        same(other, &entries(&read), &expected);
    }
    for source in [&qmp].into_iter().chain(&others) {
        saved_says_the_same(source, &guest.path("saved"));
    }
    for source in [&qmp, &others[1]] {
        let linear = document(&["dump", "--json", "--region", "linear", source]);
        same("the guest itself", &entries(&own), &entries(&linear));
        assert_eq!(document(&["stat", "--json", source])["linear"], stat["linear"], "{source}");
    }
    std::fs::remove_file(core).expect("the core is there");
    Read { stat, dump }
}

/// Returns the compressed cores that this QEMU writes, flattened or not; at least one.
fn compressed_cores(guest: &Guest) -> Vec<String> {
    let mut cores = Vec::new();
    for method in ["-z", "-l", "-s"] {
        let path = guest.path(&format!("core{method}"));
        let answer = guest.monitor(&named(&format!("dump-guest-memory {method} "), &path));
        match answer.trim() {
            "" => cores.push(path.display().to_string()),
            other => assert!(other.contains("not available"), "{method}: {other}"),
        }
    }
    assert!(!cores.is_empty());
    let beginning = std::fs::read(&cores[0]).expect("a core");
    assert!(beginning.starts_with(b"makedumpfile") || beginning.starts_with(b"KDUMP   "));
    cores
}

/// A dump of a halted SOURCE gives the same answers as the SOURCE.
fn saved_says_the_same(source: &str, path: &Path) {
    let dump = linmap(&["dump", "--json", source]);
    std::fs::write(path, &dump.stdout).expect("room for it");
    let path = path.to_str().expect("UTF-8");
    let again = linmap(&["dump", "--json", path]);
    assert!(again.stdout == dump.stdout && again.stderr.is_empty(), "a dump of the dump of {source}");
    assert_eq!(document(&["stat", "--json", path]), document(&["stat", "--json", source]), "{source}");
}

/// Consecutive equal entries: the first address, the bytes that they map, the output address, and the rest.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entries {
    pub(crate) va: u64,
    pub(crate) bytes: u64,
    pub(crate) pa: Option<u64>,
    pub(crate) kind: Value,
}

/// Returns the entries of a dump. Rows also end at the end of a region, which not every SOURCE knows.
pub(crate) fn entries(dump: &Value) -> Vec<Entries> {
    let hex =
        |value: &Value| value.as_str().and_then(|v| u64::from_str_radix(v.strip_prefix("0x")?, 16).ok());
    let mut entries: Vec<Entries> = Vec::new();
    for row in dump["rows"].as_array().expect("rows") {
        let kind =
            ["kind", "level", "attributes", "contiguous", "valid"].map(|key| row[key].clone()).to_vec();
        let (va, bytes) = (hex(&row["va"]).expect("va"), row["bytes"].as_u64().expect("bytes"));
        let next = Entries { va, bytes, pa: hex(&row["pa"]), kind: kind.into() };
        match entries.last_mut() {
            Some(last)
                if last.kind == next.kind
                    && last.va + last.bytes == va
                    && last.pa.map(|pa| pa + last.bytes) == next.pa =>
            {
                last.bytes += bytes;
            }
            _ => entries.push(next),
        }
    }
    entries
}

/// Fails unless both are equal, and names the first difference.
fn same(source: &str, found: &[Entries], expected: &[Entries]) {
    let differs = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert_eq!(differs, None, "{source}");
    assert_eq!(found.len(), expected.len(), "{source}");
}

/// Returns the address of the guest's gdbstub, and starts one if there is none.
fn start_stub(guest: &Guest) -> String {
    if guest.monitor("info chardev").contains("gdb: ") {
        return guest.stub();
    }
    let answer = guest.monitor(&format!("gdbserver tcp:{}", guest.stub()));
    assert!(answer.contains("Waiting for gdb"), "{answer}");
    guest.stub()
}

/// Asks QEMU itself for the place of `samples` addresses of the dump's leaves, and fails if the dump differs.
fn verify_by_gpa(guest: &Guest, dump: &Value, samples: u64) {
    let mut monitor = Monitor::connect(&guest.qmp());
    let valid = |entries: &Entries| entries.kind[0] == "leaf" && entries.kind[4] == true;
    let leaves: Vec<_> = entries(dump).into_iter().filter(valid).collect();
    assert!(!leaves.is_empty());
    for sample in 0..samples {
        // Every row in turn, and another page of it each time.
        let Entries { va, bytes, pa, .. } = leaves[(sample % leaves.len() as u64) as usize];
        let (pa, pages) = (pa.expect("a leaf's address"), bytes / 4096);
        let offset = (sample.wrapping_mul(0x9e37_79b9_7f4a_7c15) % pages) * 4096 + sample % 4096;
        let answer = monitor.command(&format!("gva2gpa {:#x}", va + offset));
        assert_eq!(answer.trim(), format!("gpa: {:#x}", pa + offset), "{:#x}", va + offset);
    }
}
