//! The answer to a run: what the command adds to the document, and how it is printed.

use std::time::Duration;

use serde_json::Value;

use super::allow::Allowed;
use super::failure::Failure;
use super::names::Names;
use super::options::Options;
use super::report;
use crate::commands::reading::schema;
use crate::status::Status;
use crate::terminal;

/// The wishes for an answer.
pub(crate) struct Answer {
    allowed: Allowed,
    strict: bool,
    json: bool,
}

impl Answer {
    pub(crate) fn new(options: &Options) -> Result<Self, Failure> {
        let allowed = Allowed::read(options.allow.as_deref())?;
        Ok(Self { allowed, strict: options.strict, json: options.json })
    }

    /// Prints the document of a run that ended for a reason.
    pub(crate) fn give(
        &self,
        document: Value,
        names: &Names,
        ended: &str,
        time: Duration,
    ) -> Result<Status, Failure> {
        let mut document = names.named(document);
        self.allowed.apply(&mut document);
        let document = self.concluded(document, ended, time);
        if self.json {
            terminal::print_document(&document).map_err(Failure::Output)?;
        } else {
            terminal::print(&report::of(&document, names)).map_err(Failure::Output)?;
        }
        Ok(if document["ok"] == true { Status::Fine } else { Status::Findings })
    }

    /// Adds what the command knows of a run to the observer's document.
    fn concluded(&self, mut document: Value, ended: &str, time: Duration) -> Value {
        let of = |grade: &str| {
            let found = document["findings"].as_array().into_iter().flatten();
            found.filter(|finding| finding["grade"] == grade && finding.get("allowed").is_none()).count()
        };
        let [breaches, suspects, hints] = ["breach", "suspect", "hint"].map(of);
        document["schema"] = schema("judge").into();
        document["ok"] = (breaches == 0 && !(self.strict && suspects != 0)).into();
        document["breaches"] = breaches.into();
        document["suspects"] = suspects.into();
        document["hints"] = hints.into();
        document["milliseconds"] = (time.as_millis() as u64).into();
        document["ended_by"] = ended.into();
        document
    }
}
