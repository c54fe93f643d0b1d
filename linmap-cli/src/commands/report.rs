//! `linmap report`: what `run=measure` measured on one machine or several, beside the model of TLBs and beside what was
//! published.
//!
//! - `options`: the command line.  `input`: a console's log or a document becomes a measurement.
//! - `measurement`: its values.  `verdict`: what two maps' times say.  `predicted`: the model of TLBs on the same accesses.
//! - `reported`: one file, measured and modelled.  `published`: measurements by others.
//! - `text`, `document`: the result.  `failure`: exit status 2.

mod document;
mod failure;
mod input;
mod measurement;
mod options;
mod predicted;
mod published;
mod reported;
mod text;
mod verdict;

pub(crate) use options::Options;

use crate::status::Status;
use crate::terminal;
use failure::Failure;
use reported::Reported;

/// Reads all files and prints the report.
pub(crate) fn run(options: &Options) -> Status {
    let outcome = report(options);
    let printed = match &outcome {
        Ok(reported) if options.json => terminal::print_document(&document::of(reported)),
        Ok(reported) => terminal::print(&text::of(reported)),
        Err(failure) if options.json => terminal::print_document(&document::of_failure(failure)),
        Err(_) => Ok(()),
    };
    match (outcome, printed) {
        (Err(failure), _) => fail(&failure),
        (Ok(_), Err(error)) => fail(&Failure::Output(error.to_string())),
        (Ok(reported), Ok(())) if reported.iter().any(|r| r.measurement.wrong() != 0) => Status::Findings,
        (Ok(_), Ok(())) => Status::Fine,
    }
}

fn report(options: &Options) -> Result<Vec<Reported>, Failure> {
    options.file.iter().map(|path| reported::read(path, options.core.as_deref())).collect()
}

fn fail(failure: &Failure) -> Status {
    terminal::error(failure);
    Status::Error
}
