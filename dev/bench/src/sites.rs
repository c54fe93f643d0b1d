//! The sensitivity of `linmap judge`: each TLBI and DSB of a kernel is hidden from it in turn, while the kernel runs unchanged. The shares
//! are stored here, and shown by the book's page.
//!
//! `bench sites NAME [--update] -- JUDGE ARGUMENTS` runs the command once for each place in the code that an ordinary run executes, and
//! compares with what is stored for NAME. `make test-judge` calls it.

mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::figures::blocks;
use crate::{report, repository};
use kept::{Kept, Row, Verdict};

/// The file of stored shares.
const STORED: &str = "docs/benchmarks/judge.json";
/// The page that shows them.
const PAGE: &str = "docs/sensitivity.md";
/// Ordinary runs, whose findings are no news: they differ, as several CPUs run.
const ORDINARY: usize = 3;

/// The TLBIs that are hidden without notice, though they removed something: the subject, the function, the reason.
const REASONS: [(&str, &str, &str); 11] = [
    ("image", "kernel::identity::leave", LEFT),
    ("image", "kernel::memory::bring_up::{{closure}}", LEFT),
    ("image", "linmap::batch::TlbBatch::finish", SAME),
    ("linux-7.2", "__cpu_replace_ttbr1", SAME),
    ("linux-7.2", "__flush_tlb_range.constprop.0.isra.0", ENDS),
    ("linux-7.2", "__pi_early_map_kernel", KNOWN),
    ("linux-7.2", "__ptep_set_access_flags_anysz", LESS),
    ("linux-7.2", "cpu_enable_hw_dbm", SAME),
    ("linux-7.2", "flush_tlb_kernel_range", KNOWN),
    ("linux-7.2", "idmap_cpu_replace_ttbr1", SAME),
    ("linux-7.2", "secondary_start_kernel", LEFT),
];
/// The reasons.
const LEFT: &str = "What it removes is of a tree that the CPU leaves for good, under an ASID that no other tree has had since.";
const SAME: &str = "What it removes translates as the tables do.";
const ENDS: &str = "It is for a process that the CPU comes to afterwards, so that it is judged later; the end of the process removes all.";
const LESS: &str = "What it removes permits less than the tables do: a fault would be handled once more.";
const KNOWN: &str =
    "What is wrong without it is found with it, too: no DSB completes it, or the kernel invalidates lazily.";

/// Compares or stores shares.
///
/// # Errors
///
/// A run fails, less is noticed than is stored, the page shows other shares, or a file cannot be read or written.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let usage = || "expected NAME [--update] -- JUDGE ARGUMENTS".to_owned();
    let (own, judge) = args.split_at(args.iter().position(|arg| arg == "--").ok_or_else(usage)?);
    let (name, update) = match own {
        [name] => (name, false),
        [name, option] if option == "--update" => (name, true),
        _ => return Err(usage()),
    };
    let root = &repository::root()?;
    let now = measure(&Judge::new(root, &judge[1..]))?;
    let mut stored = Kept::read(&repository::read(root, STORED)?).map_err(|e| format!("{STORED}: {e}"))?;
    println!("{name}: {}", kept::shares(&now));
    if update {
        stored.0.insert(name.clone(), now);
        repository::write(root, STORED, &stored.text())?;
        repository::write(root, PAGE, &page(&repository::read(root, PAGE)?, &stored)?)?;
        println!("{STORED} and {PAGE} written for {name}");
        return Ok(());
    }
    let before = stored.0.get(name).ok_or_else(|| format!("{STORED} has no {name}; --update stores it"))?;
    kept::worse(before, &now).iter().for_each(|row| println!("less is noticed: {row}"));
    kept::compare(before, &now)
}

/// The command, with the arguments of a kernel.
struct Judge<'a> {
    program: std::path::PathBuf,
    arguments: &'a [String],
}

/// A finding by what it is and where.
type Found = (String, String, String, String);

impl<'a> Judge<'a> {
    fn new(root: &Path, arguments: &'a [String]) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
        Self { program: target.join("release/linmap"), arguments }
    }

    /// Runs the kernel, and returns the document.
    fn run(&self, hide: Option<&str>) -> Result<Value, String> {
        let mut command = Command::new(&self.program);
        command.args(["judge", "--json", "--seconds", "900"]).args(hide.map(|hide| format!("--hide={hide}")));
        let output = command.args(self.arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("{}: {e}", self.program.display()))?;
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if document["findings"].is_array() {
            return Ok(document);
        }
        Err(format!("{}: {}", hide.unwrap_or("the run"), String::from_utf8_lossy(&output.stderr)))
    }
}

/// Returns the function of a step.
fn function(step: &Value) -> String {
    let name = step["function"].as_str().unwrap_or("(no function)");
    name.rsplit_once("+0x").map_or(name, |(name, _)| name).to_owned()
}

/// Returns the breaches and suspects of a run.
fn found(document: &Value) -> BTreeSet<Found> {
    let findings = document["findings"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |f: &Value| {
        (text(&f["grade"]), text(&f["rule"]), function(&f["step"]), function(&f["store"]["step"]))
    };
    findings.filter(|finding| finding["grade"] != "hint").map(one).collect()
}

/// Hides each place in turn.
fn measure(judge: &Judge<'_>) -> Result<Vec<Row>, String> {
    let ordinary: Vec<Value> = (0..ORDINARY).map(|_| judge.run(None)).collect::<Result<_, _>>()?;
    let known: BTreeSet<Found> = ordinary.iter().flat_map(found).collect();
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    let sites = ordinary[0]["sites"].as_array().cloned().unwrap_or_default();
    for (n, site) in sites.iter().enumerate() {
        let what = site["what"].as_str().unwrap_or_default();
        let kind = what.split(' ').next().unwrap_or_default();
        let hidden = judge.run(Some(&format!("{kind}:{}", site["pc"].as_str().unwrap_or_default())))?;
        let news: BTreeSet<Found> = found(&hidden).difference(&known).cloned().collect();
        let needed = ordinary.iter().any(|run| {
            run["sites"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|s| s["pc"] == site["pc"] && s["needed"] != 0u64)
        });
        let verdict = match news.iter().map(|found| found.0.as_str()).min() {
            Some("breach") => Verdict::Breach,
            Some(_) => Verdict::Suspect,
            None if needed => Verdict::Silent,
            None => Verdict::Idle,
        };
        let key = (function(site), what.to_owned());
        eprintln!("{:>3} of {}: {}, {what}: {verdict:?}", n + 1, sites.len(), key.0);
        rows.entry(key.clone()).or_insert_with(|| Row::new(key)).count(verdict);
    }
    Ok(rows.into_values().collect())
}

/// Returns the table of a subject for the page.
///
/// # Errors
///
/// Nothing is stored for it, or what is not noticed has no reason.
pub(crate) fn table(root: &Path, name: &str) -> Result<String, String> {
    table_of(&Kept::read(&repository::read(root, STORED)?)?, name)
}

fn table_of(kept: &Kept, name: &str) -> Result<String, String> {
    let rows = kept.0.get(name).ok_or_else(|| format!("{STORED} has no {name}"))?;
    let cell = |n: u64| if n == 0 { String::new() } else { n.to_string() };
    let mut notes: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for row in rows {
        let mut silent = cell(row.of(Verdict::Silent));
        // A DSB that is not noticed had a later one before anything that the judge sees: the page says so of all.
        if !silent.is_empty() && row.what.starts_with("tlbi") {
            let reason = REASONS.iter().find(|(of, function, _)| (*of, *function) == (name, &row.function));
            let reason = reason.ok_or_else(|| format!("{name}: {} has no reason", row.function))?.2;
            let at = notes.iter().position(|note| *note == reason).unwrap_or_else(|| {
                notes.push(reason);
                notes.len() - 1
            });
            silent += &format!(" ({})", at + 1);
        }
        let [breach, suspect, idle] =
            [Verdict::Breach, Verdict::Suspect, Verdict::Idle].map(|v| cell(row.of(v)));
        lines.push(vec![
            format!("`{}`", row.function),
            format!("`{}`", row.what),
            breach,
            suspect,
            idle,
            silent,
        ]);
    }
    let mut text = report::table(
        &["function", "instruction", "breach", "suspect", "nothing needed it", "not noticed"],
        &lines,
    );
    text += &format!("\n{}.\n", kept::shares(rows));
    for (n, note) in notes.iter().enumerate() {
        text += &format!("{}{}. {note}\n", if n == 0 { "\n" } else { "" }, n + 1);
    }
    Ok(text)
}

/// Returns the page with the tables of what is stored.
fn page(shown: &str, kept: &Kept) -> Result<String, String> {
    blocks::generated(shown, |what| match what.split_once(' ') {
        Some(("sites", name)) if kept.0.contains_key(name) => table_of(kept, name).map(Some),
        _ => Ok(None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_what_is_stored_and_each_reason_is_needed() {
        let root = &repository::root().expect("a workspace");
        let shown = repository::read(root, PAGE).expect("the page");
        let kept = Kept::read(&repository::read(root, STORED).expect("the file")).expect("rows");
        for name in kept.0.keys() {
            assert!(
                shown.contains(&format!("<!-- figures: sites {name} -->")),
                "{PAGE} does not show {name}"
            );
        }
        assert_eq!(page(&shown, &kept).as_ref(), Ok(&shown), "{PAGE} is stale; --update writes it");
        for (name, function, _) in REASONS {
            let silent = |row: &Row| row.function == function && row.of(Verdict::Silent) != 0;
            let needs = |row: &Row| silent(row) && row.what.starts_with("tlbi");
            assert!(kept.0[name].iter().any(needs), "{name}: {function} needs no reason");
        }
    }

    #[test]
    fn a_finding_is_known_by_its_functions() {
        let document = serde_json::json!({ "findings": [
            { "grade": "breach", "rule": "Stale", "step": { "pc": "0x10", "function": "f+0x10" },
              "store": { "step": { "pc": "0x20" } } },
            { "grade": "hint", "rule": "Stale", "step": {}, "store": null },
        ]});
        let expected = ["breach", "Stale", "f", "(no function)"].map(str::to_owned);
        let [grade, rule, step, store] = expected;
        assert_eq!(found(&document), [(grade, rule, step, store)].into());
    }
}
