//! `--report DIR`: what the runs of `--env DIR` have left, summed up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::allow::Allowed;
use super::env::{JUDGED, STARTED};
use super::failure::Failure;
use super::files::{nothing_judged, read};
use super::names::{Names, address};
use super::options::Options;
use super::report;
use crate::commands::reading::schema;
use crate::status::Status;
use crate::terminal;

/// A run, as it was started, and its document, if it left one.
struct Run {
    started: Value,
    judged: Value,
}

/// Sums up the runs in a folder.
pub(crate) fn sum_up(directory: &Path, options: &Options) -> Result<Status, Failure> {
    let allowed = Allowed::read(options.allow.as_deref())?;
    let mut sum = Sum::default();
    for run in runs(directory)? {
        let told = options.symbols.as_deref();
        let names = told.map_or_else(|| Ok(run.names()), |file| Names::read(Some(file), None))?;
        let names = names.in_guest(address(&run.judged["vectors"]), || None);
        sum.add(run, &names, &allowed);
    }
    if sum.runs == 0 {
        return Err(Failure::NotJudged(format!("{}: no run is there", directory.display())));
    }
    let wrong = sum.of("breach") != 0 || options.strict && sum.of("suspect") != 0;
    let printed = if options.json {
        terminal::print_document(&sum.document(!wrong))
    } else if options.github {
        terminal::print(&sum.annotations())
    } else {
        terminal::print(&sum.text())
    };
    printed.map_err(Failure::Output)?;
    Ok(match (wrong, sum.not_judged.is_empty()) {
        (true, _) => Status::Findings,
        (false, false) => Status::Error,
        (false, true) => Status::Fine,
    })
}

/// Reads the runs of a folder, the first one first.
fn runs(directory: &Path) -> Result<Vec<Run>, Failure> {
    let failed = |error| Failure::File { path: directory.into(), error };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(STARTED).map(str::to_owned));
    }
    names.sort();
    let run = |name: String| Run {
        started: read(&directory.join(format!("{name}{STARTED}"))),
        judged: read(&directory.join(format!("{name}{JUDGED}"))),
    };
    Ok(names.into_iter().map(run).collect())
}

/// The runs of a folder. Equal findings are one.
#[derive(Default)]
struct Sum {
    runs: usize,
    /// By grade, the worst first, rule and place: the finding as text and as a document, and the runs with it.
    found: BTreeMap<(usize, String, String), Found>,
    /// Runs that were not judged, and why.
    not_judged: Vec<(String, String)>,
    /// Runs that were killed, and judged until then.
    killed: usize,
    tlbis: u64,
}

struct Found {
    text: String,
    finding: Value,
    runs: Vec<String>,
}

const GRADES: [&str; 2] = ["breach", "suspect"];

impl Run {
    /// Returns the command line.
    fn line(&self) -> String {
        let words = self.started["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(" ")
    }

    /// Returns the reason that it was not judged, if it was not.
    fn failure(&self) -> Option<String> {
        let why = self.started["not_judged"].as_str().or_else(|| nothing_judged(&self.judged))?;
        Some(if self.judged.is_null() && self.started["not_judged"].is_null() {
            format!("{why}: it did not start, or was killed at once")
        } else {
            why.to_owned()
        })
    }

    /// Returns the functions of its kernel, or none if its file cannot be read any more.
    fn names(&self) -> Names {
        let kernel = || {
            let words = self.started["arguments"].as_array()?;
            let at = words.iter().rposition(|word| word == "-kernel" || word == "--kernel")?;
            Some(Path::new(self.started["directory"].as_str()?).join(words.get(at + 1)?.as_str()?))
        };
        let told = self.started["symbols"].as_str().map(Path::new);
        Names::read(told, kernel().as_deref()).unwrap_or_default()
    }
}

impl Sum {
    fn add(&mut self, run: Run, names: &Names, allowed: &Allowed) {
        self.runs += 1;
        if let Some(why) = run.failure() {
            self.not_judged.push((run.line(), why));
            return;
        }
        self.killed += usize::from(run.judged["so_far"] == true);
        let mut document = names.named(run.judged.clone());
        allowed.apply(&mut document);
        self.tlbis += document["counts"]["tlbis"].as_u64().unwrap_or_default();
        for finding in document["findings"].as_array().into_iter().flatten() {
            let grade = GRADES.iter().position(|grade| finding["grade"] == *grade);
            let Some(grade) = grade.filter(|_| finding.get("allowed").is_none()) else { continue };
            let place = finding["step"]["function"].as_str().or(finding["step"]["pc"].as_str());
            let key = (grade, finding["rule"].to_string(), place.unwrap_or_default().to_owned());
            let found = self.found.entry(key).or_insert_with(|| Found {
                text: report::one(finding, names),
                finding: finding.clone(),
                runs: Vec::new(),
            });
            found.runs.push(run.line());
        }
    }

    /// Returns the number of findings of a grade.
    fn of(&self, grade: &str) -> usize {
        self.found.keys().filter(|key| GRADES[key.0] == grade).count()
    }

    fn last(&self) -> String {
        format!(
            "{} runs, {} of them until they were killed: {} breaches, {} suspects; {} TLBIs; {} runs not judged\n",
            self.runs,
            self.killed,
            self.of("breach"),
            self.of("suspect"),
            self.tlbis,
            self.not_judged.len()
        )
    }

    /// For people.
    fn text(&self) -> String {
        let mut text = String::from("\n");
        for found in self.found.values() {
            let more = found.runs.len() - 1;
            let others = if more == 0 { String::new() } else { format!(", and in {more} more runs") };
            text += &format!("{}  in {}{others}\n\n", found.text, found.runs[0]);
        }
        for (line, why) in &self.not_judged {
            text += &format!("not judged: {line}\n  {why}\n\n");
        }
        text + &self.last()
    }

    /// As annotations of GitHub's workflows.
    fn annotations(&self) -> String {
        // What its commands take as their own (`%`, line ends, and `,` and `:` in properties).
        let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
        let mut text = String::new();
        for ((grade, ..), found) in &self.found {
            let level = if *grade == 0 { "error" } else { "warning" };
            let at = found.finding["step"]["line"].as_str().and_then(|line| line.rsplit_once(':'));
            let place = at.map_or_else(String::new, |(file, line)| {
                format!("file={},line={},", property(file), property(line))
            });
            let title = format!("linmap judge: {}", found.finding["rule"].as_str().unwrap_or_default());
            text +=
                &format!("::{level} {place}title={}::{}\n", property(&title), data(found.text.trim_end()));
        }
        for (line, why) in &self.not_judged {
            text +=
                &format!("::warning title=linmap judge%3A not judged::{}\n", data(&format!("{line}: {why}")));
        }
        text + &format!("::notice title=linmap judge::{}\n", data(self.last().trim_end()))
    }

    fn document(&self, ok: bool) -> Value {
        let found = self.found.values().map(|found| json!({ "finding": found.finding, "runs": found.runs }));
        let not_judged = self.not_judged.iter().map(|(line, why)| json!({ "run": line, "why": why }));
        json!({
            "schema": schema("judge-report"),
            "ok": ok && self.not_judged.is_empty(),
            "runs": self.runs,
            "killed": self.killed,
            "breaches": self.of("breach"),
            "suspects": self.of("suspect"),
            "tlbis": self.tlbis,
            "found": found.collect::<Vec<_>>(),
            "not_judged": not_judged.collect::<Vec<_>>(),
        })
    }
}
