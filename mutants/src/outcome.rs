//! The outcomes of mutants, stored as they come: a line of JSON each.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
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
    /// The file cannot be read. A last line that is cut off is left out.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self { all: HashMap::new(), file: None }) };
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let file = file.map_err(Error::of(&path))?;
        let lines = BufReader::new(&file).lines().map_while(Result::ok);
        let known = lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok());
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
            writeln!(file, "{json}").map_err(Error::of(&*path))?;
        }
        self.all.insert(mutant.name.clone(), outcome);
        Ok(())
    }
}
