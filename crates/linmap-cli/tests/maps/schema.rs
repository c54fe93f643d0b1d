//! Every document follows `docs/schema`: no key is missing, and none is undocumented.

use linmap::Attributes;
use serde_json::Value;

use crate::core::{Kernel, RAM, debian};
use crate::json_schema;
use crate::run::linmap;

fn schema(command: &str) -> Value {
    let version = if ["dump", "stat"].contains(&command) { 2 } else { 1 };
    json_schema::read(&format!("linmap.{command}-{version}"))
}

#[track_caller]
fn assert_fits(command: &str, document: &Value) {
    let schema = schema(command);
    let mut found = json_schema::faults(&schema, document);
    // A document without an error has every key.
    if document.get("error").is_none() {
        let keys = schema["properties"].as_object().expect("properties").keys();
        let missing = keys.filter(|key| *key != "error" && document.get(key).is_none());
        found.extend(missing.map(|key| format!("/{key} is missing")));
    }
    assert_eq!(found, Vec::<String>::new(), "{command}");
}

#[test]
fn documents_are_as_written_down() {
    let page = debian().linear(RAM + (80 << 20));
    let (before, after) =
        (debian().core(|_| {}), Kernel { rodata_full: false, ..debian() }.core(|t| t.change(page, |_| 0)));
    for core in [&before, &after] {
        for (command, more) in [
            ("dump", &[][..]),
            ("stat", &[]),
            ("stat", &["--who"]),
            ("check", &[]),
            ("map", &[]),
            ("map", &["--by", "owner"]),
            ("walk", &["_stext"]),
            ("walk", &["0xffff700000000000"]),
        ] {
            let document = core.run(command, &[more, &["--json"]].concat()).document();
            assert!(document.get("error").is_none(), "{document}");
            assert_fits(command, &document);
        }
    }
    let paths = [before.path(), after.path()].map(|path| path.to_str().expect("a path in UTF-8").to_owned());
    assert_fits("diff", &linmap(&["diff", &paths[0], &paths[1], "--json"]).exits(1).document());
    assert_fits("mappings", &before.run("walk", &["--pa", "0x40201000", "--json"]).exits(0).document());
    let pool = Attributes::RAM.bits() | RAM | 2;
    let kept = debian().core(|tables| tables.change(page, |_| pool));
    for command in ["dump", "stat"] {
        assert_fits(command, &kept.run(command, &["--json"]).exits(0).document());
    }
}

#[test]
fn saved_dumps_have_documents_as_well() {
    let core = debian().core(|_| {});
    let path = core.file("saved");
    for more in [&[][..], &["--json"]] {
        std::fs::write(&path, core.run("dump", more).exits(0).0.stdout).expect("room");
        let path = path.to_str().expect("a path in UTF-8");
        for command in ["dump", "stat", "check"] {
            assert_fits(command, &linmap(&[command, path, "--json"]).exits(0).document());
        }
        assert_fits("walk", &linmap(&["walk", path, "0xffff800008010000", "--json"]).exits(0).document());
        // The regions are those of a text's own marker lines.
        let document = linmap(&["dump", path, "--json"]).exits(0).document();
        let from = if more.is_empty() { "the dump's own marker lines" } else { "VMCOREINFO" };
        assert_eq!(document["regions_from"], from);
        assert_eq!(document["regions"][1]["name"], "modules");
    }
}

/// A command with documents has a schema for them, and a line without such a command has one of its own.
#[test]
fn every_document_has_a_schema() {
    let help = linmap(&["--help"]).exits(0).stdout();
    let (_, list) = help.split_once("Commands:\n").expect("a list");
    let commands: Vec<&str> = list
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"stat") && commands.contains(&"completions"), "{commands:?}");
    let lines = commands.iter().map(|command| vec![*command, "--json", "--nonsense"]);
    for line in lines.chain([vec!["--json"]]) {
        let document = linmap(&line).exits(2).document();
        let name = document["schema"].as_str().expect("a name").replace('/', "-");
        let schema = json_schema::read(&name);
        assert_eq!(json_schema::faults(&schema, &document), [""; 0], "{line:?}");
    }
}

#[test]
fn errors_are_documents() {
    for command in ["dump", "stat", "check"] {
        assert_fits(command, &linmap(&[command, "/nonexistent", "--json"]).exits(2).document());
    }
    assert_fits("walk", &linmap(&["walk", "/nonexistent", "1", "--json"]).exits(2).document());
    assert_fits("diff", &linmap(&["diff", "/nonexistent", "1", "--json"]).exits(2).document());
}

#[test]
fn a_document_that_differs_from_its_schema_is_found() {
    let schema = json_schema::read("linmap.boot-1");
    let right = serde_json::json!({ "schema": "linmap.boot/1", "ok": true, "levels": 4, "policy": "live" });
    assert_eq!(json_schema::faults(&schema, &right), Vec::<String>::new());
    for (key, value, fault) in [
        ("levels", Value::from("4"), "/levels: \"4\""),
        ("policy", Value::from("dead"), "/policy: \"dead\""),
        ("speed", Value::from(1), "/speed is not in the schema"),
        ("tests", serde_json::json!({ "selftest": { "tried": 1 } }), "/tests/selftest/ok is missing"),
    ] {
        let mut document = right.clone();
        document[key] = value;
        assert_eq!(json_schema::faults(&schema, &document), [fault]);
    }
}
