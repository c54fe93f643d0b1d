//! The other judges: where they are, how they are asked, and what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The verdict of a judge on a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// No objection: casemate checks the log, herd7 says that the wrong outcome is impossible.
    Right,
    /// An objection, in the judge's words.
    Wrong(String),
    /// The log cannot be expressed, in the words of the exporter.
    Inexpressible(String),
    /// The judge cannot be asked, or does not answer.
    Fails(String),
}

/// A judge that is installed.
pub(crate) struct Judge {
    program: PathBuf,
    arguments: &'static [&'static str],
    /// The end of the names of its files.
    pub(crate) extension: &'static str,
    understands: fn(&str, bool) -> Verdict,
}

/// Returns casemate's checker, if `LINMAP_CASEMATE` or the search path leads to it.
pub(crate) fn casemate() -> Option<Judge> {
    let program = installed("LINMAP_CASEMATE", "casemate-check")?;
    Some(Judge { program, arguments: &["--no-trace"], extension: "log", understands: casemate_says })
}

/// Returns herd7, if `LINMAP_HERD` or the search path leads to it.
pub(crate) fn herd() -> Option<Judge> {
    let program = installed("LINMAP_HERD", "herd7")?;
    Some(Judge {
        program,
        arguments: &["-variant", "vmsa,fatal"],
        extension: "litmus",
        understands: |text, _| herd_says(text),
    })
}

fn installed(variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

fn casemate_says(text: &str, succeeds: bool) -> Verdict {
    let alarm = text.lines().find_map(|line| line.strip_prefix("! "));
    match (alarm, succeeds) {
        (Some(alarm), _) => Verdict::Wrong(alarm.to_owned()),
        (None, true) => Verdict::Right,
        (None, false) => Verdict::Fails(last_line(text)),
    }
}

fn herd_says(text: &str) -> Verdict {
    let observation = text.lines().find(|line| line.starts_with("Observation "));
    match observation.and_then(|line| line.split(' ').nth(2)) {
        Some("Never") => Verdict::Right,
        Some(word) => Verdict::Wrong(word.to_owned()),
        None => Verdict::Fails(last_line(text)),
    }
}

fn last_line(text: &str) -> String {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing").to_owned()
}

impl Judge {
    /// Asks the judge about a file.
    pub(crate) fn judges(&self, file: &Path) -> Verdict {
        match Command::new(&self.program).args(self.arguments).arg(file).output() {
            Ok(output) => {
                let text = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
                (self.understands)(&text.concat(), output.status.success())
            }
            Err(error) => Verdict::Fails(format!("{}: {error}", self.program.display())),
        }
    }
}
