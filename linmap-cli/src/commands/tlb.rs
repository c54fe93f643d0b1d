//! `linmap tlb`: what a linear map in pages or in large leaves means for the TLBs of a core.
//!
//! - `options`: what can be asked.  `core`: a core's parameters, and where each is from.
//! - `store`, `full`: what a TLB keeps.  `translation`: what a map is to it.  `unit`: two levels and walks.
//! - `placement`: which physical pages memory has.  `memory`: areas of it, and accesses to them.
//! - `workload`: what a kernel does, by name; `files`, `service`, `fork`, `uniform`.  `trace`: what was recorded.
//! - `experiment`: all of it together.  `figures`: over several seeds.  `published`: what was measured elsewhere.
//! - `report`, `document`, `plot`: the result.  `failure`: everything that is exit 2.

mod core;
mod document;
mod experiment;
mod failure;
mod figures;
mod files;
mod fork;
mod full;
mod memory;
mod options;
mod placement;
mod plot;
mod published;
mod report;
mod service;
mod store;
mod trace;
mod translation;
mod uniform;
mod unit;
mod workload;

pub(crate) use options::Options;

use crate::status::Status;
use crate::terminal;
use experiment::Experiment;
use failure::Failure;

/// Runs the workloads, and says what they came to.
pub(crate) fn run(options: &Options) -> Status {
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

/// With its plot written, if one is asked for.
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
