//! A saved log, judged as of code that announces nothing.

use std::io::BufRead;

use serde::Deserialize;

use super::memory::Told;
use super::observer::Observer;
use crate::event::maybe_hex;
use crate::json::read;
use crate::replay::{ReplayError, lines};
use crate::{Event, Setup};

/// A line: an event, and the address of its instruction if that is known.
#[derive(Deserialize)]
struct Line {
    #[serde(default, with = "maybe_hex")]
    pc: Option<u64>,
    #[serde(flatten)]
    event: Event,
}

/// Watches a log: a line for the machine, then one for each event, which may have a `pc`. Empty lines do not count. Returns the
/// observer as it is at the end.
///
/// # Errors
///
/// The first line that cannot be read.
pub fn watch(log: impl BufRead) -> Result<Observer<Told>, ReplayError> {
    let mut observer: Option<Observer<Told>> = None;
    let mut last = 0;
    for item in lines(log) {
        let (line, text) = item?;
        last = line;
        let malformed = |why: String| ReplayError::Malformed { line, why };
        match &mut observer {
            None => {
                let setup = Setup::from_json(&text).map_err(malformed)?;
                observer = Some(Observer::new(&setup, Told::default()).map_err(malformed)?);
            }
            Some(observer) => {
                let wrong = |event: Option<&str>| {
                    (event == Some("machine")).then_some("a second machine: a log describes one")
                };
                let Line { pc, event } = read(&text, wrong).map_err(malformed)?;
                observer.step(&event, pc.unwrap_or_default());
            }
        }
    }
    let mut observer = observer
        .ok_or(ReplayError::Malformed { line: last + 1, why: "no line describes the machine".into() })?;
    observer.finish();
    Ok(observer)
}
