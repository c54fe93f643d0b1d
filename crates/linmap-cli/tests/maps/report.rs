//! `linmap report`: measurements of a machine that does not exist, in text and as a document, and bad input.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::json_schema;
use crate::run::{Ran, linmap};

/// A document of a Neoverse N1 whose large leaves do the same loads in half of the time.
fn measurement() -> Value {
    let turns = |ns: u64, walks: u64| json!({"turns": 3, "ns": [ns - 20, ns - 10, ns, ns + 10, ns + 20], "dtlb_walk": walks, "cycles": 3 * ns});
    let cell = |work: &str, bytes: u64, walks: [u64; 2]| {
        json!({
            "work": work, "bytes": bytes, "cpus": 1, "steps": 1000, "step_bytes": 64, "wrong": 0,
            "pages": turns(100_000, walks[0]), "large": turns(50_000, walks[1])
        })
    };
    json!({
        "schema": "linmap.boot/1", "ok": true, "finished": true, "machine": "a board", "cpu": {"midr": "0x413fd0c1", "name": "Neoverse N1"},
        "page_size": 4096, "va_bits": 48, "policy": "live",
        "memory": {"ram": [["0x40000000", "0x80000000"]], "image": ["0x40200000", "0x40280000"], "carve_outs": []},
        "measure": {
            "emulated": false, "effort": "full", "start": "0x78000000", "bytes": 134_217_728_u64,
            "counter_hz": 25_000_000, "leaf_bytes": {"pages": 4096, "large": 33_554_432},
            "events": ["cycles", "dtlb_walk"],
            "cells": {
                "loads-1048576-1": cell("loads", 1 << 20, [0, 0]),
                "loads-134217728-1": cell("loads", 128 << 20, [400, 0]),
                "copy-134217728-1": cell("copy", 128 << 20, [900, 1]),
            },
            "changes": {"split": {"times": 100, "ns": [100, 200, 300, 400, 500]}}
        }
    })
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}"));
    std::fs::write(&path, content).expect("room");
    path
}

fn report(paths: &[&PathBuf], options: &[&str]) -> Ran {
    let paths = paths.iter().map(|path| path.to_str().expect("a path in UTF-8"));
    linmap(&["report"].into_iter().chain(paths).chain(options.iter().copied()).collect::<Vec<_>>())
}

fn schema() -> Value {
    json_schema::read("linmap.report-1")
}

#[test]
fn it_says_what_was_measured_and_where_the_model_differs() {
    assert_eq!(
        json_schema::faults(&json_schema::read("linmap.boot-1"), &measurement()),
        Vec::<String>::new()
    );
    let path = file("one.json", &measurement().to_string());
    let text = report(&[&path], &[]).exits(0).stdout();
    for said in [
        "a board, Neoverse N1, 4K pages, policy live; 128M of RAM in pages of 4K and in leaves of 32M; full run",
        " loads   128M      1         100        50.0      +100.0%            400              0",
        " split                 100         100          300        500",
        "walks of Neoverse N1, for each 1,000 dependent loads of one CPU",
        "Model and measurement differ over 128M: 400 walks in pages where the model has ",
        "+19% sequential 4K reads from a ramdisk, with 75.9% fewer data TLB misses",
    ] {
        assert!(text.contains(said), "{said}\n{text}");
    }
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for counted in [
        "loads 128M 1 dtlb_walk 400 0 -100.0%",
        "loads 128M 1 cycles 300,000 150,000 -50.0%",
        "copy 128M 1 dtlb_walk 900 1.00 -99.9%",
    ] {
        assert!(lines.iter().any(|line| line == counted), "{counted}\n{text}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("loads 1M 1 cycles")), "{text}");
    assert!(!text.contains("differ over 1M") && !text.contains("emulated"), "{text}");
}

#[test]
fn its_document_is_as_written_down() {
    let one = file("doc.json", &measurement().to_string());
    let document = report(&[&one, &one], &["--json"]).exits(0).document();
    assert_eq!(json_schema::faults(&schema(), &document), Vec::<String>::new());
    let machines = document["machines"].as_array().expect("machines");
    assert_eq!((machines.len(), &machines[0]["cells"][1]["more_work_percent"]), (2, &json!(100.0)));
    let modelled = &machines[0]["model"]["cells"][1]["walks_of_1000_steps"];
    // 128 MiB of pages are more than its TLBs hold, four runs of 32 MiB are not.
    assert!(modelled["pages"].as_f64() > Some(600.0) && modelled["large"] == 0.0, "{modelled}");
}

#[test]
fn an_emulated_cpu_has_times_that_mean_nothing() {
    let mut value = measurement();
    value["measure"]["emulated"] = true.into();
    let (emulated, real) =
        (file("emulated.json", &value.to_string()), file("real.json", &measurement().to_string()));
    let text = report(&[&emulated], &[]).exits(0).stdout();
    assert!(
        text.contains("This CPU was emulated: the times mean nothing")
            && !text.contains("+100.0%")
            && !text.contains("cycles"),
        "{text}"
    );
    let both = report(&[&emulated, &real], &[]).exits(0).stdout();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(both.lines().any(|line| words(line).ends_with(&["emulated".into(), "+100.0%".into()])), "{both}");
    let document = report(&[&emulated], &["--json"]).exits(0).document();
    assert_eq!(document["machines"][0]["cells"][0]["more_work_percent"], Value::Null);
}

/// A published figure of TLB misses stands beside the misses that were counted.
#[test]
fn misses_are_compared_with_published_misses() {
    let published = |value: &Value| {
        let text = report(&[&file("misses.json", &value.to_string())], &[]).exits(0).stdout();
        text.lines()
            .find(|line| line.contains("4K reads from a ramdisk"))
            .expect("a published figure")
            .to_owned()
    };
    let mut value = measurement();
    let said = published(&value);
    assert!(said.ends_with("+100.0%, -99.9% walks"), "{said}");
    let cell = &mut value["measure"]["cells"]["copy-134217728-1"];
    (cell["pages"]["l1d_tlb_refill"], cell["large"]["l1d_tlb_refill"]) = (800.into(), 200.into());
    let said = published(&value);
    assert!(said.ends_with("+100.0%, -75.0% L1 TLB refills"), "{said}");
    value["measure"]["emulated"] = true.into();
    assert!(published(&value).ends_with("emulated"));
}

/// A part that is missing is said, and the rest is shown.
#[test]
fn what_is_missing_is_said() {
    let said = |value: &Value| {
        let path = file("missing.json", &value.to_string());
        let document = report(&[&path], &["--json"]).exits(0).document();
        assert_eq!(json_schema::faults(&schema(), &document), Vec::<String>::new());
        (report(&[&path], &[]).exits(0).stdout(), document)
    };
    let without = |map: &str| {
        let mut value = measurement();
        for cell in value["measure"]["cells"].as_object_mut().expect("cells").values_mut() {
            cell.as_object_mut().expect("a cell").remove(map);
        }
        said(&value).0
    };
    assert!(
        without("large").contains("Large leaves were not measured: policy live has none; split=park has")
    );
    assert!(without("pages").contains("Pages were not measured: policy live splits no leaves"));
    let mut value = measurement();
    value["measure"]["cells"] = json!({});
    value["finished"] = false.into();
    value["fault"] = "an abort".into();
    let (text, document) = said(&value);
    for part in ["No work was measured.", "The run did not finish, so parts are missing: an abort."] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_eq!(
        (&document["machines"][0]["cut_off"], &document["machines"][0]["earlier"]),
        (&json!("an abort"), &json!(0))
    );
    let (whole, document) = said(&measurement());
    assert!(
        !["not measured", "No work", "did not finish", "before this one"]
            .iter()
            .any(|part| whole.contains(part)),
        "{whole}"
    );
    assert_eq!(document["machines"][0]["cut_off"], Value::Null);
    let log = format!("linmap: {0}\nlinmap: {0}\nlinmap: {{\"mea", measurement());
    let text = report(&[&file("twice.log", &log)], &[]).exits(0).stdout();
    assert!(text.contains("Other measurements before this one in the log: 1."), "{text}");
}

#[test]
fn wrong_results_are_findings() {
    let mut value = measurement();
    value["measure"]["cells"]["loads-1048576-1"]["wrong"] = 2.into();
    let path = file("wrong.json", &value.to_string());
    assert!(report(&[&path], &[]).exits(1).stdout().contains("2 results were WRONG: the times are void"));
    assert_eq!(report(&[&path], &["--json"]).exits(1).document()["ok"], false);
}

#[test]
fn other_files_are_refused() {
    let right = file("right.json", &measurement().to_string());
    let other = file("other.log", "U-Boot\nlinmap: {\"machine\":\"m\"}\n");
    report(&[&right, &other], &[]).exits(2).says("has no measurement; boot the image with run=measure");
    report(&[&PathBuf::from("/nonexistent")], &[]).exits(2).says("cannot read `/nonexistent`: No such file");
    report(&[&right], &["--core", "z80"]).exits(2).says("`z80` is neither a file nor a core that is known");
    linmap(&["report"]).exits(2).says("<FILE>...");
    let document = report(&[&other], &["--json"]).exits(2).document();
    assert_eq!(json_schema::faults(&schema(), &document), Vec::<String>::new());
}

#[test]
fn a_page_and_a_plot_are_written_where_they_can_be() {
    let mut value = measurement();
    value["machine"] = "<b>a board</b>".into();
    let input = file("page.json", &value.to_string());
    let outputs = [file("page.html", ""), file("page.svg", "")];
    let [html, svg] = outputs.each_ref().map(|path| path.to_str().expect("a path in UTF-8"));
    report(&[&input], &["--html", html, "--svg", svg]).exits(0);
    let [page, plot] = outputs.map(|path| std::fs::read_to_string(path).expect("a file"));
    assert!(
        plot.starts_with("<svg ") && plot.contains("page.json, pages") && plot.contains("page.json, large")
    );
    assert!(page.contains(&plot) && page.ends_with("</html>\n") && !page.contains("<b>"), "{page}");
    for said in [
        "&lt;b&gt;a board&lt;/b&gt;, Neoverse N1",
        "<td>128M</td>",
        "<td>+100.0%</td>",
        "where the model has",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    for (option, said) in
        [("--html", "cannot write the page to `/dev/null/x`"), ("--svg", "cannot write the plot")]
    {
        assert_eq!(report(&[&input], &[option, "/dev/null/x"]).exits(2).says(said).stdout(), "");
    }
}

/// Each result of a machine that is stored can be shown, and a document is as its schema says.
#[test]
fn stored_results_can_be_shown() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machines");
    let files =
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let results: Vec<PathBuf> = files.filter(|path| !path.ends_with("README.md")).collect();
    assert!(!results.is_empty());
    for path in &results {
        let document = report(&[path], &["--json"]).exits(0).document();
        assert_eq!(json_schema::faults(&schema(), &document), Vec::<String>::new(), "{}", path.display());
        if path.extension().is_some_and(|extension| extension == "json") {
            let stored = std::fs::read(path).expect("a file");
            let stored = serde_json::from_slice(&stored).expect("a document");
            assert_eq!(
                json_schema::faults(&json_schema::read("linmap.boot-1"), &stored),
                Vec::<String>::new()
            );
        }
    }
}
