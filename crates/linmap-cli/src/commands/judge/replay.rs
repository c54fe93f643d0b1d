//! A saved log, judged again: a run does not repeat, and its log does.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Instant;

use linmap_model::observed::{document, moment, watch_to};

use super::answer::Answer;
use super::failure::Failure;
use super::names::{Names, address};
use super::options::Options;
use crate::status::Status;

/// Judges the events of a log, up to that of `--at`.
pub(crate) fn judge(log: &Path, options: &Options, answer: &Answer) -> Result<Status, Failure> {
    let begun = Instant::now();
    let file = File::open(log).map_err(|error| Failure::File { path: log.into(), error })?;
    let wrong = |why: String| Failure::NotJudged(format!("{}: {why}", log.display()));
    let watched = watch_to(BufReader::new(file), options.at.unwrap_or(usize::MAX));
    let (mut observer, last) = watched.map_err(|error| wrong(error.to_string()))?;
    let last = match (options.at, last) {
        (None, _) => {
            observer.finish();
            None
        }
        (Some(at), None) => {
            return Err(wrong(format!(
                "it has no event {at}: they are 0 to {}",
                observer.events().saturating_sub(1)
            )));
        }
        (Some(_), Some(last)) => Some(moment(&observer, &last)),
    };
    let mut document = document(&observer);
    let ended = options.at.map_or_else(|| "the log ended".to_owned(), |at| format!("event {at}"));
    if let Some(last) = last {
        document["at"] = last;
    }
    let names = Names::read(options.symbols.as_deref(), None)?;
    let names = names.in_guest(address(&document["vectors"]), || None);
    answer.give(document, &names, &ended, begun.elapsed())
}
