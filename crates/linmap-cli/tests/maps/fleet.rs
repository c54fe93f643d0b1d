//! Many machines: `linmap stat A B C`, and `linmap compare`.

use serde_json::Value;

use crate::core::{Core, Kernel, debian};
use crate::json_schema;
use crate::run::{linmap, piped};

fn path(core: &Core) -> String {
    core.path().to_str().expect("a path in UTF-8").to_owned()
}

/// A kernel with large leaves: a newer one, with half of the RAM.
fn newer() -> Kernel {
    Kernel { release: "6.18.1-arm64", level: 2, ram: 128 << 20, rodata_full: false, ..debian() }
}

/// Returns the rows of comma-separated values without quotes.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(',').collect()).collect()
}

#[test]
fn each_machine_is_a_row_with_its_own_numbers() {
    let (old, new) = (debian().core(|_| {}), newer().core(|_| {}));
    let paths = [path(&old), path(&new)];
    let csv = linmap(&["stat", &paths[0], &paths[1], "--csv"]).exits(0).stdout();
    let rows = rows(&csv);
    assert!(rows.len() == 3 && rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    for (row, path) in rows[1..].iter().zip(&paths) {
        let alone = linmap(&["stat", path, "--json"]).exits(0).document();
        let value = |name: &str| row[rows[0].iter().position(|column| *column == name).expect("a column")];
        assert_eq!((value("source"), value("release")), (path.as_str(), alone["release"].as_str().unwrap()));
        for (column, key) in [("bytes", "bytes"), ("tables", "tables"), ("tlb_entries", "tlb_entries")] {
            assert_eq!(value(column), alone["linear"][key].to_string(), "{column}");
        }
        let sum: u64 = ["page_bytes", "contiguous_page_bytes", "block_bytes"]
            .map(|column| value(column).parse::<u64>().expect("a number"))
            .iter()
            .sum();
        assert_eq!(sum.to_string(), value("bytes"));
        // One machine alone is the same row.
        let one = linmap(&["stat", path, "--csv"]).exits(0).stdout();
        assert_eq!(one.lines().nth(1).expect("a row").split(',').collect::<Vec<_>>(), *row);
    }
    let text = linmap(&["stat", &paths[0], &paths[1]]).exits(0).stdout();
    assert!(text.contains("6.1.0-40-arm64") && text.contains("rodata=full"), "{text}");
}

#[test]
fn a_saved_machine_is_the_same_row() {
    let core = debian().core(|_| {});
    let saved = core.file("saved.json");
    std::fs::write(&saved, core.run("dump", &["--json"]).exits(0).0.stdout).expect("room");
    let row = |source: &str| {
        let csv = linmap(&["stat", source, "--csv"]).exits(0).stdout();
        csv.lines().nth(1).expect("a row").split_once(',').expect("columns").1.to_owned()
    };
    assert_eq!(row(saved.to_str().expect("UTF-8")), row(&path(&core)));
}

#[test]
fn one_that_cannot_be_read_does_not_hide_the_others() {
    let there = debian().core(|_| {});
    let (absent, there) = (&format!("{}-not", path(&there)), &path(&there));
    for format in ["--csv", "--json", "--color=never"] {
        let ran = linmap(&["stat", absent, there, format]).exits(2).says("No such file");
        assert!(ran.stdout().contains("6.1.0-40-arm64"), "{}", ran.stdout());
    }
    let document = linmap(&["stat", absent, there, "--json"]).exits(2).document();
    assert_eq!((&document["ok"], &document["machines"][0]["stat"]["ok"]), (&false.into(), &false.into()));
    assert_eq!(document["machines"][1]["stat"]["ok"], true);
    let refused = linmap(&["compare", absent, there, "--json"]).exits(2).says("1 of 2 machines");
    assert_eq!(refused.document()["ok"], false);
    piped(&["stat", "-", "-"], b"").exits(2).says("can be read once");
}

#[test]
fn machines_that_agree_share_a_column() {
    let (old, new) = (debian().core(|_| {}), newer().core(|_| {}));
    let [a, b] = [path(&old), path(&new)];
    let ran = linmap(&["compare", &a, &b, &a, "--json"]).exits(1).document();
    assert_eq!(ran["groups"], serde_json::json!([[0, 2], [1]]));
    let fact = |name: &str| {
        let facts = ran["facts"].as_array().expect("facts");
        facts.iter().find(|fact| fact["fact"] == name).unwrap_or_else(|| panic!("{name}: {facts:?}")).clone()
    };
    assert_eq!(
        fact("kernel")["values"],
        serde_json::json!(["6.1.0-40-arm64", "6.18.1-arm64", "6.1.0-40-arm64"])
    );
    assert_eq!(
        (&fact("linear map")["differs"], &fact("page size")["differs"]),
        (&true.into(), &false.into())
    );
    assert_eq!(fact("boot arguments")["values"], serde_json::json!([null, null, null]));
    let text = linmap(&["compare", &a, &b, &a]).exits(1).stdout();
    assert!(text.contains("vmcore and 1 more") && text.contains("The same: page size 4K"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with(" page size")), "{text}");
    let same = linmap(&["compare", &a, &a]).exits(0).stdout();
    assert!(same.starts_with("Nothing differs between 2 machines: kernel 6.1.0-40-arm64"), "{same}");
    let csv = linmap(&["compare", &a, &b, "--csv"]).exits(1).stdout();
    assert!(csv.contains("\nkernel,6.1.0-40-arm64,6.18.1-arm64\n"), "{csv}");
    linmap(&["compare", &a]).exits(2).says("2 values required");
}

#[test]
fn documents_are_as_written_down() {
    let core = debian().core(|_| {});
    let path = path(&core);
    let mut stats = linmap(&["stat", &path, &path, "--json"]).exits(0).document();
    for machine in stats["machines"].as_array_mut().expect("machines") {
        let stat = machine["stat"].take();
        assert_eq!(json_schema::faults(&json_schema::read("linmap.stat-2"), &stat), [""; 0]);
    }
    assert_eq!(faults("stats", &stats), [""; 0]);
    assert_eq!(faults("compare", &linmap(&["compare", &path, &path, "--json"]).exits(0).document()), [""; 0]);
}

fn faults(name: &str, document: &Value) -> Vec<String> {
    json_schema::faults(&json_schema::read(&format!("linmap.{name}-1")), document)
}
