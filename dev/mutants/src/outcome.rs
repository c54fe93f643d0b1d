//! The outcomes of mutants, stored as they come: a line of JSON each.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::mutant::Mutant;

/// The end of a mutant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// This test failed.
    Caught(String),
    /// This test did not end within its limit of CPU time.
    Timeout(String),
    /// It does not compile.
    Unviable,
    /// All tests pass.
    Survived,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught(by) => write!(f, "caught by {by}"),
            Self::Timeout(by) => write!(f, "timed out in {by}"),
            Self::Unviable => write!(f, "unviable"),
            Self::Survived => write!(f, "SURVIVED"),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    name: String,
    outcome: Outcome,
}

/// The outcomes so far.
pub(crate) struct Outcomes {
    all: HashMap<String, Outcome>,
    /// Where they are stored.
    file: Option<(PathBuf, File)>,
}

impl Outcomes {
    /// Reads what is stored, and stores there. Without a file nothing is stored.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written. A last line that is cut off is left out, and ended: the next outcome has a
    /// line of its own.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self { all: HashMap::new(), file: None }) };
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = file.map_err(Error::of(&path))?;
        let mut stored = Vec::new();
        file.read_to_end(&mut stored).map_err(Error::of(&path))?;
        if stored.last().is_some_and(|&last| last != b'\n') {
            file.write_all(b"\n").map_err(Error::of(&path))?;
        }
        // A cut may leave what is no text.
        let lines = stored.split(|&byte| byte == b'\n');
        let known = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        let all = known.map(|line| (line.name, line.outcome)).collect();
        Ok(Self { all, file: Some((path, file)) })
    }

    /// Returns the outcome of a mutant that has been judged.
    pub(crate) fn of(&self, mutant: &Mutant) -> Option<&Outcome> {
        self.all.get(&mutant.name)
    }

    /// Adds an outcome.
    ///
    /// # Errors
    ///
    /// It cannot be stored.
    pub(crate) fn add(&mut self, mutant: &Mutant, outcome: Outcome) -> Result<(), Error> {
        if let Some((path, file)) = &mut self.file {
            let line = Line { name: mutant.name.clone(), outcome: outcome.clone() };
            let json = serde_json::to_string(&line).expect("strings alone");
            file.write_all(format!("{json}\n").as_bytes()).map_err(Error::of(&*path))?;
        }
        self.all.insert(mutant.name.clone(), outcome);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A file that is removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("linmap-outcomes-{}-{name}", std::process::id()));
            _ = fs::remove_file(&path);
            Self(path)
        }

        fn open(&self) -> Outcomes {
            Outcomes::open(Some(self.0.clone())).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            _ = fs::remove_file(&self.0);
        }
    }

    fn mutants() -> [Mutant; 4] {
        ["a", "é", "c", "d"].map(|name| Mutant::named(&format!("a.rs:1:1: replace {name} with ()")))
    }

    #[test]
    fn outcomes_are_resumed() {
        let (file, [a, b, c, d]) = (Scratch::new("resumed"), mutants());
        let rows = [
            (&a, Outcome::Caught("live sequences::random".into())),
            (&b, Outcome::Timeout("lib".into())),
            (&c, Outcome::Unviable),
            (&d, Outcome::Survived),
        ];
        for (mutant, outcome) in &rows {
            // Each is added by a run of its own.
            let mut outcomes = file.open();
            assert_eq!(outcomes.of(mutant), None);
            outcomes.add(mutant, outcome.clone()).unwrap();
            assert_eq!(outcomes.of(mutant), Some(outcome));
        }
        let outcomes = file.open();
        rows.iter().for_each(|(mutant, outcome)| assert_eq!(outcomes.of(mutant), Some(outcome)));
    }

    /// A run is killed while it writes a line: at any byte of it, also in the middle of a character.
    #[test]
    fn after_a_line_that_is_cut_off_nothing_else_is_lost() {
        let (file, [a, b, c, _]) = (Scratch::new("cut"), mutants());
        let mut outcomes = file.open();
        outcomes.add(&a, Outcome::Survived).unwrap();
        let first = fs::read(&file.0).unwrap().len();
        outcomes.add(&b, Outcome::Survived).unwrap();
        let whole = fs::read(&file.0).unwrap();
        for cut in first..=whole.len() {
            fs::write(&file.0, &whole[..cut]).unwrap();
            file.open().add(&c, Outcome::Unviable).unwrap();
            let outcomes = file.open();
            assert_eq!(outcomes.of(&a), Some(&Outcome::Survived));
            assert_eq!(outcomes.of(&b).is_some(), cut + 1 >= whole.len(), "{cut}");
            assert_eq!(outcomes.of(&c), Some(&Outcome::Unviable), "{cut}");
        }
    }

    #[test]
    fn without_a_file_nothing_is_stored() {
        let [a, ..] = mutants();
        let mut outcomes = Outcomes::open(None).unwrap();
        outcomes.add(&a, Outcome::Survived).unwrap();
        assert_eq!(outcomes.of(&a), Some(&Outcome::Survived));
    }
}
