//! `linmap report`: what `run=measure` measured on one machine or several, beside the model of TLBs and beside what was
//! published.
//!
//! - `options`: the command line.  `input`: a file becomes a measurement.  `log`: the log of a console becomes a document.
//! - `measurement`: its values.  `verdict`: what two maps' times say.  `predicted`: the model of TLBs on the same accesses.
//! - `reported`: one file, measured and modelled.  `published`: measurements by others.
//! - `sections`: the result as tables and sentences.  `plot`: it as lines.  `text`, `html`, `document`: it as a whole.
//! - `failure`: exit status 2.

mod document;
mod failure;
mod html;
mod input;
mod log;
mod measurement;
mod options;
mod plot;
mod predicted;
mod published;
mod reported;
mod sections;
mod text;
mod verdict;

pub(crate) use options::Options;

use std::path::{Path, PathBuf};

use crate::distinct::distinct;
use crate::progress;
use crate::status::Status;
use crate::terminal;
use failure::Failure;
use reported::Reported;

/// Reads all files and prints the report.
pub(crate) fn run(options: &Options) -> Status {
    progress::begin("reading reports");
    let outcome = distinct_files(options)
        .and_then(|()| report(options))
        .and_then(|reported| written(options, reported));
    let printed = match &outcome {
        Ok(reported) if options.json => terminal::print_document(&document::of(reported)),
        Ok(reported) => terminal::print(&text::of(&sections::of(reported))),
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

fn distinct_files(options: &Options) -> Result<(), Failure> {
    let read: Vec<&Path> = options.file.iter().map(PathBuf::as_path).collect();
    Ok(distinct(&[options.svg.as_deref(), options.html.as_deref()], &read)?)
}

fn report(options: &Options) -> Result<Vec<Reported>, Failure> {
    options.file.iter().map(|path| reported::read(path, options.core.as_deref())).collect()
}

/// Writes the files that the options name.
fn written(options: &Options, reported: Vec<Reported>) -> Result<Vec<Reported>, Failure> {
    let plot = || plot::of(&reported).render().map_err(std::io::Error::other);
    let write = |path: &Path, what, content: std::io::Result<String>| {
        let written = content.and_then(|text| std::fs::write(path, text));
        written.map_err(|error| Failure::File { what, path: path.into(), error })
    };
    if let Some(path) = &options.svg {
        write(path, "the plot", plot())?;
    }
    if let Some(path) = &options.html {
        write(path, "the page", plot().map(|svg| html::of(&sections::of(&reported), &svg)))?;
    }
    Ok(reported)
}

fn fail(failure: &Failure) -> Status {
    terminal::error(failure);
    Status::Error
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use test_support::prelude::*;

    /// Returns the values in a document that have no others in them.
    fn values(value: &mut Value) -> Vec<&mut Value> {
        match value {
            Value::Object(keys) => keys.values_mut().flat_map(values).collect(),
            Value::Array(items) => items.iter_mut().flat_map(values).collect(),
            other => vec![other],
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<u64>().prop_map(|number| json!(number)),
            (0..70u32).prop_map(|log| json!(1u64.checked_shl(log).unwrap_or(0))),
            (0..64u32).prop_map(|log| json!(format!("{:#x}", 1u64 << log))),
            Just(json!(true)),
            Just(json!("loads")),
        ]
    }

    proptest! {
        /// Whatever a file says, it is refused or reported in every form.
        #[test]
        fn strange_numbers_are_refused_or_reported(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 0..4),
        ) {
            let mut value = input::tests::smallest();
            for (at, new) in changes {
                let mut all = values(&mut value);
                let at = at.index(all.len());
                *all[at] = new;
            }
            if let Ok(measurement) = input::tests::parsed(&value) {
                let predicted = predicted::of(&measurement, Some("neoverse-n1")).expect("a core");
                let reported = [Reported { measurement, predicted }];
                let sections = sections::of(&reported);
                prop_assert!(text::of(&sections).ends_with('\n'));
                let svg = plot::of(&reported).render();
                prop_assert!(html::of(&sections, &svg.expect("room")).contains("<svg "));
                prop_assert_eq!(&document::of(&reported)["schema"], "linmap.report/1");
            }
        }
    }
}
