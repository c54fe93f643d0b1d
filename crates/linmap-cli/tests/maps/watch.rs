//! `linmap watch`: a map that changes between readings.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use linmap::Attributes;
use linmap::arch::Level;
use serde_json::Value;

use crate::core::{self, Core, Kernel, RAM, debian};
use crate::json_schema;
use crate::run::linmap;
use crate::who;

/// A kernel whose RAM above 64 MiB is in blocks.
fn blocks() -> Kernel {
    Kernel { level: 2, ..debian() }
}

/// The block that is split, its pages, and the one of them that becomes read-only.
const BLOCK: u64 = RAM + (100 << 20);
const PAGE: u64 = BLOCK + 0x5000;

/// Writes the kernel with its block split into a file beside, and puts it in place of the first.
fn split(core: &Core) {
    let mut tables = blocks().tables();
    let va = blocks().linear(BLOCK);
    *tables.slot(va, Level::new(2)) = 0;
    tables.map(va, BLOCK, 3, 512, Attributes::RAM, false);
    tables.map(blocks().linear(PAGE), PAGE, 3, 1, Attributes::KERNEL_RODATA, false);
    // A module has the page.
    tables.map(blocks().modules() + 0x10_0000, PAGE, 3, 1, Attributes::KERNEL_TEXT, false);
    let beside = core.file("beside");
    core::write(&beside, &tables, blocks().ram, Some(&blocks().info()));
    std::fs::rename(beside, core.path()).expect("one directory");
}

/// Watches a core in which something happens after each reading that was printed. Returns the lines.
fn watched(core: &Core, more: &[&str], mut after: impl FnMut(usize)) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("watch").arg(core.path()).args(["--interval", "300ms"]).args(more);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("linmap runs");
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        lines.push(line.expect("UTF-8"));
        after(lines.len());
    }
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    lines
}

#[test]
fn a_split_is_seen_with_its_owner() {
    let core = blocks().core(|_| {});
    let lines = watched(&core, &["--json", "--count", "4"], |line| match line {
        1 => split(&core),
        2 => std::fs::rename(core.path(), core.file("away")).expect("one directory"),
        3 => std::fs::rename(core.file("away"), core.path()).expect("one directory"),
        _ => {}
    });
    let documents: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect("a document")).collect();
    let schema = json_schema::read("linmap.watch-1");
    for document in &documents {
        assert_eq!(json_schema::faults(&schema, document), [""; 0]);
    }
    let splits = |reading: usize, since: &str| documents[reading][since]["splits"].as_u64();
    assert_eq!((splits(0, "now"), splits(1, "now")), (Some(0), Some(1)), "{documents:#?}");
    assert_eq!(documents[1]["now"]["attribute_bytes"], 4096);
    let change = &documents[1]["changes"][0];
    assert_eq!(
        (&change["kind"], &change["who"]),
        (&"split".into(), &"code of modules or BPF [address]".into()),
        "{change:#}"
    );
    assert_eq!(
        change["owners"][0],
        serde_json::json!({ "owner": "modules_code", "name": null, "by": "address" })
    );
    assert_eq!(change["va"], format!("{:#x}", blocks().linear(BLOCK)));
    // A reading that fails is said, and the next one goes on.
    assert_eq!((&documents[2]["ok"], &documents[2]["reading"]), (&false.into(), &3.into()), "{documents:#?}");
    assert_eq!((splits(3, "now"), splits(3, "since_start")), (Some(0), Some(1)));
}

/// The symbols of a kernel are read once, and again if it is another one.
#[test]
fn symbols_are_kept_while_the_kernel_is_the_same() {
    let (core, symbols) = who::with_variables();
    let changed = |kernel: Kernel| {
        let mut tables = who::tables();
        tables.change(kernel.linear(who::AREA), |leaf| leaf | Attributes::READ_ONLY.bits());
        let beside = core.file("beside");
        core::write(&beside, &tables, kernel.ram, Some(&kernel.info()));
        std::fs::rename(beside, core.path()).expect("one directory");
    };
    let lines = watched(&core, &["--json", "--count", "3", "--symbols", &symbols], |line| match line {
        1 => {
            std::fs::remove_file(&symbols).expect("a file");
            changed(debian());
        }
        2 => changed(Kernel { release: "6.1.0-41-arm64", ..debian() }),
        _ => {}
    });
    let documents: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect("a document")).collect();
    assert_eq!(documents[1]["changes"][0]["who"], "per-CPU areas [symbol]", "{documents:#?}");
    let why = documents[2]["error"].as_str().expect("an error");
    assert!(why.contains("--symbols") && why.contains("No such file"), "{why}");
}

/// Reads samples: name with labels, and value. Fails on everything that OpenMetrics does not permit here.
fn samples(file: &Path) -> Vec<(String, f64)> {
    let text = std::fs::read_to_string(file).expect("a file");
    let (body, end) = text.split_at(text.len() - "# EOF\n".len());
    assert_eq!(end, "# EOF\n");
    let mut family = (String::new(), String::new());
    let mut found = Vec::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            family = (name.to_owned(), kind.to_owned());
            continue;
        }
        if line.starts_with("# ") {
            assert_eq!(line.split(' ').nth(2), Some(family.0.as_str()), "{line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a value");
        let name = sample.split('{').next().expect("a name");
        let suffix = if family.1 == "counter" { "_total" } else { "" };
        assert_eq!(name, format!("{}{suffix}", family.0));
        assert!(sample.ends_with("\"}") && sample.contains("{source=\""), "{line}");
        found.push((sample.to_owned(), value.parse().expect("a number")));
    }
    found
}

#[test]
fn metrics_are_whole_and_have_the_newest_values() {
    let core = blocks().core(|_| {});
    let file = core.file("linmap.prom");
    let metrics = file.to_str().expect("UTF-8").to_owned();
    let mut seen = Vec::new();
    let lines = watched(&core, &["--csv", "--count", "2", "--openmetrics", &metrics], |line| {
        if line == 2 {
            split(&core);
        }
        if line > 1 {
            seen.push(samples(&file));
        }
    });
    let value = |reading: usize, name: &str| {
        let found =
            seen[reading].iter().find(|sample| sample.0.starts_with(name) && !sample.0.contains("size="));
        found.unwrap_or_else(|| panic!("{name}")).1
    };
    assert_eq!((value(0, "linmap_splits_total"), value(1, "linmap_splits_total")), (0.0, 1.0));
    assert_eq!((value(1, "linmap_readings_total"), value(1, "linmap_up")), (2.0, 1.0));
    let stat = core.run("stat", &["--json"]).exits(0).document();
    assert_eq!(value(1, "linmap_tlb_entries"), stat["linear"]["tlb_entries"].as_f64().expect("a number"));
    let leaf =
        seen[1].iter().find(|sample| sample.0.ends_with("size=\"2M\",contiguous=\"false\"}")).expect("2M");
    assert_eq!(leaf.1, stat["linear"]["leaves"][0]["descriptors"].as_f64().expect("a number"));
    // Names, then a row for each reading, with as many columns.
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.matches(',').count() == 13), "{lines:?}");
    // Nothing is left beside it.
    let left = std::fs::read_dir(file.parent().expect("a directory")).expect("a directory").flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with('.')));
}

#[test]
fn what_cannot_be_watched_is_said() {
    linmap(&["watch", "-"]).exits(2).says("can be read once");
    linmap(&["watch", "/nonexistent", "--count", "3"]).exits(2).says("No such file");
    let core = debian().core(|_| {});
    let path = core.path();
    let path = path.to_str().expect("UTF-8");
    let line = ["watch", path, "--count", "1", "--openmetrics", "/nonexistent/linmap.prom"];
    linmap(&line).exits(2).says("`/nonexistent/linmap.prom` cannot be written");
    // Nothing but a file is replaced by a file.
    let directory = core.file("directory");
    std::fs::create_dir(&directory).expect("a directory");
    let directory = directory.to_str().expect("UTF-8");
    let line = ["watch", path, "--count", "1", "--openmetrics", directory];
    linmap(&line).exits(2).says("something else than a file");
    let ran = linmap(&["watch", path, "--count", "1"]).exits(0);
    assert!(ran.stdout().starts_with("reading") && ran.stdout().lines().count() == 2, "{}", ran.stdout());
}

/// A reader that goes away ends it.
#[test]
fn it_ends_with_its_reader() {
    let core = debian().core(|_| {});
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("watch").arg(core.path()).args(["--interval", "10ms"]).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().expect("linmap runs");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
