//! A saved log, judged as of code that announces nothing.

use std::io::BufRead;

use serde::Deserialize;

use super::memory::Told;
use super::observer::Observer;
use crate::Event;
use crate::json::maybe_hex;
use crate::replay::{ReplayError, open, read_event};

/// A line: an event, and the address of its instruction if that is known.
#[derive(Deserialize)]
struct Line {
    #[serde(default, with = "maybe_hex")]
    pc: Option<u64>,
    #[serde(flatten)]
    event: Event,
}

/// Watches a log: a line for the machine, then one for each event, which may have a `pc`. Empty lines do not count. Returns the
/// observer as it is at the end. Where all CPUs have ended what they did by then, [`Observer::finish`] judges what is left.
///
/// # Errors
///
/// The first line that cannot be read.
pub fn watch(log: impl BufRead) -> Result<Observer<Told>, ReplayError> {
    watch_to(log, usize::MAX).map(|(observer, _)| observer)
}

/// An event, and the address of its instruction; 0 if that is not known.
pub type Placed = (Event, u64);

/// Watches a log up to an event, from 0. Returns the observer as it is after it, and the event; `None` if the log has fewer.
///
/// # Errors
///
/// The first line that cannot be read.
pub fn watch_to(log: impl BufRead, last: usize) -> Result<(Observer<Told>, Option<Placed>), ReplayError> {
    let (mut observer, log) = open(log, |setup| Observer::new(&setup, Told::default()))?;
    for item in log {
        let (line, text) = item?;
        let Line { pc, event } = read_event(line, &text)?;
        let pc = pc.unwrap_or_default();
        observer.step(&event, pc);
        if observer.events() > last {
            return Ok((observer, Some((event, pc))));
        }
    }
    Ok((observer, None))
}
