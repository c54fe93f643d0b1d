//! `linmap boot`: runs the image under QEMU, shows its console and a summary or a document of the run.
//!
//! - `options`: the command line.  `tasks`: the values of `--run`.  `image`: finds the image.
//! - `command_line`: the command line of QEMU.
//! - `child`, `pulse`, `signals`, `supervise`: QEMU from its start to its certain end.
//! - `console`: bytes become text and documents.  `transcript`: the output of a run.
//! - `document`: merges partial documents.  `verdict`: judges a run.
//! - `leaves`, `cost`, `summary`: the linear map for people.  `failure`: exit status 2.

mod child;
mod command_line;
pub(crate) mod console;
mod cost;
pub(crate) mod document;
pub(crate) mod failure;
pub(crate) mod image;
mod leaves;
pub(crate) mod options;
mod pulse;
pub(crate) mod signals;
mod summary;
mod supervise;
mod tasks;
pub(crate) mod transcript;
mod verdict;

use std::io;
use std::time::Duration;

pub(crate) use options::Options;

use crate::status::Status;
use crate::terminal;
use console::Sink;
use document::Document;
use failure::Failure;
use supervise::{Job, Run};

/// Boots the image and reports the result.
pub(crate) fn run(options: &Options) -> Status {
    let outcome = boot(options).map_or_else(Outcome::of_failure, Outcome::of_run);
    if let Err(error) = outcome.print(options.json) {
        return fail(&Failure::Output(error.to_string()));
    }
    let status = outcome.explain();
    if let Err(Failure::Interrupted(signal)) = outcome.verdict {
        signals::end_by(signal);
    }
    status
}

/// Runs QEMU once.
fn boot(options: &Options) -> Result<Run, Failure> {
    let image = image::find(options.image.as_deref())?;
    supervise::run(Job {
        program: options.qemu.as_os_str(),
        arguments: &command_line::arguments(options, &image),
        timeout: Duration::from_secs(options.timeout.into()),
        idle: Duration::from_secs(options.idle.into()),
        console: if options.json { Sink::Stderr } else { Sink::Stdout },
    })
}

/// The result, once no QEMU runs any more.
struct Outcome {
    document: Document,
    /// The messages of QEMU itself.
    complaints: String,
    verdict: Result<Status, Failure>,
}

impl Outcome {
    fn of_run(run: Run) -> Self {
        let verdict = verdict::judge(&run);
        Self { document: run.transcript.document, complaints: run.complaints, verdict }
    }

    /// The result if nothing ran.
    fn of_failure(failure: Failure) -> Self {
        Self { document: Document::default(), complaints: String::new(), verdict: Err(failure) }
    }

    /// Prints the data: exactly one document with `--json`, otherwise the summary of a kernel that finished.
    fn print(&self, json: bool) -> io::Result<()> {
        if json {
            let document = self.document.concluded(self.reason());
            terminal::print_document(document.as_value())
        } else if self.verdict.is_ok() {
            terminal::print(&format!("\n{}", summary::of(&self.document)))
        } else {
            Ok(())
        }
    }

    /// Returns the reason that the run is not fine; the same for programs and for people.
    fn reason(&self) -> Option<String> {
        match &self.verdict {
            Ok(Status::Fine) => None,
            Ok(_) => Some(summary::failed_tests(&self.document)),
            Err(failure) => Some(failure.to_string()),
        }
    }

    /// Prints the messages, and returns the exit status.
    fn explain(&self) -> Status {
        let Some(reason) = self.reason() else { return Status::Fine };
        let complaints = self.complaints.trim_end();
        // A failure of QEMU quotes them itself.
        if !complaints.is_empty() && !matches!(self.verdict, Err(Failure::QemuDied { .. })) {
            terminal::note(format_args!("QEMU says: {complaints}"));
        }
        terminal::error(reason);
        self.verdict.as_ref().copied().unwrap_or(Status::Error)
    }
}

fn fail(failure: &Failure) -> Status {
    terminal::error(failure);
    Status::Error
}
