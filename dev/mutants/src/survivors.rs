//! The survivors that people have judged: a change of a line of code, its verdict, and the reason.
//!
//! Lines are found by their text, so that line numbers do not matter.

use std::fmt;
use std::path::Path;

use serde::Deserialize;

use crate::error::Error;
use crate::mutant::Mutant;

/// The judgement on a survivor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// No test can tell it from the library.
    Equivalent,
    /// It does the same with more work: instructions, barriers, table pages.
    Speed,
}

/// A survivor that was judged.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Survivor {
    /// The file, from the root of the repository on.
    pub(crate) file: String,
    /// The change, in the words of cargo-mutants.
    pub(crate) change: String,
    /// The line of code in which it begins. All such changes of such lines of the function are one survivor.
    pub(crate) code: String,
    /// The judgement.
    pub(crate) verdict: Verdict,
    /// The reason for it.
    pub(crate) reason: String,
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.file, self.change, self.code)
    }
}

/// The list of survivors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Survivors {
    #[serde(default, rename = "survivor")]
    pub(crate) all: Vec<Survivor>,
}

impl Survivors {
    /// Reads the list.
    ///
    /// # Errors
    ///
    /// It cannot be read, or a row is not of its form.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::of(path))?;
        Self::parse(&text).map_err(|detail| Error::Form { what: path.display().to_string(), detail })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let list: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match list.all.iter().find(|s| s.reason.trim().is_empty()) {
            Some(row) => Err(format!("no reason for {row}")),
            None => Ok(list),
        }
    }

    /// Returns the row of a mutant.
    pub(crate) fn of(&self, mutant: &Mutant) -> Option<&Survivor> {
        self.all.iter().find(|row| row.is(mutant))
    }
}

impl Survivor {
    /// True if it is this mutant.
    pub(crate) fn is(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file && self.change == mutant.change() && self.code == mutant.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_verdict_and_a_reason() {
        let row = |verdict: &str, reason: &str| {
            let rest = "file = 'a.rs'\nchange = 'replace < with <= in f'\ncode = 'if a < b {'";
            Survivors::parse(&format!("[[survivor]]\n{rest}\nverdict = '{verdict}'\nreason = '{reason}'"))
        };
        assert_eq!(row("speed", "It is slow.").unwrap().all[0].verdict, Verdict::Speed);
        assert!(row("equivalent", " ").unwrap_err().starts_with("no reason for a.rs"));
        assert!(row("unsure", "It is slow.").is_err());
        assert!(Survivors::parse("").unwrap().all.is_empty());
    }

    /// Each row is of a line that exists, and once in the list.
    #[test]
    fn the_list_is_of_this_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let list = Survivors::read(&root.join(crate::SURVIVORS)).unwrap();
        for (n, row) in list.all.iter().enumerate() {
            let text = std::fs::read_to_string(root.join(&row.file)).expect("a file of the library");
            assert!(text.lines().any(|line| line.trim() == row.code), "there is no such line: {row}");
            let same = |other: &Survivor| {
                (&other.file, &other.change, &other.code) == (&row.file, &row.change, &row.code)
            };
            assert!(!list.all[..n].iter().any(same), "twice: {row}");
        }
    }
}
