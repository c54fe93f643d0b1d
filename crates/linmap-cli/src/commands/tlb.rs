//! `linmap tlb`: the TLB misses of a core over a linear map in pages and in large leaves. The model is `linmap_tlb`.
//!
//! - `options`: the command line.  `experiment`: all runs.  `figures`: their results over several seeds.
//! - `published`: measurements on hardware.  `report`, `document`, `plot`: the result.  `failure`: exit status 2.

mod document;
mod experiment;
mod failure;
mod figures;
mod options;
mod plot;
mod published;
mod report;

pub(crate) use experiment::core;
pub(crate) use failure::Failure;
pub(crate) use options::Options;

use crate::progress;
use crate::status::Status;
use crate::terminal;
use experiment::Experiment;

/// Runs the workloads and prints the result.
pub(crate) fn run(options: &Options) -> Status {
    progress::begin("preparing the accesses");
    let outcome = experiment::run(options).and_then(|done| plotted(options, done));
    let printed = match &outcome {
        Ok(done) if options.json => terminal::print_document(&document::of(options, done)),
        Ok(done) => terminal::print(&report::of(options, done)),
        Err(failure) if options.json => terminal::print_document(&document::of_failure(failure)),
        Err(_) => Ok(()),
    };
    match (outcome, printed) {
        (Err(failure), _) => fail(&failure),
        (Ok(_), Err(error)) => fail(&Failure::Output(error.to_string())),
        (Ok(done), Ok(())) => {
            done.notes.iter().for_each(terminal::note);
            Status::Fine
        }
    }
}

/// Writes the plot if the options name a file for one.
fn plotted(options: &Options, done: Experiment) -> Result<Experiment, Failure> {
    if let Some(path) = &options.svg {
        let plot = plot::of(options, &done).render().map_err(std::io::Error::other);
        let written = plot.and_then(|svg| std::fs::write(path, svg));
        written.map_err(|error| Failure::Svg { path: path.clone(), error })?;
    }
    Ok(done)
}

fn fail(failure: &Failure) -> Status {
    terminal::error(failure);
    Status::Error
}
