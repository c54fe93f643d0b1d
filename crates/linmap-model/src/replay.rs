//! A saved log, judged again.

use std::io::BufRead;

use crate::json::read;
use crate::{Breach, Event, Machine, Setup};

/// Why a log does not replay to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error("line {line}: {error}")]
    Unreadable {
        /// The line, from 1.
        line: usize,
        /// The error of the reader.
        error: std::io::Error,
    },
    /// A line is malformed.
    #[error("line {line}: {why}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The mistake in it.
        why: String,
    },
    /// A step breaks a rule.
    #[error("line {line}: {breach}")]
    Breach {
        /// The line, from 1.
        line: usize,
        /// The rule, with the facts and the last events.
        breach: Box<Breach>,
        /// The number of events that follow in the log. They are not judged.
        later: usize,
    },
}

/// Returns the lines of a log that are not empty, with their numbers from 1.
pub(crate) fn lines(log: impl BufRead) -> impl Iterator<Item = Result<(usize, String), ReplayError>> {
    let numbered = log.lines().enumerate().map(|(number, text)| (number + 1, text));
    let read = numbered.map(|(line, text)| match text {
        Ok(text) => Ok((line, text)),
        Err(error) => Err(ReplayError::Unreadable { line, error }),
    });
    read.filter(|line| !line.as_ref().is_ok_and(|(_, text)| text.trim().is_empty()))
}

/// Replays a log: a line for the machine, then one for each event. Empty lines do not count. After the last
/// event the machine is judged at rest ([`Machine::finish`]). Returns the number of events. What follows a breach is
/// counted only.
///
/// # Errors
///
/// The first line that cannot be read, or whose event breaks a rule; the last line, if the machine at rest breaks one.
pub fn replay(log: impl BufRead) -> Result<usize, ReplayError> {
    let mut machine: Option<Machine> = None;
    let mut last = 0;
    let mut log = lines(log);
    while let Some(item) = log.next() {
        let (line, text) = item?;
        last = line;
        let malformed = |why: String| ReplayError::Malformed { line, why };
        match &mut machine {
            None => {
                let setup = Setup::from_json(&text).map_err(malformed)?;
                machine = Some(Machine::new(&setup).map_err(malformed)?);
            }
            Some(machine) => {
                let event = read_event(&text).map_err(malformed)?;
                if let Err(breach) = machine.step(event) {
                    let later = log.map_while(Result::ok).count();
                    return Err(ReplayError::Breach { line, breach, later });
                }
            }
        }
    }
    match machine {
        Some(machine) => match machine.finish() {
            Ok(()) => Ok(machine.events()),
            Err(breach) => Err(ReplayError::Breach { line: last, breach, later: 0 }),
        },
        None => Err(ReplayError::Malformed { line: last + 1, why: "no line describes the machine".into() }),
    }
}

/// Reads a line after the first.
fn read_event(line: &str) -> Result<Event, String> {
    read(line, |event| (event == Some("machine")).then_some("a second machine: a log describes one"))
}

/// Reads a log without judging it: the machine, and its events.
///
/// # Errors
///
/// The first line that cannot be read. Never a breach.
pub fn read_log(log: impl BufRead) -> Result<(Setup, Vec<Event>), ReplayError> {
    let (mut setup, mut events, mut last) = (None, Vec::new(), 0);
    for item in lines(log) {
        let (line, text) = item?;
        last = line;
        let malformed = |why: String| ReplayError::Malformed { line, why };
        if setup.is_none() {
            setup = Some(Setup::from_json(&text).map_err(malformed)?);
        } else {
            events.push(read_event(&text).map_err(malformed)?);
        }
    }
    let none = ReplayError::Malformed { line: last + 1, why: "no line describes the machine".into() };
    setup.map(|setup| (setup, events)).ok_or(none)
}
