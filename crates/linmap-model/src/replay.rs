//! A saved log, judged again.

use std::io::BufRead;

use serde::de::DeserializeOwned;

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

/// A line with its number from 1, or the reason why it cannot be read.
pub(crate) type Line = Result<(usize, String), ReplayError>;

/// Opens a log: returns the machine that its first line describes, made of it by `make`, and the lines after that with their numbers
/// from 1. Empty lines do not count.
///
/// # Errors
///
/// There is no such line, it cannot be read, or `make` refuses the machine.
pub(crate) fn open<T, L: BufRead>(
    log: L,
    make: impl FnOnce(Setup) -> Result<T, String>,
) -> Result<(T, impl Iterator<Item = Line>), ReplayError> {
    let numbered = log.lines().enumerate().map(|(number, text)| (number + 1, text));
    let read = numbered.map(|(line, text)| match text {
        Ok(text) => Ok((line, text)),
        Err(error) => Err(ReplayError::Unreadable { line, error }),
    });
    let mut lines = read.filter(|line| !line.as_ref().is_ok_and(|(_, text)| text.trim().is_empty()));
    let none = || ReplayError::Malformed { line: 1, why: "no line describes the machine".into() };
    let (line, text) = lines.next().ok_or_else(none)??;
    let made = Setup::from_json(&text).and_then(make);
    Ok((made.map_err(|why| ReplayError::Malformed { line, why })?, lines))
}

/// Replays a log: a line for the machine, then one for each event. Empty lines do not count. After the last
/// event the machine is judged at rest ([`Machine::finish`]). Returns the number of events. What follows a breach is
/// counted only.
///
/// # Errors
///
/// The first line that cannot be read, or whose event breaks a rule; the last line, if the machine at rest breaks one.
pub fn replay(log: impl BufRead) -> Result<usize, ReplayError> {
    let (mut machine, mut log) = open(log, |setup| Machine::new(&setup))?;
    let mut last = 1;
    while let Some(item) = log.next() {
        let (line, text) = item?;
        last = line;
        if let Err(breach) = machine.step(read_event(line, &text)?) {
            let later = log.map_while(Result::ok).count();
            return Err(ReplayError::Breach { line, breach, later });
        }
    }
    match machine.finish() {
        Ok(()) => Ok(machine.events()),
        Err(breach) => Err(ReplayError::Breach { line: last, breach, later: 0 }),
    }
}

/// Reads a line after the first: an event, or more than that.
///
/// # Errors
///
/// The mistake in it.
pub(crate) fn read_event<T: DeserializeOwned>(line: usize, text: &str) -> Result<T, ReplayError> {
    let again =
        |event: Option<&str>| (event == Some("machine")).then_some("a second machine: a log describes one");
    read(text, again).map_err(|why| ReplayError::Malformed { line, why })
}

/// Reads a log without judging it: the machine, and its events.
///
/// # Errors
///
/// The first line that cannot be read. Never a breach.
pub fn read_log(log: impl BufRead) -> Result<(Setup, Vec<Event>), ReplayError> {
    let (setup, mut log) = open(log, Ok)?;
    let events = log.try_fold(Vec::new(), |mut events, item| {
        let (line, text) = item?;
        events.push(read_event(line, &text)?);
        Ok(events)
    });
    Ok((setup, events?))
}
