//! The findings for people: what makes it wrong and where, why, what would be right, the rule, the last steps.

use std::fmt::Write;

use serde_json::Value;

use super::names::{Names, address};

/// The steps that are shown of a finding.
const STEPS: usize = 8;

/// Writes all findings, and a last line with what was seen and what was not judged.
pub(crate) fn of(document: &Value, names: &Names) -> String {
    let findings = document["findings"].as_array().into_iter().flatten();
    let mut text = String::from("\n");
    // Hints are habits: counted below, shown in the document.
    let is_shown = |finding: &&Value| finding["grade"] != "hint" && finding.get("allowed").is_none();
    for finding in findings.filter(is_shown) {
        text += &one(finding, names);
        text.push('\n');
    }
    let at = &document["at"];
    if !at.is_null() {
        text += &moment(at, names);
    }
    text + &last(document)
}

/// Writes what CPUs have at the address of an event.
fn moment(at: &Value, names: &Names) -> String {
    let mut text = format!("event {}: {}\n", at["event"], words(&at["text"]));
    line(&mut text, "at", &place(at));
    about(&mut text, at, "has", names);
    text.push('\n');
    text
}

/// Writes a line with its name.
fn line(text: &mut String, name: &str, what: &str) {
    // Writing to a text does not fail.
    let _ = writeln!(text, "  {name:<8} {what}");
}

/// Writes the address of a finding or of an event, and its facts. `first` is the name of the first fact's line.
fn about(text: &mut String, value: &Value, first: &str, names: &Names) {
    if let Some(va) = value["address"].as_str() {
        let name = names.name(address(&value["address"]));
        line(text, "address", &name.map_or(va.into(), |name| format!("{va} {name}")));
    }
    for (n, fact) in value["facts"].as_array().into_iter().flatten().enumerate() {
        line(text, if n == 0 { first } else { "and" }, words(fact));
    }
}

/// The place of a step: its function, or its address.
fn place(step: &Value) -> String {
    let (pc, cpu) = (words(&step["pc"]), &step["cpu"]);
    let line = step["line"].as_str().map_or_else(String::new, |line| format!(" {line},"));
    match step["function"].as_str() {
        Some(name) => format!("{name} ({pc}),{line} cpu {cpu}"),
        None if address(&step["pc"]) == 0 => format!("cpu {cpu}"),
        None => format!("{pc},{line} cpu {cpu}"),
    }
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Writes a finding, of a document that has the functions of its steps.
pub(crate) fn one(finding: &Value, names: &Names) -> String {
    let mut text = format!("{}: {}\n", words(&finding["grade"]), words(&finding["broken"]));
    line(&mut text, "at", &place(&finding["step"]));
    about(&mut text, finding, "because", names);
    let store = &finding["store"];
    if !store.is_null() && store["step"] != finding["step"] {
        let [new, slot, old] = ["new", "slot", "old"].map(|name| words(&store[name]));
        line(&mut text, "store", &format!("{new} at {slot}, was {old}"));
        line(&mut text, "by", &place(&store["step"]));
    }
    let tlbi = &finding["tlbi"];
    if !tlbi.is_null() {
        let [op, operand, why] = ["op", "operand", "why"].map(|name| words(&tlbi[name]));
        line(&mut text, "tlbi", &format!("{op}, {operand}: {why}"));
        line(&mut text, "by", &place(&tlbi["step"]));
    }
    let holders: Vec<String> =
        finding["held_by"].as_array().into_iter().flatten().map(ToString::to_string).collect();
    if !holders.is_empty() {
        line(&mut text, "held by", &format!("cpu {}, perhaps", holders.join(", ")));
    }
    line(&mut text, "right", words(&finding["right"]));
    line(&mut text, "rule", &format!("{}, {}", words(&finding["rule"]), words(&finding["section"])));
    let events = finding["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    for event in &events[events.len().saturating_sub(STEPS)..] {
        let at = event["function"].as_str().unwrap_or_else(|| words(&event["pc"]));
        let mark = if event["event"] == finding["step"]["event"] { ">" } else { " " };
        let _ = writeln!(text, "  {mark} {:>9}  {}  {at}", event["event"], words(&event["text"]));
    }
    if let Some(count) = finding["count"].as_u64().filter(|count| *count != 1) {
        let _ = writeln!(text, "  {count} times");
    }
    text
}

/// Says what was found and seen, and what was not judged.
fn last(document: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let counts = &document["counts"];
    let seconds = number(&document["milliseconds"]) as f64 / 1000.0_f64;
    let stores = match counts["stores"].as_u64() {
        Some(stores) => {
            format!("{stores} stores, of them {} to tables", counts["stores_that_concern_tables"])
        }
        None => format!("{} events", counts["events"]),
    };
    let (tlbis, needed) = (number(&counts["tlbis"]), number(&counts["tlbis_needed"]));
    let mut text = format!(
        "{} breaches, {} suspects, {} hints; {stores}; {tlbis} TLBIs, of them {} removed nothing; {seconds:.1} s; {}\n",
        document["breaches"],
        document["suspects"],
        document["hints"],
        tlbis.saturating_sub(needed),
        words(&document["ended_by"]),
    );
    let blocks: Vec<u64> = document["blocks"].as_array().into_iter().flatten().map(number).collect();
    let passed: Vec<String> = [(2usize, "EL2"), (3, "EL3"), (4, "AArch32")]
        .into_iter()
        .filter_map(|(at, name)| Some(format!("{name}: {} blocks", blocks.get(at).filter(|n| **n != 0)?)))
        .collect();
    let unknown = number(&counts["tables_not_known"]);
    let mut not_judged = passed;
    not_judged.push("loads".into());
    if unknown != 0 {
        not_judged.push(format!("{unknown} tables outside RAM, or in too many places"));
    }
    let _ = writeln!(text, "not judged: {}", not_judged.join("; "));
    let findings = document["findings"].as_array().into_iter().flatten();
    let allowed = findings.filter(|finding| finding.get("allowed").is_some()).count();
    if allowed != 0 {
        let _ = writeln!(text, "allowed: {allowed} findings");
    }
    let unused: Vec<&str> = document["unused"].as_array().into_iter().flatten().map(words).collect();
    if !unused.is_empty() {
        let _ = writeln!(text, "allowed, and not found: {}", unused.join("; "));
    }
    text
}
