//! `linmap plan`: predicts the linear map of a machine, before it is bought, configured or booted.
//!
//! - `options`: the command line.  `given`: the machine's memory.
//! - `iomem`, `virt`, `image`: /proc/iomem; QEMU's machine; a kernel's code and constants.
//! - `layout`: memory becomes a layout, by the code that the image runs.  `planned`: its counts.
//! - `report`, `document`: the plan for people and for programs.
//! - `sweep`, `fragments`, `plot`: growth with RAM, page size and read-only pages.
//! - `failure`: exit status 2.

mod document;
mod failure;
mod fragments;
mod given;
mod image;
mod iomem;
mod layout;
mod options;
mod planned;
mod plot;
mod report;
mod sweep;
mod virt;

use serde_json::Value;

pub(crate) use failure::Failure;
pub(crate) use given::{Given, MachineOptions};
pub(crate) use layout::{Laid, lay_out};
pub(crate) use options::Options;
pub(crate) use report::granule_name;

use crate::progress;
use crate::status::Status;
use crate::terminal;
use planned::Planned;

/// Makes the plan and prints it.
pub(crate) fn run(options: &Options) -> Status {
    progress::begin("planning");
    let outcome = plan(options);
    let printed = match &outcome {
        Ok(told) if options.json => terminal::print_document(&told.document),
        Ok(told) => terminal::print(&told.text),
        Err(failure) if options.json => terminal::print_document(&document::of_failure(failure)),
        Err(_) => Ok(()),
    };
    match (outcome, printed) {
        (Err(failure), _) => fail(&failure),
        (Ok(_), Err(error)) => fail(&Failure::Output(error.to_string())),
        (Ok(told), Ok(())) => {
            told.notes.iter().for_each(terminal::note);
            Status::Fine
        }
    }
}

/// The output of a run.
struct Told {
    text: String,
    document: Value,
    /// Notes on memory that is left out or moved.
    notes: Vec<String>,
}

fn plan(options: &Options) -> Result<Told, Failure> {
    options.refuse_random()?;
    match options.sweep {
        Some(_) => sweep(options),
        None => {
            let given = Given::read(&options.machine)?;
            let planned = Planned::of_all(&given, options.granules())?;
            let mut notes = given.notes.clone();
            notes.extend(planned.iter().flat_map(|p| &p.notes).cloned());
            notes.dedup();
            Ok(Told {
                text: report::of(&given, &planned),
                document: document::of(&given, &planned, &notes),
                notes,
            })
        }
    }
}

fn sweep(options: &Options) -> Result<Told, Failure> {
    let swept = sweep::run(options)?;
    if let Some(path) = &options.svg {
        let plot = plot::of(&swept).render().map_err(std::io::Error::other);
        let written = plot.and_then(|svg| std::fs::write(path, svg));
        written.map_err(|error| Failure::Svg { path: path.clone(), error })?;
    }
    let notes = swept.notes.clone();
    Ok(Told { text: report::of_sweep(&swept), document: document::of_sweep(&swept), notes })
}

fn fail(failure: &Failure) -> Status {
    terminal::error(failure);
    Status::Error
}
