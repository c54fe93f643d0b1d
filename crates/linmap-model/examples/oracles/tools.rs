//! The oracles: where they are, how they are asked, and what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The verdict of an oracle on a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// No objection: casemate checks the log, herd7 says that the wrong outcome is impossible.
    Right,
    /// An objection, in the oracle's words.
    Wrong(String),
    /// The log cannot be expressed, in the words of the exporter.
    Inexpressible(String),
    /// The oracle cannot be asked, or does not answer.
    Fails(String),
}

/// An oracle that is installed.
pub(crate) struct Oracle {
    program: PathBuf,
    arguments: &'static [&'static str],
    /// The end of the names of its files.
    pub(crate) extension: &'static str,
    understands: fn(&str, bool) -> Verdict,
}

/// Returns casemate's checker, if `LINMAP_CASEMATE` or the search path leads to it.
pub(crate) fn casemate() -> Option<Oracle> {
    let program = installed("LINMAP_CASEMATE", "casemate-check")?;
    Some(Oracle { program, arguments: &["--no-trace"], extension: "log", understands: casemate_says })
}

/// Returns herd7, if `LINMAP_HERD` or the search path leads to it.
pub(crate) fn herd() -> Option<Oracle> {
    let program = installed("LINMAP_HERD", "herd7")?;
    Some(Oracle {
        program,
        arguments: &["-variant", "vmsa,fatal"],
        extension: "litmus",
        understands: herd_says,
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

/// Reads "Observation NAME Never 0 4": a word, the executions with the outcome and those without it. Where there is no
/// execution at all, "Never" says nothing.
fn herd_says(text: &str, succeeds: bool) -> Verdict {
    let observation = text.lines().find(|line| line.starts_with("Observation ")).filter(|_| succeeds);
    let words: Vec<&str> = observation.unwrap_or_default().split_whitespace().skip(2).collect();
    match words[..] {
        ["Never", "0", others] if others != "0" => Verdict::Right,
        [word @ ("Sometimes" | "Always"), ..] => Verdict::Wrong(word.to_owned()),
        _ => Verdict::Fails(last_line(text)),
    }
}

fn last_line(text: &str) -> String {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing").to_owned()
}

impl Oracle {
    /// Asks the oracle about a file.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(words: &str) -> Verdict {
        Verdict::Fails(words.to_owned())
    }

    #[test]
    fn what_casemate_says() {
        assert_eq!(casemate_says("", true), Verdict::Right);
        assert_eq!(casemate_says("log: 24 transitions\n", true), Verdict::Right);
        let alarm = "24 (hw-write ...)\n! BBM valid->valid\n  at 0x10002000\n";
        for succeeds in [false, true] {
            assert_eq!(casemate_says(alarm, succeeds), Verdict::Wrong("BBM valid->valid".into()));
        }
        assert_eq!(casemate_says("reading\nparse error: line 3\n\n", false), fails("parse error: line 3"));
        assert_eq!(casemate_says("", false), fails("it says nothing"));
    }

    /// An answer of herd7 with this observation.
    fn answer(observation: &str) -> String {
        format!(
            "Test unmap Allowed\nStates 2\n1:X4=0;\n1:X4=1; fault(P1:L1,x);\nNo\nWitnesses\n\
             Condition exists (1:X4=1)\n{observation}\nTime unmap 0.12\nHash=0123\n"
        )
    }

    #[test]
    fn what_herd_says() {
        let says = |observation: &str| herd_says(&answer(observation), true);
        assert_eq!(says("Observation unmap Never 0 4"), Verdict::Right);
        assert_eq!(says("Observation unmap Sometimes 1 3"), Verdict::Wrong("Sometimes".into()));
        assert_eq!(says("Observation unmap Always 4 0"), Verdict::Wrong("Always".into()));
        // No execution, no counts, no observation.
        for observation in ["Observation unmap Never 0 0", "Observation unmap Never", ""] {
            assert_eq!(says(observation), fails("Hash=0123"), "{observation}");
        }
        let error = "Warning: File \"a.litmus\": unexpected 'TLBI' (in prog)\n";
        assert_eq!(herd_says(error, true), fails(error.trim()));
        assert_eq!(herd_says(&answer("Observation unmap Never 0 4"), false), fails("Hash=0123"));
        assert_eq!(herd_says("", false), fails("it says nothing"));
    }

    #[test]
    fn an_oracle_is_a_program() {
        let oracle = |program: &str| Oracle {
            program: program.into(),
            arguments: &[],
            extension: "txt",
            understands: casemate_says,
        };
        let file = std::env::temp_dir().join(format!("linmap-oracle-{}.txt", std::process::id()));
        std::fs::write(&file, "! an alarm\n").unwrap();
        let said = oracle("cat").judges(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(said, Verdict::Wrong("an alarm".into()));
        // It fails on a file that is not there.
        assert!(matches!(oracle("cat").judges(&file), Verdict::Fails(why) if why.contains("linmap-oracle-")));
        let missing = oracle("/nowhere/oracle").judges(&file);
        assert!(matches!(missing, Verdict::Fails(why) if why.starts_with("/nowhere/oracle: ")));
    }
}
